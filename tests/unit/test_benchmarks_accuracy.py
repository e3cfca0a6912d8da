"""The accuracy benchmark at its smallest: made-up images, cached features, rows kept and not measured again."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    import accuracy

    rng = np.random.default_rng(0)
    y = np.arange(300) % 10
    x = rng.integers(0, 40, (300, 1, 8, 8))
    x[np.arange(300), 0, y // 2, 4 * (y % 2)] = 255
    x = x.astype(np.uint8)
    calls = []

    def images(name):
        calls.append(name)
        return x[:250], y[:250], x[250:], y[250:]

    monkeypatch.setattr(accuracy, "images", images)
    monkeypatch.setattr(accuracy, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(accuracy, "RESULT", tmp_path / "accuracy.json")
    monkeypatch.setattr(accuracy.machine, "RESULTS", tmp_path)
    monkeypatch.setattr(accuracy, "RUNS", {"tiny": accuracy.Run("dots", 50.0, 0.5, "linear", 125, 30, 8.0)})
    monkeypatch.setattr(sys, "argv", ["accuracy.py", "--seeds", "1"])
    accuracy.calls = calls
    yield accuracy
    for name in ("accuracy", "machine", "pictures"):
        sys.modules.pop(name, None)


def test_a_run_is_measured_once_and_its_row_says_how(bench, capsys):
    bench.main()
    (row,) = json.loads(bench.RESULT.read_text())["rows"]
    assert row["accuracy"] > 0.5
    assert row["epsilon"] <= 50.0
    assert (row["seed"], row["on"], row["steps"], row["batch"]) == (0, "test", 60, 125)
    bench.main()
    assert json.loads(bench.RESULT.read_text())["rows"] == [row]
    assert bench.calls == ["dots"]
    assert "not in epsilon" in capsys.readouterr().out


def test_settings_are_chosen_without_the_test_records(bench):
    row = bench.measured("tiny", 0, validation=True, device=torch.device("cpu"))
    assert row["on"] == "validation"
    assert not bench.RESULT.exists()


def test_features_are_normalised_record_by_record(bench):
    x = torch.rand(5, 81, 2, 2)
    whole = bench.normalised(x, 27)
    torch.testing.assert_close(bench.normalised(x[:2], 27), whole[:2])
    grouped = whole.reshape(5, 27, -1)
    assert grouped.mean(2).abs().max() < 1e-5
