r"""The best adaptive adversary against a filter, by dynamic programming over the privacy loss so far.

An adversary sees every answer, so it knows the loss L so far (the log ratio of the transcript under D and D') and picks
the next event from a menu, among those that the filter accepts; delta(epsilon) of the whole interaction is

    V_0(0),  V_k(L) = max over accepted events of E V_{k+1}(L + l),  V_last(L) = (1 - e^{epsilon - L})_+,

with l drawn from the event's loss under D. V is kept on a grid and read linearly in between; a test shows that this is
right to one per cent.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tacit.core import Adjacency
from tacit.core.event import Event
from tacit.events import ApproximateDP, Compose, Gaussian, RandomizedResponse
from tacit.ledger.costs import costs
from tacit.ledger.criteria import GDP, STATED, SUM, Criterion, accepts, criteria, gaussian_limit, limit, renyi_limit
from tacit.loss import privacy_loss

Path = tuple[Event, ...]
Filter = Callable[[Path], bool]
GRID = np.arange(-4.0, 6.0, 0.004)
NODES = np.arange(-8.0, 8.001, 0.05)
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


def ours(epsilon: float, delta: float) -> Filter:
    """What the ledger accepts."""
    return _by(criteria(epsilon, delta))


def unshared(epsilon: float, delta: float) -> Filter:
    """A mutant: every criterion, and the stated deltas, have all of delta."""

    def whole(item: Criterion) -> Criterion:
        if item.name == SUM:
            return item
        if item.name == STATED:
            return Criterion(STATED, limit(delta))
        if item.name == GDP:
            return Criterion(GDP, limit(gaussian_limit(epsilon, delta) ** 2), delta)
        return Criterion(item.name, limit(max(renyi_limit(epsilon, delta, item.tilt), 0.0)), delta, item.tilt)

    return _by(tuple(whole(item) for item in criteria(epsilon, delta)))


def by_distribution(epsilon: float, delta: float) -> Filter:
    """A mutant: a path is accepted when the exact loss of its events, as if fixed beforehand, keeps the budget."""
    return lambda path: privacy_loss(Compose(path), "add-remove").delta(epsilon).upper <= delta


def _by(found: tuple[Criterion, ...]) -> Filter:
    def accepted(path: Path) -> bool:
        each = [costs(event, Adjacency.ADD_REMOVE, 1, found) for event in path]
        totals = {}
        for item in found:
            amounts = [cost[item.name] for cost in each]
            totals[item.name] = None if any(amount is None for amount in amounts) else sum(amounts)
        return accepts(found, totals)

    return accepted


def expected(event: Event, value: np.ndarray) -> np.ndarray:
    """E V(L + l) on the grid, l from the event's loss under D; beyond the grid V is 0 below and 1 above."""

    def at(loss: float) -> np.ndarray:
        return np.interp(GRID + loss, GRID, value, left=0.0, right=1.0)

    if isinstance(event, Gaussian):
        mu = 1 / event.noise_multiplier
        return sum(weight * at(mu * node + mu * mu / 2) for node, weight in zip(NODES, WEIGHTS, strict=True))
    if isinstance(event, RandomizedResponse):
        truth = 1 / (1 + math.exp(-event.epsilon))
        return truth * at(event.epsilon) + (1 - truth) * at(-event.epsilon)
    assert isinstance(event, ApproximateDP)
    assert event.epsilon == 0
    return event.delta + (1 - event.delta) * value


def worst(epsilon: float, accepted: Filter, menu: list[Event], *, first: list[Event], depth: int) -> float:
    """delta(epsilon) of the best adversary that begins with one of `first` and makes at most `depth` releases."""
    end = np.maximum(-np.expm1(epsilon - GRID), 0.0)

    def value(path: Path) -> np.ndarray:
        best = end
        if len(path) < depth:
            for event in menu if path else first:
                if accepted((*path, event)):
                    best = np.maximum(best, expected(event, value((*path, event))))
        return best

    return float(np.interp(0.0, GRID, value(())))


def longest(epsilon: float, delta: float, step: float, menu: list[tuple[int, float]]) -> tuple[float, int]:
    """The best adversary of any length whose events lose multiples of `step` exactly, and how many charges it may make.

    menu: (k, d) is an event of epsilon k step that tells all with probability d. What is spent hangs on how often each
    was charged, in any order; the loss lies on a lattice, so no value is read between grid points but at its far ends.
    """
    found, reach = criteria(epsilon, delta), 150
    each = [costs(ApproximateDP(k * step, d), Adjacency.ADD_REMOVE, 1, found) for k, d in menu]
    lattice = np.arange(-reach, reach + 1)
    values: dict[tuple[int, ...], np.ndarray] = {}

    def allowed(counts: tuple[int, ...]) -> bool:
        sums = {
            name: None if any(c[name] is None for c, n in zip(each, counts, strict=True) if n) else 0
            for name in each[0]
        }
        for name in (name for name, total in sums.items() if total is not None):
            sums[name] = sum(c[name] * n for c, n in zip(each, counts, strict=True) if n)
        return accepts(found, sums)

    def value(counts: tuple[int, ...]) -> np.ndarray:
        if counts not in values:
            best = np.maximum(-np.expm1(epsilon - step * lattice), 0.0)
            for place, (k, d) in enumerate(menu):
                more = tuple(n + (j == place) for j, n in enumerate(counts))
                if allowed(more):
                    after, up = value(more), 1 / (1 + math.exp(-k * step))
                    ahead, back = (after[np.clip(np.arange(after.size) + move, 0, after.size - 1)] for move in (k, -k))
                    best = np.maximum(best, d + (1 - d) * (up * ahead + (1 - up) * back))
            values[counts] = best
        return values[counts]

    start = value(tuple(0 for _ in menu))
    return float(start[reach]), max(map(sum, values))
