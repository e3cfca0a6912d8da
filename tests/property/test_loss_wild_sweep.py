"""A sample of the wild sweep: every legal event is answered, or refused by a rule that its error names."""

import importlib
import math
import sys
from pathlib import Path

import pytest

from event_examples import KINDS, Wild
from tacit.core.events import DiscreteGaussian, Event, Gaussian

HOME = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def sweep():
    sys.path.insert(0, str(HOME))
    try:
        return importlib.import_module("accounting_wild")  # by its name, so that worker processes find it
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


def test_an_end_that_contradicts_a_sum_over_all_outcomes_is_told(sweep):
    """Two releases of discrete noise: brute force knows epsilon, so an upper end 1 % too small is found."""
    given = sweep.Repeat(DiscreteGaussian(2.0), 2), sweep.Adjacency.ADD_REMOVE, 1, 1e-5
    right = sweep.asked(*given)
    checked, missed = sweep.disagreements(*given, right)
    assert "sum over outcomes" in checked
    assert missed == []
    assert sweep.disagreements(*given, {**right, "upper": 0.99 * right["upper"]})[1]
    assert sweep.disagreements(*given, {**right, "lower": 1.01 * right["lower"]})[1]


def test_an_end_that_contradicts_a_peer_is_told(sweep):
    pytest.importorskip("dp_accounting")
    given = sweep.Repeat(sweep.Poisson(0.05, sweep.Gaussian(2.0)), 20), sweep.Adjacency.ADD_REMOVE, 1, 1e-5
    right = sweep.asked(*given)
    checked, missed = sweep.disagreements(*given, right)
    assert {"dp-accounting PLD", "dp-accounting Renyi"} <= set(checked)
    assert missed == []
    assert sweep.disagreements(*given, {**right, "lower": 2 * right["upper"]})[1]


def test_workers_share_the_questions(sweep):
    """Several processes give the answers of one, in the same order; only times differ."""
    questions = [("training", index) for index in range(6)]
    alone, shared = (list(sweep.answers_of(iter(questions), 3, workers)) for workers in (1, 2))
    strip = lambda found: [(part, index, answer["gap"]) for part, index, answer in found]  # noqa: E731
    assert strip(alone) == strip(shared)
