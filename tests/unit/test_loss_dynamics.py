"""Last-iterate bounds: the exact quadratic lies between, and the curve converges."""

import numpy as np
import pytest

from tacit.core.errors import BadInput
from tacit.loss import NoisyDescent

BASE = {
    "strong_convexity": 1.0,
    "smoothness": 1.0,
    "gradient_sensitivity": 2.0,
    "size": 100,
    "step_size": 0.1,
    "noise": 0.05,
    "iterations": 50,
}
ORDERS = np.array([1.5, 2.0, 8.0])


@pytest.mark.parametrize("iterations", [1, 3, 30, 1000])
@pytest.mark.parametrize("convexity", [0.2, 1.0])
def test_the_exact_quadratic_lies_below_the_bounds(iterations, convexity):
    run = NoisyDescent(**{**BASE, "iterations": iterations, "strong_convexity": convexity})
    assert np.all(run.lower(ORDERS) <= run.upper(ORDERS) * (1 + 1e-12))


def test_the_lower_curve_is_the_divergence_of_two_gaussians():
    run = NoisyDescent(**{**BASE, "iterations": 7})
    eta, sigma, n = run.step_size, run.noise, run.size
    mean, variance = 0.0, 0.0
    for _ in range(run.iterations):
        mean = (1 - eta) * mean + eta * run.gradient_sensitivity / n
        variance = (1 - eta) ** 2 * variance + 2 * eta * sigma**2
    assert run.lower(ORDERS) == pytest.approx(ORDERS * mean**2 / (2 * variance))


def test_the_curve_converges_where_composition_does_not():
    short, long = (NoisyDescent(**{**BASE, "iterations": k}) for k in (200, 20_000))
    assert long.bound(1e-5).epsilon == pytest.approx(short.bound(1e-5).epsilon, rel=1e-3)
    assert np.all(long.composition(ORDERS) > 50 * long.upper(ORDERS))


def test_early_on_composition_is_the_smaller():
    run = NoisyDescent(**{**BASE, "iterations": 1})
    assert np.array_equal(run.upper(ORDERS), run.composition(ORDERS))


def test_the_bound_says_what_it_assumes():
    bound = NoisyDescent(**BASE).bound(1e-5)
    assert bound.adjacency == "replace"
    assert any("strongly convex" in text for text in bound.assumptions)


@pytest.mark.parametrize("bad", [{"step_size": 1.0}, {"smoothness": 0.5}, {"noise": 0.0}, {"iterations": 0}])
def test_conditions_are_checked(bad):
    with pytest.raises(BadInput):
        NoisyDescent(**{**BASE, **bad})
