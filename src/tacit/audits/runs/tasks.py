"""One run of somebody's training, as a task that any worker can perform: train, predict, score."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import Adjacency
from ...core.arrays import Array
from ..canary import Pair
from ..foreign import Border, Fit, last_margin, margins_of, outputs
from .batched import answers

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
        """Make many runs in one call of fit.many."""
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
class Watched:
    """One run with one of several canaries, or with none: (which, seed words) -> (answers about `seen`, problem).

    `which` is a place among `pairs`, which share their records, or -1. What the model says is the margin of each seen
    record's label, as sign(m) log(1 + |m|); NaN where it has no finite answer, which is an observation like others.
    Seen are some of the data (`data` columns of them, the first), every canary, and records that show what the model
    makes of nothing: blank, average and missing ones.
    """

    fit: Fit
    pairs: tuple[Pair, ...]
    twins: tuple[tuple[int, Array], ...] = ()
    """Records that only a model which knows a canary tells from it, by the canary's place among the pairs."""

    def __call__(self, which: int, words: tuple[int, ...]) -> tuple[NDArray[np.float64] | float, str]:
        data = self.pairs[which].data(True) if which >= 0 else self.pairs[0].data(False)
        model = self.fit(*data, generator(words))
        return self._said(*_answered(lambda records: outputs(model, records), self.seen_x))

    def together(self, which: Sequence[int], words: Sequence[tuple[int, ...]]) -> list[tuple[Any, str]]:
        """What `__call__` gives for many runs, by fit.many; runs with a canary that holds NaN are called apart.

        A fit.many may leave a record out by a weight of 0, and 0 times NaN would spoil the runs without that canary.
        """
        told: list[tuple[Any, str]] = [(math.nan, "")] * len(words)
        blank = np.array([k in self._holding_nan for k in which])
        for rows in (np.flatnonzero(~blank).tolist(), np.flatnonzero(blank).tolist()):
            if rows:
                some = self._called([which[row] for row in rows], [words[row] for row in rows])
                for row, one in zip(rows, some, strict=True):
                    told[row] = one
        return told

    def _called(self, which: Sequence[int], words: Sequence[tuple[int, ...]]) -> list[tuple[object, str]]:
        """Many runs in one call of fit.many."""
        x, y, member = self._pool(np.array(which))
        predict = self.fit.many(x, y, member, [generator(item) for item in words])  # type: ignore[attr-defined]
        if not callable(predict):
            return [(math.nan, "returned no predict(x)")] * len(words)

        def of_all(records: Array) -> tuple[Array, None]:
            return np.moveaxis(np.asarray(predict(records), dtype=np.float64), 0, 1), None

        told, _ = _answered(of_all, self.seen_x)
        if told.ndim != 3 or told.shape[1] != len(words):
            return [(math.nan, "predicted another shape than (runs, records, classes)")] * len(words)
        return [self._said(told[:, run], None) for run in range(len(words))]

    @functools.cached_property
    def _holding_nan(self) -> frozenset[int]:
        """The canaries with a missing number."""
        floats = self.pairs[0].x.dtype.kind == "f"
        return frozenset(k for k, pair in enumerate(self.pairs) if floats and np.isnan(pair.canary_x).any())

    @functools.cached_property
    def seen_x(self) -> Array:
        first = self.pairs[0]
        canaries = [pair.canary_x for pair in self.pairs]
        return np.concatenate((first.x[self._rows], *canaries, *(one for _, one in self.twins), *_nothing(first.x)))

    @functools.cached_property
    def seen_y(self) -> Array:
        first = self.pairs[0]
        canaries = [pair.canary_y for pair in self.pairs]
        known = np.concatenate((first.y[self._rows], *canaries, *(canaries[which] for which, _ in self.twins)))
        return np.concatenate((known, np.repeat(first.y[:1], len(self.seen_x) - len(known))))

    @property
    def data(self) -> int:
        """How many of the seen records are the data's own."""
        return len(self._rows)

    def column(self, which: int) -> int:
        """Where a canary is among the seen records."""
        return self.data + which

    def twins_of(self, which: int) -> list[int]:
        """Where its twins are."""
        return [self.column(len(self.pairs) + place) for place, (mine, _) in enumerate(self.twins) if mine == which]

    @property
    def _rows(self) -> NDArray[np.int64]:
        n = len(self.pairs[0].x)
        return np.unique(np.linspace(0, n - 1, PROBE).astype(np.int64))

    def _pool(self, which: NDArray[np.int64]) -> tuple[Array, Array, NDArray[np.bool_]]:
        """All records, after them every canary that is learned, and who (columns) learns which (rows)."""
        first, count = self.pairs[0], len(self.pairs)
        x = np.concatenate((first.x, *(pair.canary_x for pair in self.pairs)))
        y = np.concatenate((first.y, *(pair.canary_y for pair in self.pairs)))
        member = np.ones((len(x), which.size), dtype=bool)
        member[-count:] = np.arange(count)[:, None] == which
        if first.adjacency is Adjacency.REPLACE:
            member[-count - 1] = which < 0
        learned = np.concatenate((np.ones(len(first.x), dtype=bool), member[-count:].any(axis=1)))
        return x[learned], y[learned], member[learned]

    def _said(self, told: Array, names: Array | None) -> tuple[NDArray[np.float64] | float, str]:
        answered: NDArray[np.bool_] = np.asarray(np.isfinite(told).all(axis=1))
        mine = told[: self.data][answered[: self.data]]
        if not len(mine):
            return math.nan, "predicted NaN"
        if len(mine) > 1 and (mine == mine[0]).all():
            return math.nan, "predicted a constant"
        found = np.full(len(told), np.nan)
        margin = margins_of(told[answered], names, self.seen_y[answered], np.unique(self.pairs[0].y))
        found[answered] = np.sign(margin) * np.log1p(np.abs(margin))
        return found, ""


def _answered(ask: Callable[[Array], tuple[Array, Array | None]], seen: Array) -> tuple[Array, Array | None]:
    """The answers to all records; where one of them makes the model raise, each is asked for alone, NaN for those."""
    told: tuple[Array, Array | None] | None = None
    with Border() as border:
        told = ask(seen)
    if not border.problem and told is not None:
        return told
    rows: list[tuple[Array, Array | None] | None] = []
    for place in range(len(seen)):
        row: tuple[Array, Array | None] | None = None
        with Border():
            row = ask(seen[place : place + 1])
        rows.append(row)
    good = next((row for row in rows if row is not None), None)
    if good is None:
        return ask(seen)  # raises what it raised
    none = np.full_like(good[0], np.nan)
    return np.concatenate([none if row is None else row[0] for row in rows]), good[1]


def _nothing(x: Array) -> list[Array]:
    """Records that hold nothing in particular: blank, the average, and all missing, as the data can hold them."""
    if x.dtype.kind in "UOb":
        return []
    blank = np.zeros_like(x[:1])
    if x.dtype.kind != "f":
        return [blank]
    return [blank, np.nan_to_num(np.nanmean(x, axis=0, keepdims=True)).astype(x.dtype), np.full_like(x[:1], np.nan)]


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
        """Make many runs in one call of fit.many."""
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
