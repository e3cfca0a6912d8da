"""Plans: what follows from public parameters."""

import dataclasses

import pytest

from tacit.core.bound import Side
from tacit.core.errors import BadInput, PrivacyWarning, Unsupported
from tacit.core.events import Gaussian, Poisson, Repeat
from tacit.loss import Plan, plan


def test_a_plan_couples_what_must_agree():
    made = Plan(60_000, 256 / 60_000, 1000, 1.1, clip_norm=0.5, adjacency="replace")
    assert made.event == Repeat(Poisson(256 / 60_000, Gaussian(1.1)), 1000)
    assert made.sensitivity == 1.0
    assert made.expected_batch == pytest.approx(256)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.steps = 3


def test_its_bound_is_a_proven_upper_one():
    bound = Plan(60_000, 0.01, 1000, 1.1).bound(1e-5)
    assert bound.side is Side.UPPER
    assert bound.confidence == 1.0
    assert bound.assumes == "Repeat(Poisson(rate=0.01, Gaussian), steps=1000)"
    assert any("Poisson sample" in text for text in bound.assumptions)
    assert bound.epsilon == pytest.approx(1.51536, abs=1e-5)


def test_plan_meets_its_target_and_wastes_nothing():
    made = plan(10_000, epsilon=2.0, delta=1e-6, epochs=5, batch_size=200)
    assert (made.rate, made.steps) == (0.02, 250)
    assert made.bound(1e-6).epsilon <= 2.0
    less = dataclasses.replace(made, noise_multiplier=made.noise_multiplier * (1 - 1e-7))
    assert less.bound(1e-6).epsilon > 2.0


def test_spent_grows_from_nothing_to_the_whole():
    made = Plan(1000, 0.1, 50, 2.0)
    spent = [made.spent(step, 1e-5).epsilon for step in (0, 1, 25, 50)]
    assert spent[0] == 0
    assert spent == sorted(spent)
    assert spent[-1] == made.bound(1e-5).epsilon
    with pytest.raises(BadInput):
        made.spent(51, 1e-5)


def test_a_large_delta_warns():
    with pytest.warns(PrivacyWarning, match="1/public_size"):
        Plan(1000, 0.1, 5, 2.0).bound(1e-3)
    with pytest.warns(PrivacyWarning):
        plan(1000, epsilon=1.0, delta=2e-3, epochs=1)


@pytest.mark.parametrize(
    "bad", [{"rate": 0.0}, {"steps": 0}, {"noise_multiplier": 0.0}, {"clip_norm": -1.0}, {"public_size": 0}]
)
def test_bad_plans_are_refused(bad):
    with pytest.raises(BadInput):
        Plan(**{"public_size": 100, "rate": 0.1, "steps": 5, "noise_multiplier": 1.0, **bad})


def test_other_sampling_is_refused_by_name():
    with pytest.raises(Unsupported, match="shuffled"):
        Plan(100, 0.1, 5, 1.0, sampling="shuffled")


def test_batch_cannot_exceed_the_data():
    with pytest.raises(BadInput, match="batch_size"):
        plan(100, epsilon=1.0, delta=1e-5, batch_size=101)
