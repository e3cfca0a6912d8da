"""Statistics that turn a model's answers about many records into the one number by which its run is judged.

A canary may show in its own margin, or in what the model says of others: a record that moves the scale of a feature
changes every prediction. Statistics are fitted on runs of a pilot, none of which is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .bounds.estimators import both_limits

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
OWN = "the canary's own margin"
TWIN = "how many of the canary's categories the model knows"
OTHERS = 3
"""Other records, of those that tell most, whose margins are statistics of their own."""
SHRINK = 0.5
"""Weight of the diagonal in the covariance of a projection: a pilot has hardly more runs than records are seen."""
FLAT = 1e-9
SURE = 0.8
"""Confidence of the limits by which a pilot compares."""
CLEAR, SURELY = 30.0, 2.0
"""The largest difference of means, in deviations, that is told from a larger one; and standard errors to be on the safe
side, so that small differences are told by the other two."""


def statistics(
    inside: Floats, outside: Floats, own: int, data: int, twins: Sequence[int] = ()
) -> Iterator[tuple[str, Statistic]]:
    """Statistics by name, fitted on runs (runs x seen records) with and without the canary; its own margin comes first.

    `own` is the canary's column, `twins` those of records which only a model that knows the canary tells from it; the
    first `data` columns are records of the data.
    """
    centre = _middle(outside)
    spread = _width(outside - centre)
    yield OWN, lambda runs: _filled(runs, centre)[:, own]
    yield "the canary's own margin, reversed", lambda runs: -_filled(runs, centre)[:, own]
    yield "how far the canary's margin is from usual", lambda runs: np.abs(_filled(runs, centre) - centre)[:, own]
    yield "how near the canary's margin is to usual", lambda runs: -np.abs(_filled(runs, centre) - centre)[:, own]
    shift = _middle(_filled(inside, centre)) - centre
    for j in _most(np.abs(shift) / spread, own):
        yield f"the margin of record {j}", _one(j, math.copysign(1.0, shift[j]), centre)
    wider = _width(_filled(inside, centre) - centre) / spread
    for j in _most(wider, own):
        yield f"how far the margin of record {j} is from usual", _far(j, centre)
    if twins:
        yield TWIN, _apart(own, list(twins), centre)
    yield from _of_many(inside, outside, centre, spread, data)


def held_out(
    inside: Floats, outside: Floats, own: int, data: int, twins: Sequence[int] = ()
) -> Iterator[tuple[str, Statistic, Floats]]:
    """Every statistic with its values for the runs, those with the canary first, each by a fit on the other half.

    What is fitted to a few runs tells these apart even where there is nothing to tell.
    """
    whole = list(statistics(inside, outside, own, data, twins))
    halves = [(inside[k::2], outside[k::2]) for k in (0, 1)]
    if min(len(side) for half in halves for side in half) < 1:
        both = np.concatenate((inside, outside))
        yield from ((name, use, use(both)) for name, use in whole)
        return
    fits = [list(statistics(*half, own, data, twins)) for half in halves]
    for (name, use), *parts in zip(whole, *fits, strict=True):
        told = np.empty(len(inside) + len(outside))
        for k, (_, fitted) in enumerate(parts):
            usual = fitted(halves[k][1])
            scale = float(np.std(usual))
            for first, side, other in zip((0, len(inside)), (inside, outside), halves[1 - k], strict=True):
                place = first + np.arange(1 - k, len(side), 2)
                told[place] = (fitted(other) - np.median(usual)) / (scale if scale > 0 else 1.0)
        yield name, use, told


def quality(values: Floats, coins: NDArray[np.bool_]) -> float:
    """Deviations by which the best threshold tells runs apart, at limits that luck alone seldom passes.

    The largest of three distances. The first is between normal quantiles of the limits of both rates at the best
    threshold; it sees a canary that shows in some runs only. The second comes from the area under the curve (ties count
    half) and needs fewer runs. The third is the difference of the means over the spread, less its own error; few runs
    show it where both sides are far apart.
    """
    inside, outside = np.sort(values[coins]), np.sort(values[~coins])
    if not inside.size or not outside.size:
        return -math.inf
    cuts = np.unique(values)
    hits, alarms = (side.size - np.searchsorted(side, cuts) for side in (inside, outside))
    tpr, fpr = both_limits(hits, alarms, inside.size, outside.size, SURE)
    best = float(np.max(_quantile(tpr) - _quantile(fpr)))
    above = np.mean(inside[:, None] > outside) + 0.5 * np.mean(inside[:, None] == outside)
    most = 1 - 0.5 / (inside.size * outside.size)
    return max(best, float(math.sqrt(2) * special.ndtri(min(max(above, 1 - most), most))), _apart_by(inside, outside))


def _apart_by(inside: Floats, outside: Floats) -> float:
    """(difference of the means) / spread, less SURELY of its standard errors (Hedges and Olkin 1985, chapter 5)."""
    n, m = inside.size, outside.size
    if n + m < 5:
        return -math.inf
    spread = math.sqrt(float(n * inside.var() + m * outside.var()) / (n + m - 2))
    gap = float(inside.mean() - outside.mean())
    d = min(gap / max(spread, abs(gap) / CLEAR, 1e-300), CLEAR)
    return d - SURELY * math.sqrt(1 / n + 1 / m + d * d / (2 * (n + m)))


def _quantile(rate: Floats) -> Floats:
    return np.asarray(special.ndtri(np.clip(rate, 1e-6, 1 - 1e-6)))


def _of_many(
    inside: Floats, outside: Floats, centre: Floats, spread: Floats, data: int
) -> Iterator[tuple[str, Statistic]]:
    """Statistics that combine the answers about all records."""

    def scaled(runs: Floats) -> Floats:
        return (_filled(runs, centre) - centre) / spread

    def wide(runs: Floats) -> Floats:
        return np.asarray(_filled(runs, centre)[:, :data].std(axis=1))

    sign = 1.0 if np.median(wide(inside)) >= np.median(wide(outside)) else -1.0
    yield "how much the model tells records apart", lambda runs: sign * wide(runs)
    direction = _direction(scaled(inside), scaled(outside))
    yield "a projection of all margins", lambda runs: np.asarray(np.tanh(scaled(runs) / 10) @ direction)
    yield "how unusual all margins are", lambda runs: np.log1p((np.minimum(scaled(runs) ** 2, 1e6)).mean(axis=1))
    more = 1.0 if np.isnan(inside).mean() >= np.isnan(outside).mean() else -1.0
    yield "how many records have no answer", lambda runs: more * np.isnan(runs).sum(axis=1)


def _direction(inside: Floats, outside: Floats) -> Floats:
    """Fisher's direction of squashed margins, with a covariance that is half diagonal."""
    inside, outside = np.tanh(inside / 10), np.tanh(outside / 10)
    rest = np.concatenate((inside - inside.mean(axis=0), outside - outside.mean(axis=0)))
    covariance = rest.T @ rest / len(rest)
    diagonal = np.diag(np.maximum(np.diag(covariance), FLAT))
    return np.asarray(
        np.linalg.solve((1 - SHRINK) * covariance + SHRINK * diagonal, inside.mean(axis=0) - outside.mean(axis=0))
    )


