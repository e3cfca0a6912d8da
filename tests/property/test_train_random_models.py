"""A sample of `benchmarks/random_models.py`: whatever is accepted keeps what is promised; and the kept result does."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tacit.train.clip import Clipper
from train_mutants import last_twice

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("random_models")


@pytest.mark.parametrize("seed", [*range(2000, 2005), *range(4000, 4004)])
def test_a_model_at_random_keeps_what_is_promised(models: Any, seed: int) -> None:
    row = models.tried(seed)
    assert not models.bad(row), row


def test_mutant_a_sum_that_is_not_clipped(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the records' gradients, one is counted twice."""
    seed = next(seed for seed in range(2000, 2100) if models.tried(seed)["way"] == "at once")
    monkeypatch.setattr(Clipper, "together", last_twice(Clipper.together))
    assert models.bad(models.tried(seed))


def test_the_kept_models_keep_what_is_promised(models: Any) -> None:
    rows = json.loads((BENCHMARKS / "results" / "random-models.json").read_text(encoding="utf-8"))["rows"]
    assert not [seed for seed, row in rows.items() if models.bad(row)]
    assert sum(row["way"] == "at once" for row in rows.values()) >= 100
    assert sum(row["way"] == "one by one" for row in rows.values()) >= 30
