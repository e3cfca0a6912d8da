"""A sample of the wild sweep: every legal event is answered, or refused by a rule that its error names."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def sweep():
    sys.path.insert(0, str(HOME))
    try:
        spec = importlib.util.spec_from_file_location("accounting_wild", HOME / "accounting_wild.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(HOME))


@pytest.mark.parametrize("seed", [1, 2])
def test_wild_events_are_answered(sweep, seed):
    wild, answered = sweep.Wild(seed), 0
    for _ in range(25):
        question = wild.question()
        answer = sweep.asked(*question)
        assert "raised" not in answer, (question, answer)
        assert answer.get("unsupported", "a rule")
        answered += "upper" in answer
        if "upper" in answer:
            assert 0 <= answer["lower"] <= answer["upper"]
    assert answered >= 12


def test_wild_targets_are_met(sweep):
    found = sweep.settings(sweep.Wild(4), 8)
    assert found["raised"] == []
    assert all("meets the target" in text for text in found["no such setting"])


def test_wild_training_is_sharp(sweep):
    found = sweep.training_sweep(sweep.Wild(5), 40)
    assert found["raised"] == []
    assert found["gap"]["largest"] <= 1e-3
    assert math.isfinite(found["ms"]["largest"])
