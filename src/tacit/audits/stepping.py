"""Training that shows its steps: a generator that yields the model so far and is handed the data of its next step.

    def fit(x, y, rng):
        weights = start()
        for _ in range(STEPS):
            x, y = yield partial(predict, weights)      # what is released so far; the data of the next step
            weights = private_step(weights, x, y, rng)
        yield partial(predict, weights)

A coin per step decides whether its data hold the canary. So the steps before are alike on both sides of the coin, which
is what the bound of all updates asks for (docs/proofs/auditing.md).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import Array
from .canary import Pair
from .foreign import Fit, margins_of, outputs

Floats = NDArray[np.float64]
Coins = NDArray[np.bool_]
OTHERS, RIDGE = 16, 1e-3
"""Records of the data whose margins are seen beside the canary's, and how little those that foretell nothing count."""
END = object()
FEWER = "made fewer steps than the claim counts, or did not yield the model after its last one"


class Handed:
    """The data (x, y) of one step, which notes whether the training read them."""

    def __init__(self, x: Array, y: Array) -> None:
        self._pair, self.taken = (x, y), False

    def __iter__(self) -> Iterator[Array]:
        self.taken = True
        return iter(self._pair)

    def __getitem__(self, part: int) -> Array:
        self.taken = True
        return self._pair[part]


@dataclass(frozen=True, eq=False)
class Steps:
    """One run: (a coin per step, seed words) -> (what each step did to margins, problem).

    Margins are of the canary's label: on the canary itself, and on records that show what moves all of them.
    """

    fit: Fit
    pair: Pair

    def __call__(self, coins: Coins, words: tuple[int, ...]) -> tuple[Floats | float, str]:
        rng = np.random.Generator(np.random.PCG64DXSM(list(words)))
        run = self.fit(*self.pair.data(False), rng)
        if not isinstance(run, Generator):
            return math.nan, "is not a generator that yields the model before and after every step"
        try:
            return self._played(run, coins)
        finally:
            run.close()

    def _played(self, run: Generator[object, object, object], coins: Coins) -> tuple[Floats | float, str]:
        model, told, seen = next(run, END), [], self._seen()
        for coin in coins.tolist():
            if model is END:
                return math.nan, FEWER
            told.append(outputs(model, seen))
            handed = Handed(*self.pair.data(coin))
            model = _sent(run, handed)
            if not handed.taken and model is not END:
                return math.nan, "did not take the data of its next step (x, y = yield predict)"
        if model is END:
            return math.nan, FEWER
        told.append(outputs(model, seen))
        if _sent(run, Handed(*self.pair.data(False))) is not END:
            return math.nan, "made more steps than the claim counts"
        changes = np.diff(self._margins(told), axis=0)
        return (changes, "") if np.isfinite(changes).all() else (math.nan, "predicted NaN")

    def _seen(self) -> Array:
        """The canary, a blank record, and some of the data."""
        return np.concatenate((self.pair.canary_x, np.zeros_like(self.pair.canary_x), self.pair.x[:OTHERS]))

    def _margins(self, told: list[tuple[Array, Array | None]]) -> Floats:
        """(models x records), from what each model said of them."""
        answers = np.concatenate([answer for answer, _ in told])
        label = np.repeat(self.pair.canary_y, len(answers))
        return margins_of(answers, told[0][1], label, np.unique(self.pair.y)).reshape(len(told), -1)


def _sent(run: Generator[object, object, object], handed: Handed) -> Any:
    """What the generator yields next, END when it has ended."""
    try:
        return run.send(handed)
    except StopIteration:
        return END


@dataclass(frozen=True, eq=False)
class View:
    """How a step is scored: its change of the canary's margin, less what is usual for that step and less what the
    others' margins foretell, in units of its spread.

    With `behind` the mean of the run's earlier scores is taken off: it shows noise that comes back. All of it is a
    function of the step and of those before, fixed on runs that are not judged.
    """

    centre: Floats
    shared: Floats
    spread: Floats
    behind: bool = False

    @classmethod
    def fitted(cls, changes: Floats, coins: Coins) -> tuple[View, float]:
        """The view that tells coins apart best in (runs x steps x margins), and how well.

        Another than the first must be better by more than luck: four deviations of a difference of means.
        """
        centre = np.stack([_smoothed(_mean_where(column, ~coins)) for column in np.moveaxis(changes, 2, 0)], axis=1)
        views = [
            cls(centre, shared, cls(centre, shared, np.ones(len(centre)))._spread(changes, coins), behind)
            for shared in (_foretold(changes - centre, coins), np.zeros(changes.shape[2] - 1))
            for behind in (False, True)
        ]
        quality = np.array([_lift(view(changes), coins) for view in views])
        quality[1:] -= 8 / math.sqrt(coins.size)
        best = int(np.argmax(quality))
        return views[best], float(quality[best])

    def __call__(self, changes: Floats) -> Floats:
        moved = changes - self.centre
        scaled = (moved[..., 0] - moved[..., 1:] @ self.shared) / self.spread
        if not self.behind:
            return np.asarray(scaled)
        before = np.cumsum(scaled, axis=1) - scaled
        return np.asarray(scaled - before / np.maximum(np.arange(scaled.shape[1]), 1))

    def _spread(self, changes: Floats, coins: Coins) -> Floats:
        return np.maximum(np.sqrt(_smoothed(_mean_where(self(changes) ** 2, ~coins))), 1e-300)


def _lift(score: Floats, coins: Coins) -> float:
    """Difference of the means over the spread without the canary: with it a step may or may not have sampled it."""
    inside, outside = score[coins], score[~coins]
    return float((inside.mean() - outside.mean()) / max(outside.std(), 1e-300))


def _foretold(moved: Floats, coins: Coins) -> Floats:
    """How the canary's margin follows the others', whether it is in or not: least squares, with a little ridge."""
    coin = coins[..., None].astype(np.float64)
    others: Floats = np.concatenate((moved[..., 1:], coin), axis=2).reshape(-1, moved.shape[2])
    ridge = np.diag(math.sqrt(RIDGE) * np.linalg.norm(others, axis=0))
    target = np.concatenate((moved[..., 0].ravel(), np.zeros(len(ridge))))
    return np.asarray(np.linalg.lstsq(np.concatenate((others, ridge)), target, rcond=None)[0][:-1])


def _mean_where(values: Floats, where: Coins) -> Floats:
    """Mean over runs of the values where a coin says so; the mean of all where it nowhere does."""
    count = where.sum(axis=0)
    some = np.where(where, values, 0.0).sum(axis=0) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, some, values.mean(axis=0)))


def _smoothed(values: Floats) -> Floats:
    """A moving mean over a tenth of the steps: neighbouring steps are much alike, and the runs that show it are few."""
    width = 2 * (values.size // 20) + 1
    weight = np.convolve(np.ones(values.size), np.ones(width), mode="same")
    return np.asarray(np.convolve(values, np.ones(width), mode="same") / weight)
