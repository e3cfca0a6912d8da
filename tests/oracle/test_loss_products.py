"""Random compositions of tiny discrete releases, sampled or not, against products of all their outcomes."""

import math

import numpy as np
import pytest

from tacit.core.events import (
    ApproximateDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Poisson,
    RandomizedResponse,
    Repeat,
)
from tacit.loss import privacy_loss

MOST = 2e5
"""Outcomes of a product."""


def log(rng, low, high):
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def shifted(weight, shift, far):
    """P and Q masses of noise on the integers, moved by `shift`; `far` is where nothing is left."""
    k = np.arange(-far, far + 1)
    total = weight(np.arange(-9 * far, 9 * far + 1)).sum()
    return np.stack([weight(k - shift) / total, weight(k) / total], axis=1)


def release(rng):
    """An event and its outcomes (p, q)."""
    kind = rng.integers(4)
    if kind == 0:
        epsilon, k = log(rng, 0.02, 6), int(rng.integers(2, 8))
        lie = 1 / (math.exp(epsilon) + k - 1)
        truth = math.exp(epsilon) * lie
        return RandomizedResponse(epsilon, k), np.array([(truth, lie), (lie, truth), ((k - 2) * lie,) * 2])
    if kind == 1:
        z, s = log(rng, 0.3, 1.5), int(rng.integers(1, 3))
        return DiscreteLaplace(z, s), shifted(lambda k: np.exp(-np.abs(k) / (z * s)), s, int(40 * z * s) + 9)
    if kind == 2:
        z, s = log(rng, 0.4, 1.5), int(rng.integers(1, 3))
        return DiscreteGaussian(z, s), shifted(lambda k: np.exp(-(k**2) / (2 * (z * s) ** 2)), s, int(9 * z * s) + 6)
    epsilon, delta = log(rng, 0.02, 4), float(rng.choice([0.0, log(rng, 1e-8, 1e-2)]))
    more, less = ((1 - delta) / (1 + math.exp(sign * epsilon)) for sign in (-1, 1))
    return ApproximateDP(epsilon, delta), np.array([(more, less), (less, more), (delta, 0.0), (0.0, delta)])


def product(rng):
    """A composition, and P and Q of all that can come out."""
    events, p, q = [], np.ones(1), np.ones(1)
    for _ in range(int(rng.integers(1, 4))):
        event, atoms = release(rng)
        if rng.random() < 0.5:
            rate = log(rng, 1e-3, 0.9)
            event, atoms = Poisson(rate, event), atoms @ np.array([[rate, 0.0], [1 - rate, 1.0]])
        atoms, count = atoms[atoms.sum(axis=1) > 0], 0
        while count < 3 and p.size * len(atoms) <= MOST:
            p, q, count = np.outer(p, atoms[:, 0]).ravel(), np.outer(q, atoms[:, 1]).ravel(), count + 1
            held = p + q > 1e-24
            p, q = p[held], q[held]
        events += [Repeat(event, count)] if count else []
    return Compose(tuple(events)), p, q


def delta_of(p, q, epsilon):
    return max(float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum()) for one, two in ((p, q), (q, p)))


@pytest.mark.parametrize("seed", range(24))
def test_intervals_hold_the_product(seed):
    rng = np.random.default_rng([16, seed])
    event, p, q = product(rng)
    loss = privacy_loss(event, "add-remove")
    for epsilon in (0.0, log(rng, 0.01, 5)):
        truth, found = delta_of(p, q, epsilon), loss.delta(epsilon)
        assert found.lower <= truth * (1 + 1e-9) + 1e-13
        assert truth <= found.upper * (1 + 1e-9) + 1e-13
    delta = log(rng, 1e-9, 0.3)
    found = loss.epsilon(delta)
    if found.upper < 700:
        assert delta_of(p, q, found.upper * (1 + 1e-9) + 1e-12) <= delta * (1 + 1e-7) + 1e-13
    if 0 < found.lower < 700:
        assert delta_of(p, q, found.lower * (1 - 1e-9) - 1e-12) >= delta * (1 - 1e-7) - 1e-13


def test_an_end_that_is_off_is_caught():
    """The mutant that reads one release less: the truth lies above its upper end."""
    rng = np.random.default_rng(5)
    event, atoms = release(rng)
    p, q = (np.outer(side, side).ravel() for side in atoms.T)
    assert delta_of(p, q, 0.0) > privacy_loss(event, "add-remove").delta(0.0).upper * (1 + 1e-6)
