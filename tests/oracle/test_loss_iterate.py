"""The last iterate against chains on a line: linear losses, projected, step by step on a fine grid."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from tacit.core.adjacency import Adjacency
from tacit.core.events import Gaussian, LastIterate, Poisson, Repeat
from tacit.loss import privacy_loss
from tacit.loss.iterate import last_iterate

CELLS = 500


def chain(event, slope):
    """Density of the last iterate on [0, diameter], all other losses 0: cells, and atoms at both ends.

    In units of one contribution the set is `far` long; the record moves a step by `slope` when it is in the batch.
    """
    far = event.diameter * event.rate * event.size / (event.step_size * event.lipschitz)
    edges = np.linspace(0.0, far, CELLS + 1)
    places = np.concatenate([[0.0], (edges[1:] + edges[:-1]) / 2, [far]])
    bounds = np.concatenate([[-np.inf, 0.0], edges[1:-1], [far, np.inf]])
    kernel = 0.0
    for weight, move in ((1 - event.rate, 0.0), (event.rate, slope)):
        start = (1 - event.step_size * event.regularization) * places + move
        below = ndtr((bounds[None, :] - start[:, None]) / event.noise_multiplier)
        kernel = kernel + weight * np.diff(below, axis=1)
    state = np.zeros(CELLS + 2)
    state[CELLS // 2] = 1.0
    for _ in range(event.steps):
        state = state @ kernel
    return state


def shown(event, adjacency, epsilon):
    """The largest delta among a few neighbours."""
    pairs = [(1.0, 0.0), (0.0, 1.0)] if adjacency == "add-remove" else [(1.0, -1.0), (-1.0, 1.0)]
    sides = []
    for here, there in pairs:
        p, q = chain(event, here), chain(event, there)
        sides.append(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
    return max(sides)


def event(steps, **changed):
    base = {"noise_multiplier": 4.0, "step_size": 1.0, "lipschitz": 1.0, "smoothness": 0.0, "size": 1, "diameter": 20.0}
    return LastIterate(steps=steps, **{**base, **changed})


VARIANTS = [{}, {"diameter": 4.0}, {"regularization": 0.02}, {"rate": 0.5, "size": 2}]


@pytest.mark.parametrize("changed", VARIANTS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("steps", [1, 5, 200])
def test_no_chain_exceeds_the_bound(changed, adjacency, steps):
    run = event(steps, **changed)
    found = privacy_loss(run, adjacency)
    for epsilon in (0.0, 1.0):
        assert shown(run, adjacency, epsilon) <= found.delta(epsilon).upper + 2e-4


def test_a_bound_that_forgets_too_fast_is_exceeded():
    """The move over the last steps counts: a tenth of the diameter is not enough."""
    run, wrong = event(200), event(200, diameter=2.0)
    assert shown(run, "replace", 0.0) > privacy_loss(wrong, "replace").delta(0.0).upper + 0.05


@pytest.mark.parametrize("adjacency", ["add-remove", "replace", "zero-out"])
@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_few_steps_are_composition_and_many_cost_no_more(adjacency, rate):
    size = round(100 / rate)
    runs = {k: event(k, rate=rate, size=size, diameter=2.0) for k in (3, 30_000, 60_000)}
    found = {k: privacy_loss(run, adjacency).epsilon(1e-5).upper for k, run in runs.items()}
    composed = {k: privacy_loss(Repeat(Poisson(rate, Gaussian(4.0)), k), adjacency).epsilon(1e-5).upper for k in runs}
    assert found[3] == pytest.approx(composed[3], rel=1e-9)
    assert found[30_000] == found[60_000]
    assert found[60_000] < composed[60_000] / 3


def test_full_batches_from_one_start_are_exact():
    """A linear loss and a quadratic regulariser: two Gaussians, whose means and variance obey a recursion."""
    run = event(7, regularization=0.1, diameter=None)
    mean, variance = 0.0, 0.0
    for _ in range(7):
        mean, variance = 0.9 * mean + 2.0, 0.81 * variance + 16.0
    exact = privacy_loss(Gaussian(math.sqrt(variance) / mean), "add-remove").epsilon(1e-5)
    found = privacy_loss(run, "replace").epsilon(1e-5)
    assert found.lower == pytest.approx(exact.upper, rel=1e-12)
    assert found.upper == pytest.approx(exact.upper, rel=1e-12)


def test_groups_of_full_batches_move_further():
    one, two = (privacy_loss(event(50), "add-remove", group=k).epsilon(1e-5).upper for k in (1, 2))
    assert two > 1.3 * one
    assert privacy_loss(event(50), "replace").epsilon(1e-5).upper == pytest.approx(two)


def test_a_batch_too_large_to_contract_is_paid_for():
    """Step size 1 and smoothness 1.9: batches beyond 105 of an expected 100 do not contract."""
    tame = event(60_000, rate=0.1, size=1000, smoothness=0.1, diameter=2.0)
    wild = event(60_000, rate=0.1, size=1000, smoothness=1.9, diameter=2.0)
    assert len(last_iterate(tame, Adjacency.ADD_REMOVE, 1).releases) == 1
    every = Repeat(Poisson(0.1, Gaussian(wild.noise_multiplier)), wild.steps)
    found, composed = (privacy_loss(item, "add-remove").epsilon(1e-5) for item in (wild, every))
    assert found.upper == pytest.approx(composed.upper, rel=2e-3)
    assert found.upper > privacy_loss(tame, "add-remove").epsilon(1e-5).upper
