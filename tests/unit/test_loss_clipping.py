"""Clipping as a choice of the plan: bounds, releases and what they cost."""

import math

import pytest

from tacit.core import BadInput
from tacit.core.events import Compose, Gaussian, Poisson, Repeat
from tacit.loss import Adaptive, Automatic, Flat, PerLayer, Plan, plan, privacy_loss


@pytest.mark.parametrize("name", ["flat", "per-layer", "automatic"])
def test_the_bound_does_not_depend_on_how_a_contribution_is_kept_within_it(name):
    made = Plan(1000, 0.1, 10, 1.0, clip_norm=0.3, adjacency="replace", clipping=name)
    assert made.event == Repeat(Poisson(0.1, Gaussian(1.0)), 10)
    assert made.sensitivity == 0.6


def test_budgets_have_the_clip_norm_as_root_of_their_squares():
    shares = PerLayer({"a": 3.0, "b": 4.0}).shares(("a", "b"))
    assert shares == (0.6, 0.8)
    equal = PerLayer().shares(("a", "b", "c"))
    assert math.isclose(math.fsum(share**2 for share in equal), 1.0)
    assert PerLayer({"a": 1.0}) == PerLayer((("a", 1.0),))
    assert hash(PerLayer({"a": 1.0}))


def test_an_adaptive_norm_is_two_gaussians_on_one_sample():
    """The numbers of soundness rule 1: 2.06, where a composition of two samples would read 1.32."""
    made = Plan(60_000, 256 / 60_000, 2340, 1.1, clipping=Adaptive(count_noise=1.1))
    assert made.event == Repeat(Poisson(256 / 60_000, Compose((Gaussian(1.1), Gaussian(1.1)))), 2340)
    assert made.bound(1e-5).epsilon == pytest.approx(2.06, abs=0.005)
    joint = Repeat(Poisson(256 / 60_000, Gaussian(1.1 / math.sqrt(2))), 2340)
    assert made.bound(1e-5).epsilon == pytest.approx(privacy_loss(joint, "add-remove").epsilon(1e-5).upper, rel=1e-9)


def test_the_count_is_nearly_free_by_default():
    fixed, moving = Plan(60_000, 0.02, 500, 1.0), Plan(60_000, 0.02, 500, 1.0, clipping="adaptive")
    cost = moving.bound(1e-5).epsilon / fixed.bound(1e-5).epsilon
    assert 1 < cost < 1.001
    made = plan(60_000, epsilon=2.0, delta=1e-5, clipping="adaptive")
    assert 1.999 < made.bound(1e-5).epsilon <= 2.0


def test_a_count_that_costs_more_than_the_target_is_refused():
    with pytest.raises(BadInput, match="No noise multiplier"):
        Plan(1000, 0.5, 100, 1.0, clipping=Adaptive(count_noise=0.5)).calibrated(epsilon=1.0, delta=1e-5)


def test_the_norm_moves_towards_the_quantile():
    rule = Adaptive(quantile=0.5, speed=0.2)
    assert rule.next(1.0, 50.0, 100.0) == pytest.approx(math.exp(-0.1))
    assert rule.next(1.0, -50.0, 100.0) == pytest.approx(math.exp(0.1))
    assert rule.next(2.0, 0.0, 100.0) == 2.0
    assert rule.next(1.0, 1e9, 100.0) == rule.next(1.0, 50.0, 100.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Plan(100, 0.1, 5, 1.0, clipping="loose"),
        lambda: Automatic(gamma=0.0),
        lambda: PerLayer({"a": -1.0}),
        lambda: Adaptive(quantile=1.5),
        lambda: Adaptive(count_noise=0.0),
    ],
)
def test_bad_choices_are_refused(make):
    with pytest.raises(BadInput):
        make()


def test_flat_is_the_default():
    assert Plan(100, 0.1, 5, 1.0).clipping == Flat()
