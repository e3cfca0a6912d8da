"""Losses larger than numbers: still an answer, finite where a theorem is, and infinite only where nothing holds."""

import math

import numpy as np
import pytest

from tacit.core.events import (
    ApproximateDP,
    BoundedRange,
    Compose,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NonPrivate,
    ObjectivePerturbation,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from tacit.loss import calibrate, privacy_loss
from tacit.loss.noise import DiscreteGaussianNoise, GaussianNoise, LaplaceNoise
from tacit.loss.objective import Folded
from tacit.loss.pairs import Location
from tacit.loss.plain import delta_at_most, epsilon_at_most
from tacit.loss.renyi import divergences


@pytest.mark.parametrize("event", [ApproximateDP(700.0), RandomizedResponse(700.0, 5), ApproximateDP(1e5)])
def test_pure_losses_of_any_size(event):
    """Defect D8: an epsilon above 600 read as no protection at all, at both ends."""
    found = privacy_loss(event, "add-remove").epsilon(1e-6)
    assert found.lower == pytest.approx(event.epsilon, rel=1e-8)
    assert found.upper == pytest.approx(event.epsilon, rel=1e-8)
    assert privacy_loss(event, "add-remove").epsilon(0.0).upper == pytest.approx(event.epsilon)
    assert privacy_loss(event, "add-remove").delta(event.epsilon - 1).upper == pytest.approx(-math.expm1(-1.0))


def test_what_tells_all_still_does():
    loss = privacy_loss(ApproximateDP(700.0, 1e-5), "add-remove")
    assert loss.epsilon(1e-6).lower == math.inf
    assert loss.epsilon(1e-4).upper <= 700
    assert (
        privacy_loss(Compose((ApproximateDP(700.0, 1e-5), NonPrivate())), "add-remove").epsilon(0.1).lower == math.inf
    )


def test_compositions_of_huge_losses_are_finite():
    assert privacy_loss(Repeat(ApproximateDP(700.0), 3), "add-remove").epsilon(1e-6).upper == pytest.approx(2100)
    assert privacy_loss(BoundedRange(650.0), "add-remove", group=2).epsilon(1e-6).upper == pytest.approx(1300)
    assert privacy_loss(Repeat(Laplace(0.01), 10), "replace", group=7).epsilon(1e-6).upper == pytest.approx(14_000)


def test_a_sampled_group_with_little_noise_is_sharp():
    """Defect D8: it read [0, 2e282]."""
    found = privacy_loss(Poisson(0.01, Gaussian(0.04)), "add-remove", group=5).epsilon(1e-6)
    assert found.gap < 1e-9
    assert found.upper <= privacy_loss(Gaussian(0.04), "add-remove", group=5).epsilon(1e-6).upper


@pytest.mark.parametrize("epsilon", [290.0, 299.9, 300.1, 310.0])
def test_both_readings_of_a_tail_agree(epsilon):
    """At an epsilon of 300 tails are read by their logarithms."""
    loss = privacy_loss(Poisson(0.3, Gaussian(0.05)), "add-remove")
    below, above = loss.delta(epsilon), loss.delta(epsilon + 1e-9)
    assert above.lower <= below.upper
    assert below.upper == pytest.approx(above.upper, rel=1e-8)
    assert below.gap < 1e-6


@pytest.mark.parametrize("noise", [0.3, 1.0, 5.0])
def test_the_plain_theorems_are_above_the_sharp_ones(noise):
    pairs = ((Poisson(0.2, Gaussian(noise)), 7), (Laplace(3.0), 2))
    event = Compose(tuple(Repeat(part, count) for part, count in pairs))
    loss = privacy_loss(event, "add-remove")
    remove = tuple((release.remove, count) for release, count in loss.releases)
    assert epsilon_at_most(remove, 1e-5) >= loss.epsilon(1e-5).upper * (1 - 1e-9)
    assert delta_at_most(remove, 3.0) >= loss.delta(3.0).lower


def test_a_setting_with_no_loss_on_its_lattice_is_answered():
    """Defect D5: these ended in an IndexError, and in a refusal."""
    found = privacy_loss(Repeat(Poisson(0.0016666, Gaussian(0.09099)), 1436), "add-remove").epsilon(0.1178)
    assert found.gap < 1e-2
    assert calibrate(epsilon=5.7858, delta=6.8263e-5, rate=1.31845710025919e-05, steps=6).epsilon.upper <= 5.7858


@pytest.mark.parametrize(
    ("scale", "shift", "growth", "axes"), [(3.0, 1.0, 0.5, 1), (1.0, 2.0, 0.1, 2), (2.0, 1.0, 3.0, 1)]
)
def test_renyi_curves_in_closed_form_are_above_the_moments(scale, shift, growth, axes, monkeypatch):
    tilts = np.geomspace(1e-2, 10, 30)
    pair = Folded(scale, shift, growth, axes)
    closed = pair.renyi(tilts)
    monkeypatch.setattr(Folded, "renyi", lambda self, tilts: None)
    computed = divergences(pair, tilts)
    assert np.isfinite(computed).any()
    assert np.all((closed >= computed * (1 - 1e-9)) | np.isinf(computed))


def test_moments_beyond_what_numbers_hold_are_not_left_out():
    """Losses above 600 have mass: a moment over the others alone would be no bound."""
    tilts = np.array([0.01, 0.1, 0.5])
    pair = Location(DiscreteGaussianNoise(0.02), ((1.0, 1.0),))
    assert np.all(divergences(pair, tilts) >= (1 + tilts) / (2 * 0.02**2) * (1 - 1e-12))
    steep = Location(LaplaceNoise(0.001), ((1.0, 1.0),))
    assert np.all(divergences(steep, tilts) >= 900)


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [
        (Repeat(ObjectivePerturbation(0.05, 0.13, 0.0027), 28), "replace"),
        (ObjectivePerturbation(0.016, 3.33, 0.0049), "add-remove"),
        (Repeat(DiscreteGaussian(0.98, 3), 2_576_742_245), "zero-out"),
        (Repeat(DiscreteGaussian(0.02), 7), "add-remove"),
    ],
)
def test_events_that_were_infinite_are_finite(event, adjacency):
    found = privacy_loss(event, adjacency).epsilon(1e-13)
    assert math.isfinite(found.upper)
    assert found.upper >= (event.steps if isinstance(event, Repeat) else 1) * 0.5


@pytest.mark.parametrize("noise", [GaussianNoise(0.01), DiscreteGaussianNoise(0.01)])
def test_a_plain_shift_has_no_largest_loss_in_either_direction(noise):
    """Each direction on its own: the mirrored one had a largest loss of 691, and plain theorems made a bound of it."""
    pair = Location(noise, ((1.0, 1.0),))
    assert pair.largest == pair.mirrored().largest == math.inf
    assert epsilon_at_most(((pair.mirrored(), 1),), 1e-5) == pytest.approx(epsilon_at_most(((pair, 1),), 1e-5))
    assert delta_at_most(((pair.mirrored(), 1),), 800.0) == pytest.approx(1.0)
