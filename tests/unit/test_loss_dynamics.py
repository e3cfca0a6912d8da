"""Last-iterate bounds: the exact quadratic lies between, and the curve converges."""

import numpy as np
import pytest

from tacit.core.errors import BadInput
from tacit.core.events import Gaussian
from tacit.loss import NoisyDescent, privacy_loss
from tacit.loss.renyi import TILTS, improved

BASE = {
    "strong_convexity": 1.0,
    "smoothness": 1.0,
    "gradient_sensitivity": 2.0,
    "size": 100,
    "step_size": 0.1,
    "noise": 0.05,
    "steps": 50,
}
ORDERS = np.array([1.5, 2.0, 8.0])


@pytest.mark.parametrize("steps", [1, 3, 30, 1000])
@pytest.mark.parametrize("convexity", [0.2, 1.0])
def test_the_exact_quadratic_attains_the_bound_and_the_older_ones_lie_above(steps, convexity):
    run = NoisyDescent(**{**BASE, "steps": steps, "strong_convexity": convexity})
    assert run.upper(ORDERS) == pytest.approx(run.lower(ORDERS), rel=1e-12)
    assert np.all(run.upper(ORDERS) <= run.converging(ORDERS))
    assert np.all(run.upper(ORDERS) <= run.composition(ORDERS) * (1 + 1e-12))


def test_the_lower_curve_is_the_divergence_of_two_gaussians():
    run = NoisyDescent(**{**BASE, "steps": 7})
    eta, sigma, n = run.step_size, run.noise, run.size
    mean, variance = 0.0, 0.0
    for _ in range(run.steps):
        mean = (1 - eta) * mean + eta * run.gradient_sensitivity / n
        variance = (1 - eta) ** 2 * variance + 2 * eta * sigma**2
    assert run.lower(ORDERS) == pytest.approx(ORDERS * mean**2 / (2 * variance))


def test_the_curve_converges_where_composition_does_not():
    short, long = (NoisyDescent(**{**BASE, "steps": k}) for k in (200, 20_000))
    assert long.bound(1e-5).epsilon == pytest.approx(short.bound(1e-5).epsilon, rel=1e-3)
    assert np.all(long.composition(ORDERS) > 50 * long.upper(ORDERS))


def test_early_on_composition_is_the_smaller():
    run = NoisyDescent(**{**BASE, "steps": 1})
    assert run.upper(ORDERS) == pytest.approx(run.composition(ORDERS), rel=1e-12)
    assert np.all(run.composition(ORDERS) < run.converging(ORDERS))


def test_the_bound_is_a_gaussian_and_below_every_renyi_conversion():
    run = NoisyDescent(**BASE)
    mean, variance = 0.0, 0.0
    for _ in range(run.steps):
        mean, variance = 0.9 * mean + 0.1 * 2.0 / 100, 0.81 * variance + 2 * 0.1 * 0.05**2
    exact = privacy_loss(Gaussian(variance**0.5 / mean), "add-remove").epsilon(1e-5)
    assert run.bound(1e-5).epsilon == pytest.approx(exact.upper, rel=1e-12)
    assert run.bound(1e-5).epsilon < improved(run.upper(1 + TILTS), TILTS, 1e-5)


def test_tiny_constants_keep_their_digits():
    run = NoisyDescent(**{**BASE, "strong_convexity": 1e-14, "steps": 10})
    assert run.upper(ORDERS) == pytest.approx(run.composition(ORDERS), rel=1e-9)
    assert run.lower(ORDERS) == pytest.approx(run.composition(ORDERS), rel=1e-9)


def test_the_bound_says_what_it_assumes():
    bound = NoisyDescent(**BASE).bound(1e-5)
    assert bound.adjacency == "replace"
    assert any("strongly convex" in text for text in bound.assumptions)


@pytest.mark.parametrize("bad", [{"step_size": 1.0}, {"smoothness": 0.5}, {"noise": 0.0}, {"steps": 0}])
def test_conditions_are_checked(bad):
    with pytest.raises(BadInput):
        NoisyDescent(**{**BASE, **bad})
