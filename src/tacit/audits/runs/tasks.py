"""One run of somebody's training, as a task that any worker can perform: train, predict, score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..canary import Pair
from ..foreign import Fit, last_margin, margins_of, outputs
from .batched import answers

Array = NDArray[Any]
PROBE = 16
"""Records that are predicted beside the canary: a model that says the same of all of them has failed."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run on a pair of neighbours: (coin, seed words) -> (margin of the canary's label, problem)."""

    fit: Fit
    pair: Pair

    def __call__(self, coin: bool, words: tuple[int, ...]) -> tuple[float, str]:
        model = self.fit(*self.pair.data(coin), generator(words))
        return self._margin(*outputs(model, self._probe))

    def together(self, coins: Sequence[bool], words: Sequence[tuple[int, ...]]) -> list[tuple[float, str]]:
        """The same of many runs, in one call of fit.many."""
        x, y, member = self.pair.pool(np.array(coins))
        told = answers(self.fit, x, y, member, [generator(item) for item in words], self._probe)
        return [(math.nan, told)] * len(words) if isinstance(told, str) else [self._margin(one, None) for one in told]

    @property
    def _probe(self) -> Array:
        return np.concatenate((self.pair.x[:PROBE], self.pair.canary_x))

    def _margin(self, told: Array, names: Array | None) -> tuple[float, str]:
        label = np.concatenate((self.pair.y[:PROBE], self.pair.canary_y))
        return last_margin(told, names, label, np.unique(self.pair.y))


@dataclass(frozen=True, eq=False)
class ManyCanaries:
    """One run with many canaries: (coins, seed words) -> (margins of all canaries' labels, problem)."""

    fit: Fit
    x: Array
    y: Array
    canary_x: Array
    canary_y: Array

    def __call__(self, coins: NDArray[np.bool_], words: tuple[int, ...]) -> tuple[NDArray[np.float64], str]:
        x, y = np.concatenate((self.x, self.canary_x[coins])), np.concatenate((self.y, self.canary_y[coins]))
        return self._margins(*outputs(self.fit(x, y, generator(words)), self.canary_x))

    def together(self, coins: Sequence[NDArray[np.bool_]], words: Sequence[tuple[int, ...]]) -> list[tuple[Any, str]]:
        """The same of many runs, in one call of fit.many."""
        x, y = np.concatenate((self.x, self.canary_x)), np.concatenate((self.y, self.canary_y))
        member = np.concatenate((np.ones((len(self.x), len(words)), dtype=bool), np.stack(coins, axis=1)))
        told = answers(self.fit, x, y, member, [generator(item) for item in words], self.canary_x)
        return [(math.nan, told)] * len(words) if isinstance(told, str) else [self._margins(one, None) for one in told]

    def _margins(self, told: Array, names: Array | None) -> tuple[NDArray[np.float64], str]:
        found = margins_of(told, names, self.canary_y, np.unique(self.y))
        return found, "" if np.isfinite(found).all() else "predicted NaN"


def generator(words: tuple[int, ...]) -> np.random.Generator:
    """A run's own randomness."""
    return np.random.Generator(np.random.PCG64DXSM(list(words)))
