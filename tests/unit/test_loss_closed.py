"""Readings with a closed form, worked by hand or known from elsewhere."""

import math

import numpy as np
import pytest

from tacit.core.errors import BadInput
from tacit.core.events import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NonPrivate,
    NoOp,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from tacit.loss import epsilon, privacy_loss
from tacit.loss.closed import head_of, tail_of


def test_single_gaussian_matches_the_analytic_formula():
    found = epsilon(Gaussian(1.0), delta=1e-5)
    assert abs(found.upper - 4.3771780956812) < 1e-11
    assert found.gap < 1e-12


def test_replace_doubles_the_sensitivity():
    assert abs(epsilon(Gaussian(1.0), delta=1e-5, adjacency="replace").upper - 9.99725614643) < 1e-10
    assert epsilon(Gaussian(2.0), delta=1e-5, adjacency="replace") == epsilon(Gaussian(1.0), delta=1e-5)


def test_gaussians_compose_in_closed_form():
    found = epsilon(noise_multiplier=20, steps=1000, delta=1e-6)
    assert abs(found.upper - 8.306225049955) < 1e-10


def test_pure_events_accept_delta_zero_and_a_gaussian_is_infinite_there():
    assert math.isinf(epsilon(Gaussian(1.0), delta=0).lower)
    assert math.isinf(epsilon(Repeat(Poisson(0.1, Gaussian(1.0)), 5), delta=0).lower)
    assert abs(epsilon(Repeat(Laplace(2.0), 7), delta=0).upper - 3.5) < 1e-12
    assert abs(epsilon(Repeat(RandomizedResponse(0.5, 4), 3), delta=0).upper - 1.5) < 1e-12


def test_laplace_profile():
    loss = privacy_loss(Laplace(1.0), "add-remove")
    found = loss.delta(0.4)
    assert found.lower <= 1 - math.exp((0.4 - 1) / 2) <= found.upper
    assert abs(loss.advantage().upper - (1 - math.exp(-0.5))) < 1e-12


def test_randomized_response_repeated_is_not_forgotten():
    repeated = epsilon(Repeat(RandomizedResponse(1.0), 100), delta=1e-5, adjacency="replace")
    assert 79.0 < repeated.lower <= repeated.upper < 80.0


def test_approximate_dp_reads_as_itself():
    found = epsilon(ApproximateDP(0.5, 1e-6), delta=1e-6)
    assert abs(found.upper - 0.5) < 1e-9
    assert math.isinf(epsilon(ApproximateDP(0.5, 1e-6), delta=1e-7).lower)


@pytest.mark.parametrize(("rate", "delta", "product"), [(0.01, 1e-5, 1e-7), (0.3, 1e-6, 3e-7), (0.07, 3e-6, 2.1e-7)])
def test_a_sampled_delta_is_compared_exactly(rate, delta, product):
    """Numbers mean what they say: 0.01 x 1e-5 is 1e-7, though floats differ, and the next float below is less."""
    event = Poisson(rate, ApproximateDP(1.0, delta))
    found = epsilon(event, delta=product)
    assert found.upper == pytest.approx(math.log1p(rate * math.expm1(1.0)), rel=1e-5)
    assert math.isinf(epsilon(event, delta=math.nextafter(product, 0.0)).lower)
    assert math.isfinite(epsilon(event, delta=math.nextafter(product, 1.0)).upper)


def test_nothing_and_everything():
    assert epsilon(NoOp(), delta=0).upper == 0
    assert privacy_loss(NonPrivate(), "replace").delta(50.0).lower == 1
    assert math.isinf(epsilon(NonPrivate(), delta=0.5).lower)


def test_tradeoff_of_a_gaussian():
    found = privacy_loss(Gaussian(1.0), "add-remove").tradeoff(0.1)
    assert abs(found.upper - 0.38914369164536) < 1e-12
    assert found.gap < 1e-11


def test_tradeoff_of_laplace_is_piecewise_known():
    found = privacy_loss(Laplace(1.0), "add-remove").tradeoff(0.1)
    assert found.lower <= 0.1 * math.e <= found.upper
    assert found.upper - found.lower < 1e-3


@pytest.mark.parametrize(
    "arguments", [{}, {"event": Gaussian(1.0), "noise_multiplier": 1.0}, {"event": Gaussian(1.0), "steps": 2}]
)
def test_epsilon_wants_an_event_or_numbers(arguments):
    with pytest.raises(BadInput):
        epsilon(delta=1e-5, **arguments)


@pytest.mark.parametrize(
    "bad",
    [
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": 1.0, "rate": 1.5},
        {"noise_multiplier": 1.0, "steps": 0},
        {"noise_multiplier": 1.0, "steps": 2.5},
        {"noise_multiplier": 1.0, "adjacency": "sideways"},
        {"noise_multiplier": 1.0, "delta": 1.0},
        {"noise_multiplier": 1.0, "delta": -1e-9},
    ],
)
def test_bad_numbers_are_refused(bad):
    with pytest.raises(BadInput):
        epsilon(**{"delta": 1e-5, **bad})


@pytest.mark.parametrize("event", [DiscreteGaussian(1.7), Poisson(0.1, Gaussian(1.0)), DiscreteLaplace(2.0)])
def test_no_power_is_claimed_beyond_the_epsilons_that_are_looked_at(event):
    """Every outcome is possible on both sides, so that without false alarms nothing is found: 3e-26 was claimed."""
    loss = privacy_loss(event, "add-remove")
    assert loss.tradeoff(0.0).lower == 0.0
    assert loss.tradeoff(0.0).upper < 1e-15
    assert loss.tradeoff(1e-300).lower <= 1e-280


def test_power_without_false_alarms_is_the_chance_to_tell_all():
    for event, told in ((ApproximateDP(1.0, 0.1), 0.1), (Repeat(ApproximateDP(1.0, 0.1), 3), 0.271)):
        assert privacy_loss(event, "add-remove").tradeoff(0.0).lower == pytest.approx(told, rel=1e-9)


def test_mutant_a_profile_that_ends_too_soon():
    """Without what lies beyond, a profile that was cut at epsilon 1 claims its last delta."""
    epsilons, deltas = np.linspace(0, 1, 11), np.linspace(0.4, 0.1, 11)
    assert tail_of(epsilons, deltas, deltas, 0.0).lower == 0.0
    assert tail_of(epsilons, deltas, deltas, 0.0, beyond=0.1).lower == pytest.approx(0.1)
    assert head_of(epsilons, deltas, deltas, 0.9).lower < head_of(epsilons, deltas, deltas, 0.9, beyond=0.1).lower
