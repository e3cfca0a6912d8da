"""Objective perturbation against exact densities of the minimiser in one and two dimensions."""

import numpy as np
import pytest

from tacit.core.events import Gaussian, ObjectivePerturbation
from tacit.loss import privacy_loss
from tacit.loss.composed import Composed, Release
from tacit.loss.objective import Folded

EPSILONS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0, 3.0)
GRID = np.linspace(-60.0, 60.0, 240_001)


def logistic(label):
    """log(1 + e^-ys): slope at most 1, curvature at most 1/4."""
    slope = lambda s: -label / (1 + np.exp(np.clip(label * s, -500, 500)))  # noqa: E731
    return slope, lambda s: np.abs(slope(s)) * (1 - np.abs(slope(s)))


def huber(target):
    """A smooth loss whose slope changes its sign, (s - t)/sqrt(1 + (s - t)^2): curvature at most 1."""
    return (lambda s: (s - target) / np.sqrt(1 + (s - target) ** 2)), (lambda s: (1 + (s - target) ** 2) ** -1.5)


def density(losses, noise, ridge):
    """Of the minimiser of sum f_i + ridge theta^2/2 + b theta: Gaussian density of b times db/dtheta."""
    tilt, jacobian = ridge * GRID, np.full_like(GRID, ridge)
    for slope, curvature in losses:
        tilt, jacobian = tilt + slope(GRID), jacobian + curvature(GRID)
    found = np.exp(-(tilt**2) / (2 * noise**2)) / (noise * np.sqrt(2 * np.pi)) * jacobian * (GRID[1] - GRID[0])
    assert found.sum() == pytest.approx(1.0, abs=1e-6)
    return found


def exact(p, q, epsilon):
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


CASES = [
    ([], logistic(1), logistic(-1), 0.25, 2.0, 1.0),
    ([logistic(1), logistic(-1)], logistic(1), logistic(-1), 0.25, 1.0, 0.5),
    ([], huber(0.0), huber(3.0), 1.0, 3.0, 1.0),
    ([], huber(0.0), huber(0.0), 1.0, 2.0, 0.3),
    ([huber(1.0)], huber(0.0), huber(-5.0), 1.0, 1.5, 2.0),
]


@pytest.mark.parametrize(("others", "record", "replacement", "smoothness", "noise", "ridge"), CASES)
def test_no_exact_pair_exceeds_the_bound(others, record, replacement, smoothness, noise, ridge):
    event = ObjectivePerturbation(noise, smoothness, ridge)
    without = density(others, noise, ridge)
    with_it, changed = (density([*others, one], noise, ridge) for one in (record, replacement))
    added, replaced = (privacy_loss(event, name) for name in ("add-remove", "replace"))
    for epsilon in EPSILONS:
        sides = exact(with_it, without, epsilon), exact(without, with_it, epsilon)
        assert max(sides) <= added.delta(epsilon).upper + 1e-7
        both = exact(with_it, changed, epsilon), exact(changed, with_it, epsilon)
        assert max(both) <= replaced.delta(epsilon).upper + 1e-7


def test_a_bound_without_the_determinant_is_exceeded():
    without, with_it = density([], 2.0, 0.3), density([huber(0.0)], 2.0, 0.3)
    wrong = Composed(((Release.symmetric(Folded(2.0, 1.0, 0.0, 1)), 1),))
    assert exact(with_it, without, 0.7) > 1.5 * wrong.delta(0.7).upper


def test_a_bound_for_one_sign_is_exceeded():
    """The slope of this loss follows the sign of the minimiser, so both tails of the tilt count."""
    steep = ((lambda s: np.tanh(50 * s)), (lambda s: 50 / np.cosh(np.clip(50 * s, -300, 300)) ** 2))
    without, with_it = density([], 1.0, 20.0), density([steep], 1.0, 20.0)
    one_sign = privacy_loss(Gaussian(1.0), "add-remove").delta(1.0).upper
    assert exact(without, with_it, 1.0) > 1.5 * one_sign
    found = privacy_loss(ObjectivePerturbation(1.0, 50.0, 20.0), "add-remove")
    assert exact(without, with_it, 1.0) <= found.delta(1.0).upper + 1e-7
    assert exact(with_it, without, 1.0) <= found.delta(1.0).upper + 1e-7


@pytest.mark.parametrize(("shift", "growth", "axes"), [(1.0, 0.3, 1), (2.0, 0.3, 2), (1.0, 0.0, 1), (1.0, 5.0, 1)])
@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_the_pair_has_its_integral(shift, growth, axes, noise):
    """H_K = E_Q ((1 + growth) e^m(y) - K)_+ beyond y*, by a plain sum; P has mass 1."""
    pair = Folded(noise, shift, growth, axes)
    y = np.linspace(0.0, shift + 20 * noise, 2_000_001)
    step = y[1] - y[0]
    y = y[:-1] + step / 2
    q = np.exp(-(y**2) / (2 * noise**2)) * (2 / (noise * np.sqrt(2 * np.pi)) if axes == 1 else y / noise**2) * step
    m = np.where(y < shift, y**2 / 2, shift * y - shift**2 / 2) / noise**2
    ratio = (1 + growth) * np.exp(m)
    p = ratio * q
    assert p[y > pair.start].sum() == pytest.approx(1.0, abs=1e-5)
    losses = np.linspace(pair.loss(pair.start) + 0.01, pair.reach(-20.0)[1], 40)
    masses_p, masses_q = pair.masses(losses)
    cells = np.searchsorted(losses, np.log(ratio))
    for found, plain in ((masses_p, p), (masses_q, q)):
        counted = np.bincount(cells, np.where(y > pair.start, plain, 0.0), losses.size + 1)
        assert found == pytest.approx(counted, abs=2e-5)
