"""The best of a random number of runs, against the theorem itself in many digits."""

import math

import mpmath
import numpy as np
import pytest

from tacit.core.events import Gaussian, RepeatAndSelect
from tacit.loss import privacy_loss
from tacit.loss.selection import failure_exponent

SHAPES = [-0.9999, -0.99, -0.9, -0.5, 0.0, 0.5, 1.0, 7.0]
MEANS = [1.0001, 1.5, 100.0, 1e4, 1e8, 1e30]


def mean_of(y, shape):
    """The mean of the truncated negative binomial whose success parameter is e^-y."""
    with mpmath.workdps(60):
        gamma = mpmath.exp(-mpmath.mpf(y))
        if shape == 0:
            return (1 / gamma - 1) / mpmath.mpf(y)
        eta = mpmath.mpf(shape)
        return eta * (1 - gamma) / (gamma * (1 - gamma**eta))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", MEANS)
def test_the_success_parameter_has_the_mean_and_errs_to_the_safe_side(shape, mean):
    """Defect D4: log gamma was cut off at -60, where shapes near -1 need far less."""
    found = mean_of(failure_exponent(mean, shape), shape)
    assert mean <= found <= mean * (1 + 1e-7)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("shape", [5e-324, -5e-324, 1e-200, 1e-18])
def test_a_shape_hardly_apart_from_zero_is_zero(shape, mean):
    """The product with log(1/gamma) is below what numbers hold."""
    assert failure_exponent(mean, shape) == pytest.approx(failure_exponent(mean, 0.0), rel=1e-12)


@pytest.mark.parametrize(("mean", "shape"), [(1e4, -0.9), (1e8, -0.99), (5.0, 1.0), (50.0, 0.0), (1e3, -0.5)])
def test_epsilon_is_the_least_that_the_theorem_gives(mean, shape):
    """Papernot and Steinke 2022, Theorem 2, minimised over both orders, then converted: never below, hardly above."""
    noise, delta, exponent = 4.0, 1e-6, failure_exponent(mean, shape)
    orders = 1 + np.geomspace(1e-3, 1e4, 20_000)
    extra = np.min((1 + shape) * ((1 - 1 / orders) * orders / (2 * noise**2) + exponent / orders))
    t = orders - 1
    curve = orders / (2 * noise**2) + extra + math.log(mean) / t
    best = float(np.min(curve + (math.log(1 / delta) + t * np.log(t) - (1 + t) * np.log1p(t)) / t))
    found = privacy_loss(RepeatAndSelect(Gaussian(noise), mean, shape), "add-remove").epsilon(delta).upper
    assert best * (1 - 1e-6) <= found <= best * 1.01
