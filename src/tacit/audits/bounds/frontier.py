"""A claim's largest true-positive rates, tabulated once, for tests that ask for them thousands of times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import Adjacency, Event
from .families import member

Floats = NDArray[np.float64]
GRID: Floats = np.concatenate(([0.0], np.geomspace(1e-8, 0.05, 500), np.linspace(0.05, 1.0, 600)[1:]))


@dataclass(frozen=True, eq=False)
class Frontier:
    """Upper ends of T(fpr) on the grid; between two points T is at most the right one's value, as it rises."""

    tpr: Floats

    def inverse(self, tpr: ArrayLike) -> Floats:
        """At most the false-positive rate that a true-positive rate costs: the last grid point still below it."""
        below = np.searchsorted(self.tpr, tpr, side="left") - 1
        return np.asarray(np.where(below < 0, 0.0, GRID[np.maximum(below, 0)]))


@lru_cache(maxsize=64)
def of_event(event: Event, factor: float, adjacency: Adjacency) -> Frontier:
    """An event's frontier, its noise scaled by `factor`."""
    loss = member(event, factor, adjacency)
    return Frontier(np.maximum.accumulate(loss.tradeoffs(GRID)))


def of_pair(epsilon: float, delta: float) -> Frontier:
    """The frontier of (epsilon, delta)-DP (Kairouz, Oh and Viswanath 2015, Theorem 2.1)."""
    return Frontier(pair_limit(epsilon, delta, GRID))


def pair_limit(epsilon: float, delta: float, fpr: ArrayLike) -> Floats:
    """min(1, e^epsilon fpr + delta, 1 - e^-epsilon (1 - delta - fpr))."""
    fpr = np.asarray(fpr, float)
    forward = math.exp(min(epsilon, 700.0)) * fpr + delta
    backward = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return np.asarray(np.minimum(1.0, np.minimum(forward, backward)))
