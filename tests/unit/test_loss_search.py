"""Where the loss of a mixture reaches a value: the fast search against plain bisection, and against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from tacit.core.events import Laplace, Poisson
from tacit.loss import privacy_loss
from tacit.loss.noise import DiscreteGaussianNoise, DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise
from tacit.loss.objective import Folded
from tacit.loss.pairs import Location, crossing

NOISES = GaussianNoise, LaplaceNoise, DiscreteGaussianNoise, DiscreteLaplaceNoise


def bisected(pair, losses):
    """The largest place with a loss at most the given one, by 120 halvings of everything that has mass."""
    ends = [place for _, place in (*pair.p, *pair.q)]
    tail = pair.noise.lower_quantile(-740.0)
    low, high = np.full(losses.shape, min(ends) + tail), np.full(losses.shape, max(ends) - tail)
    below, above = losses < pair.loss(low), losses >= pair.loss(high)
    for _ in range(120):
        middle = (low + high) / 2
        inside = pair.loss(middle) <= losses
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(below, -np.inf, np.where(above, np.inf, low))


def mixture(rng, noise):
    whole = noise.whole
    shift, group = int(rng.integers(1, 9)) if whole else 1, int(rng.integers(1, 5))
    rate, scale = math.exp(rng.uniform(-12, -0.1)), math.exp(rng.uniform(-3, 6)) * shift
    weights = [math.comb(group, j) * rate**j * (1 - rate) ** (group - j) for j in range(group + 1)]
    moved = tuple((weight, float(shift * j)) for j, weight in enumerate(weights))
    back = tuple((weight, -place) for weight, place in moved)
    return Location(noise(scale), moved, back) if rng.random() < 0.6 else Location(noise(scale), moved)


@pytest.mark.parametrize("noise", NOISES)
def test_places_are_those_of_bisection(noise):
    rng = np.random.default_rng(16)
    for _ in range(40):
        pair = mixture(rng, noise)
        low, high = (min(max(end, -200.0), 200.0) for end in pair.reach(-60.0))
        losses = np.sort(np.append(rng.uniform(low - 0.1, high + 0.1, 40), high - math.exp(rng.uniform(-30, -3))))
        found, wanted = pair._search(losses), bisected(pair, losses)
        assert np.array_equal(np.isfinite(found), np.isfinite(wanted))
        inside = np.isfinite(found)
        if noise.whole:
            room = 1e-14 * (1 + np.abs(losses[inside]))
            assert np.all(pair.loss(found[inside]) <= losses[inside] + room)
            assert np.all(pair.loss(found[inside] + 1) > losses[inside])
            continue
        steep = max(abs(place) for _, place in pair.p) / min(pair.noise.scale, pair.noise.scale**2)
        room = 1e-14 * (1 + np.abs(losses[inside])) + 1e-15 * steep * np.abs(found[inside])
        assert np.all(np.abs(pair.loss(found[inside]) - pair.loss(wanted[inside])) <= room)


def test_a_goal_met_from_above_is_not_answered_with_the_other_end():
    """A search that stopped on the far side returned the other end of its bracket: delta was 78 times too small."""
    rate, scale, delta = 0.16746106771956124, 2.025784826654297, 1.6007100646439615e-12
    found = privacy_loss(Poisson(rate, Laplace(scale)), "replace").epsilon(delta)
    with mpmath.workdps(40):
        b, q = mpmath.mpf(scale), mpmath.mpf(rate)
        tail = lambda x: mpmath.exp(-x / b) / 2 if x > 0 else 1 - mpmath.exp(x / b) / 2  # noqa: E731
        bell = lambda x: mpmath.exp(-abs(x) / b)  # noqa: E731
        log_ratio = lambda x: mpmath.log(  # noqa: E731
            ((1 - q) * bell(x) + q * bell(x - 1)) / ((1 - q) * bell(x) + q * bell(x + 1))
        )

        def truth(epsilon):
            x, high = mpmath.mpf(0), mpmath.mpf(1)
            for _ in range(130):
                middle = (x + high) / 2
                x, high = (middle, high) if log_ratio(middle) <= epsilon else (x, middle)
            return (1 - q) * tail(x) + q * tail(x - 1) - mpmath.exp(epsilon) * ((1 - q) * tail(x) + q * tail(x + 1))

        assert truth(mpmath.mpf(found.lower)) > delta >= truth(mpmath.mpf(found.upper))


def test_steep_and_flat_functions_are_inverted():
    goals = np.array([1e-6, 0.3, 0.999999])
    for f in (lambda x: x**9, lambda x: np.expm1(40 * x) / np.expm1(40.0), np.sqrt):
        zero, one = np.zeros(3), np.ones(3)
        found = crossing(f, goals, (zero, one), (f(zero), f(one)))
        assert np.allclose(f(found), goals, rtol=1e-12, atol=0)


@pytest.mark.parametrize("axes", [1, 2])
def test_the_start_of_a_folded_pair_holds_all_of_p(axes):
    rng = np.random.default_rng(3)
    for _ in range(30):
        pair = Folded(math.exp(rng.uniform(-3, 6)), float(rng.integers(1, 3)), math.exp(rng.uniform(-6, 8)), axes)
        p, _ = pair.masses(np.array([1e9]))
        assert p.sum() == pytest.approx(1.0, abs=1e-9)
        if pair.start > pair.shift:
            assert pair._far(np.array([pair.start, np.inf]))[0].sum() >= 1 - 1e-15
