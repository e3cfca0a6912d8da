"""delta by simulation, independent of every integral: 20 cases, each interval at confidence 1 - 2e-8 (total 4e-7).

delta(epsilon) = E_P (1 - e^{epsilon - L})_+ is the mean of a variable in [0, 1]; Hoeffding's inequality bounds it.
"""

import math

import numpy as np
import pytest

from tacit.core.events import Allocation, Gaussian, Laplace, Poisson, Repeat
from tacit.loss import privacy_loss

N = 200_000
MARGIN = math.sqrt(math.log(2 / 2e-8) / (2 * N))
SAMPLED = [
    (noise, rate, steps, epsilon)
    for noise, rate, steps in [(1.0, 0.1, 10), (0.7, 0.02, 40), (2.0, 0.5, 20), (1.5, 0.05, 60)]
    for epsilon in (0.0, 0.3, 1.0, 2.0)
]


def poisson_loss(noise, rate, steps, rng, *, add):
    """Total loss of `steps` sampled Gaussian sums, drawn under the distribution P of its direction."""
    total = np.zeros(N)
    for _ in range(steps):
        inside = np.zeros(N) if add else rng.random(N) < rate
        x = rng.normal(size=N) * noise + inside
        ratio = np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2)))
        total += -ratio if add else ratio
    return total


def simulated(loss, epsilon):
    return float(np.mean(-np.expm1(np.minimum(epsilon - loss, 0.0))))


@pytest.mark.parametrize(("noise", "rate", "steps", "epsilon"), SAMPLED)
def test_sampled_gaussian(noise, rate, steps, epsilon):
    rng = np.random.default_rng(7)
    sides = [simulated(poisson_loss(noise, rate, steps, rng, add=add), epsilon) for add in (False, True)]
    found = privacy_loss(Repeat(Poisson(rate, Gaussian(noise)), steps), "add-remove").delta(epsilon)
    assert found.lower - MARGIN <= max(sides) <= found.upper + MARGIN


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_laplace_repeated(epsilon):
    rng = np.random.default_rng(8)
    x = rng.laplace(size=(12, N)) * 3.0 + 1.0
    loss = ((np.abs(x) - np.abs(x - 1)) / 3.0).sum(axis=0)
    found = privacy_loss(Repeat(Laplace(3.0), 12), "add-remove").delta(epsilon)
    assert found.lower - MARGIN <= simulated(loss, epsilon) <= found.upper + MARGIN


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_random_allocation(epsilon):
    rng = np.random.default_rng(9)
    total = {False: np.zeros(N), True: np.zeros(N)}
    for add in (False, True):
        for _ in range(3):
            x = rng.normal(size=(8, N)) * 2.0
            if not add:
                x[rng.integers(8, size=N), np.arange(N)] += 1
            ratio = np.log(np.mean(np.exp((2 * x - 1) / 8.0), axis=0))
            total[add] += -ratio if add else ratio
    sides = [simulated(loss, epsilon) for loss in total.values()]
    found = privacy_loss(Repeat(Allocation(1, 8, Gaussian(2.0)), 3), "add-remove").delta(epsilon)
    assert found.lower - MARGIN <= max(sides) <= found.upper + MARGIN


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_mutants_fail(factor):
    rng = np.random.default_rng(7)
    side = simulated(poisson_loss(1.0, 0.1, 10, rng, add=False), 0.3)
    found = privacy_loss(Repeat(Poisson(0.1, Gaussian(factor)), 10), "add-remove").delta(0.3)
    assert not found.lower - MARGIN <= side <= found.upper + MARGIN
