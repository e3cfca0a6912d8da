"""`tacit gap`: rows over settings and sizes, one picture, and what the sentence says of them."""

import json

import numpy as np
import pytest

from command import Command
from tacit.core import Estimate
from tacit.study.gap import Setting
from tacit.study.gap_settings import agreement, hidden_layer, networks

pytest.importorskip("torch")


@pytest.fixture
def tacit(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 4))
    y = (x[:, 0] + 1.5 * rng.normal(size=240) > 0).astype(int)
    rows = [",".join([*(f"{value:.4f}" for value in row), str(label)]) for row, label in zip(x, y, strict=True)]
    (tmp_path / "people.csv").write_text("a,b,c,d,ill\n" + "\n".join(rows) + "\n")
    (tmp_path / "run.toml").write_text('[data]\nsource = "people.csv"\nlabel = "ill"\n')
    return Command(capsys, monkeypatch)


def test_settings_and_sizes_in_one_command(tacit, tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.study.gap_settings.EPOCHS", (1, 5, 80))
    status, out, told = tacit("gap", "run.toml", "--seed", "1", "--references", "2", "--json")
    assert status == 0
    assert "setting 10 of 10: middle, 60 records" in told
    found = json.loads(out)
    names = [row["name"] for row in found["settings"]]
    assert names[:3] == ["middle", "4 hidden units", "256 hidden units"]
    assert {"1 epochs", "80 epochs", "weight decay 0", "weight decay 0.01"} < set(names)
    assert [row["members"] for row in found["settings"][-3:]] == [15, 30, 60]
    by_name = dict(zip(names, found["settings"], strict=True))
    assert by_name["80 epochs"]["gap"] > by_name["1 epochs"]["gap"] + 0.1
    assert by_name["80 epochs"]["auc"]["value"] > by_name["1 epochs"]["auc"]["value"]
    assert -1 <= found["rank_correlation"] <= 1
    assert (tmp_path / "tacit-gap" / "gap.svg").read_text().count("<circle") == len(names)


def test_a_training_of_ones_own_is_compared_over_sizes(tacit, tmp_path):
    pytest.importorskip("sklearn")
    (tmp_path / "gap_of_a_tree.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n"
        "def fit(x, y, rng):\n    return DecisionTreeClassifier(random_state=0).fit(x, y).predict_proba\n"
    )
    (tmp_path / "run.toml").write_text(
        '[data]\nsource = "people.csv"\nlabel = "ill"\n[model]\nfit = "gap_of_a_tree:fit"\n[output]\nseed = 3\n'
    )
    status, out, told = tacit("gap", "run.toml", "--references", "2")
    assert status == 0
    assert "setting 1 of 4: fit, 15 records, and 2 reference models" in told
    assert "setting 4 of 4: fit, 120 records" in told
    assert "fit, 15 records" in out
    assert "fit, 120 records" in out


def test_too_few_records(tacit, tmp_path):
    (tmp_path / "people.csv").write_text("a,ill\n" + "\n".join(f"{k},{k % 2}" for k in range(20)) + "\n")
    status, _, error = tacit("gap", "run.toml")
    assert status == 2
    assert "at least 64 records" in error


def row(gap, area):
    return Setting("row", 10, 0.5 + gap, 0.5, Estimate(area, 0.0, 1.0, 0.95, 10), Estimate(0.1, 0.0, 1.0, 0.95, 10))


def test_rank_correlation_by_hand():
    assert agreement([row(0.1, 0.5), row(0.2, 0.6), row(0.3, 0.9)]) == pytest.approx(1.0)
    assert agreement([row(0.1, 0.9), row(0.2, 0.6), row(0.3, 0.5)]) == pytest.approx(-1.0)
    assert agreement([row(0.1, 0.5), row(0.1, 0.6)]) is None


def test_one_setting_changes_at_a_time():
    assert len(networks(2)) == 7


def test_the_same_generator_trains_the_same_network():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    one, other = (hidden_layer(2, 8, 3, 0.0)(x, y, np.random.default_rng(5))(x) for _ in range(2))
    assert np.array_equal(one, other)
