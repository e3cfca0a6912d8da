"""Discrete noise against sums over all outcomes, each end of an interval on its own.

n releases of discrete Gaussian noise with shift c have the loss c (2 S - n c)/2s^2, S the sum of what was released, so
delta is one sum over S. Upper ends are read without the interval that would compare them with lower ends.
"""

import math

import numpy as np
import pytest

from tacit.core.events import DiscreteGaussian, DiscreteLaplace, Gaussian, Poisson, Repeat
from tacit.loss import privacy_loss
from tacit.loss import steps as steps_module
from tacit.loss.noise import SMOOTH, DiscreteGaussianNoise
from tacit.loss.pairs import Location
from tacit.loss.steps import lower_step, upper_step
from tacit.loss.window import compose

RNG = np.random.default_rng(16)
CASES = [
    (float(np.exp(RNG.uniform(-1.5, 2.5))), int(RNG.integers(1, 7)), int(RNG.integers(1, 9)), float(RNG.uniform(0, 3)))
    for _ in range(40)
]


def probabilities(scale):
    """The noise on the integers from -k to k, with all but 1e-60 of its mass."""
    k = np.arange(-math.ceil(17 * scale) - 2, math.ceil(17 * scale) + 3)
    mass = np.exp(-(k.astype(float) ** 2) / (2 * scale**2))
    return mass / math.fsum(mass)


def brute(scale, shift, steps, epsilon):
    """delta(epsilon) of `steps` releases, summed over every value of their sum."""
    one = probabilities(scale)
    total = np.ones(1)
    for _ in range(steps):
        total = np.convolve(total, one)
    moved = np.concatenate([np.zeros(steps * shift), total])
    still = np.concatenate([total, np.zeros(steps * shift)])
    return math.fsum(np.maximum(moved - math.exp(epsilon) * still, 0.0))


def ends(pair, steps, epsilon, width):
    """Lower and upper end on a lattice of this width, read apart."""
    log_mass, found = -80.0, []
    for make, sign in ((lower_step, -1), (upper_step, 1)):
        window = compose([(make(pair, width, log_mass), steps)], 0.5, sign, epsilon)
        found.append(window.delta(epsilon))
    return found


@pytest.mark.parametrize(("scale", "shift", "steps", "epsilon"), CASES)
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_each_end_holds_on_its_own(scale, shift, steps, epsilon, parts):
    pair = Location(DiscreteGaussianNoise(scale), ((1.0, float(shift)),))
    truth = brute(scale, shift, steps, epsilon)
    low, high = ends(pair, steps, epsilon, pair.grid[1] / parts)
    assert low <= truth * (1 + 1e-9) + 1e-22
    assert high >= truth * (1 - 1e-9) - 1e-22


def test_mutant_cutting_both_sides_at_their_own_integers_is_caught(monkeypatch):
    """Defect D1: P and Q divided at different integers put the upper end 0.4 % too low."""
    monkeypatch.setattr(DiscreteGaussianNoise, "cut", lambda self, x, shift: x)
    monkeypatch.setattr(steps_module, "EDGE", 0.0)
    wrong = 0
    for scale, shift, steps, epsilon in [*CASES, (3.12 * 3, 3, 5, 1.0)]:
        pair = Location(DiscreteGaussianNoise(scale), ((1.0, float(shift)),))
        wrong += ends(pair, steps, epsilon, pair.grid[1])[1] < brute(scale, shift, steps, epsilon) * (1 - 1e-6)
    assert wrong >= 1


@pytest.mark.parametrize("sensitivity", [1, 3])
def test_composed_readings_are_sharp_and_right(sensitivity):
    for noise in np.geomspace(0.4, 10, 12).tolist():
        loss = privacy_loss(Repeat(DiscreteGaussian(noise, sensitivity), 5), "add-remove")
        found = loss.epsilon(1e-5)
        assert found.gap < 1e-5
        assert brute(noise * sensitivity, sensitivity, 5, found.upper) <= 1e-5 * (1 + 1e-7)
        assert brute(noise * sensitivity, sensitivity, 5, found.lower) >= 1e-5 * (1 - 1e-7)


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_little_noise_has_an_answer(noise):
    """Defect D2: the least loss of a single shift was the logarithm of 0."""
    loss = privacy_loss(Repeat(DiscreteGaussian(noise), 8), "add-remove")
    truth = brute(noise, 1, 8, 1.0)
    assert loss.delta(1.0).lower <= truth <= loss.delta(1.0).upper + 1e-12
    assert 0.01 <= loss.tradeoff(0.01).lower <= loss.tradeoff(0.01).upper <= 1


def test_wide_noise_is_read_from_integrals():
    """From SMOOTH on nothing is summed: the same masses, cell by cell, to 1e-12."""
    summed, smooth = DiscreteGaussianNoise(SMOOTH * 0.999999), DiscreteGaussianNoise(SMOOTH)
    k = np.arange(-int(20 * SMOOTH), int(20 * SMOOTH), 37, dtype=float)
    for noise in (summed, smooth):
        mass = np.exp(-(np.arange(-80_000, 80_001) ** 2) / (2 * noise.scale**2))
        total = math.fsum(mass)
        for low, high in ((-3, -2), (0, 1), (10_000, 10_020), (-30_000, -29_000)):
            truth = math.fsum(mass[80_000 + low + 1 : 80_000 + high + 1]) / total
            found = float(noise.between(np.array([float(low)]), np.array([float(high)]))[0])
            assert found == pytest.approx(truth, rel=1e-12)
        assert float(np.sum(noise.between(k[:-1], k[1:]))) == pytest.approx(1.0, abs=1e-12)
    assert privacy_loss(DiscreteGaussian(2.0, 10**9), "add-remove").epsilon(1e-6).upper == pytest.approx(
        privacy_loss(Gaussian(2.0), "add-remove").epsilon(1e-6).upper, rel=1e-6
    )


def sampled_brute(scale, rate, steps, epsilon, *, add):
    """delta(epsilon) of sampled steps from the product of their outcomes, two or three of them."""
    one = probabilities(scale)
    moved = np.concatenate([np.zeros(1), one])
    still = np.concatenate([one, np.zeros(1)])
    p, q = rate * moved + (1 - rate) * still, still
    p, q = (q, p) if add else (p, q)
    all_p, all_q = p, q
    for _ in range(steps - 1):
        all_p, all_q = np.multiply.outer(all_p, p).ravel(), np.multiply.outer(all_q, q).ravel()
    return float(np.maximum(all_p - math.exp(epsilon) * all_q, 0.0).sum())


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.7, 0.1, 2), (1.5, 0.01, 2), (0.9, 0.5, 3), (2.0, 0.3, 2)])
def test_sampled_discrete_noise(noise, rate, steps):
    loss = privacy_loss(Repeat(Poisson(rate, DiscreteGaussian(noise)), steps), "add-remove")
    for epsilon in (0.0, 0.05, 0.4):
        truth = max(sampled_brute(noise, rate, steps, epsilon, add=add) for add in (False, True))
        found = loss.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper


def test_sampled_discrete_noise_is_sharp():
    for event, steps in ((DiscreteGaussian(1.5), 1000), (DiscreteLaplace(2.0), 300), (DiscreteGaussian(3.0, 4), 500)):
        found = privacy_loss(Repeat(Poisson(0.01, event), steps), "add-remove").epsilon(1e-5)
        assert found.gap <= 0.01
