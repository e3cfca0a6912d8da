"""A sample of the wild sweep: every legal event is answered, or refused by a rule that its error names."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from event_examples import KINDS, Wild
from tacit.core.events import Event, Gaussian

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
    answered = 0
    for index in range(25):
        answer = sweep.one_event(seed, index)
        assert "raised" not in answer, answer
        assert "infinite" not in answer, answer
        assert answer["broken"] == []
        assert answer.get("unsupported", "a rule")
        answered += "upper" in answer
        if "upper" in answer:
            assert 0 <= answer["lower"] <= answer["upper"]
    assert answered >= 12


def test_a_broken_law_is_told(sweep, monkeypatch):
    """An upper end that is too small, as a mutant would make it, contradicts the other questions' lower ends."""
    right = sweep.asked
    monkeypatch.setattr(
        sweep, "asked", lambda *given: {**right(*given), "upper": 0.01} if given[3] < 1e-6 else right(*given)
    )
    event = sweep.Gaussian(1.0)
    question = event, sweep.Adjacency.ADD_REMOVE, 1, 2e-6
    assert sweep.broken_laws(*question, sweep.asked(*question)) == ["a smaller delta costs less"]


def test_every_event_of_the_registry_is_drawn():
    built_in = {name for name, cls in Event.registry.items() if cls.__module__.startswith("tacit.core.events.")}
    assert set(KINDS) == built_in
    for name, kind in KINDS.items():
        for seed in range(20):
            drawn = kind.draw(Wild(seed), Gaussian(1.0))
            assert type(drawn).__name__ == name == type(kind.example).__name__
            assert Event.from_json(drawn.to_json()) == drawn


def test_wild_targets_are_met(sweep):
    for index in range(8):
        found = sweep.one_setting(4, index)
        assert "raised" not in found
        assert "meets the target" in found.get("refused", "meets the target")


def test_wild_training_is_sharp(sweep):
    found = sweep.summary("training", [sweep.one_training(5, index) for index in range(40)])
    assert found["raised"] == []
    assert found["gap"]["largest"] <= 1e-3
    assert math.isfinite(found["ms"]["largest"])