def _most(tell: Floats, own: int) -> list[int]:
    return [j for j in np.argsort(-tell, kind="stable").tolist() if j != own][:OTHERS]


def _one(j: int, sign: float, centre: Floats) -> Statistic:
    return lambda runs: sign * _filled(runs, centre)[:, j]


def _far(j: int, centre: Floats) -> Statistic:
    return lambda runs: np.abs(_filled(runs, centre)[:, j] - centre[j])


def _apart(own: int, twins: list[int], centre: Floats) -> Statistic:
    """How many twins the model tells from the canary at all."""

    def count(runs: Floats) -> Floats:
        told = _filled(runs, centre)
        return np.asarray((np.abs(told[:, twins] - told[:, [own]]) > FLAT).sum(axis=1, dtype=np.float64))

    return count


def _filled(runs: Floats, centre: Floats) -> Floats:
    """Records without an answer are as usual; that they have none is a statistic of its own."""
    return np.where(np.isnan(runs), centre, runs)


def _middle(runs: Floats) -> Floats:
    """The median of every column's answers, 0 where there is none."""
    if not np.isnan(runs).any():
        return np.asarray(np.median(runs, axis=0))
    return np.array([np.median(column[~np.isnan(column)]) if (~np.isnan(column)).any() else 0.0 for column in runs.T])


def _width(moved: Floats) -> Floats:
    """A deviation of every column, never 0."""
    return np.asarray(np.maximum(np.sqrt(np.mean(np.where(np.isnan(moved), 0.0, moved) ** 2, axis=0)), 1e-6))
