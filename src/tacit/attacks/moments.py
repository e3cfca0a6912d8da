"""Means and spreads of the reference models that did, and did not, see a record."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core import Observations

Floats = NDArray[np.float64]

FLOOR = 1e-12
"""A variance below this is none: references that all said the same. Log-odds are not known to more than 1e-6."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Per record, over the references on one side (in or out): how many, their mean, their sum of squares about it.

    A record without a reference on this side has count 0 and a mean that is guessed (see `sides`). `single` is the
    variance of one model's answer where no record has two on this side, so that none can be read from within.
    """

    count: Floats
    mean: Floats
    squares: Floats
    single: float | None = None

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of each record's variance."""
        return np.maximum(self.count - 1, 0.0)

    @property
    def pooled(self) -> float:
        """One variance for all records: within them, else from both sides, else between records."""
        freedom = float(self.freedom.sum())
        if freedom > 0:
            return max(float(self.squares.sum()) / freedom, FLOOR)
        if self.single is not None:
            return max(self.single, FLOOR)
        return max(float(self.mean[self.count > 0].var()), FLOOR)

    @property
    def typical(self) -> float:
        """How many references a record has on this side, on average."""
        return float(self.count.mean())

    def variance(self) -> Floats:
        """Each record's own variance; the pooled one where a record was seen less than twice or never moved."""
        own = self.squares / np.maximum(self.freedom, 1.0)
        return np.where((self.freedom > 0) & (own > 0), own, self.pooled)


def moments(values: Floats, seen: NDArray[np.bool_]) -> Moments:
    """Moments of `values` (records x models) where `seen`."""
    count = seen.sum(axis=1).astype(np.float64)
    total = np.where(seen, values, 0.0).sum(axis=1)
    overall = float(total.sum() / max(count.sum(), 1.0))
    mean = np.where(count > 0, total / np.maximum(count, 1.0), overall)
    squares = (np.where(seen, values - mean[:, None], 0.0) ** 2).sum(axis=1)
    return Moments(count, mean, squares)


def sides(references: Observations, name: str) -> tuple[Moments, Moments]:
    """The named signal's moments over the references that saw a record, and over those that did not.

    Where a record has references on one side only, its mean on the other side is guessed: the mean that is known, plus
    the average effect of training on a record. Where no side has two references of one record, the variance of one
    answer is read from the differences between a record's two sides, shared between them as the spread over records is.
    """
    values, member = references.need(name), references.need("member").astype(bool)
    inside, outside = moments(values, member), moments(values, ~member)
    both = (inside.count > 0) & (outside.count > 0)
    known = [both, both] if both.any() else [inside.count > 0, outside.count > 0]
    if not all(rows.any() for rows in known):
        return inside, outside
    gain = float(inside.mean[known[0]].mean() - outside.mean[known[1]].mean())
    spread = [float(side.mean[rows].var()) for side, rows in zip((inside, outside), known, strict=True)]
    apart = float(np.var((inside.mean - outside.mean)[both])) if both.any() else 0.0
    single = [apart * part / sum(spread) if apart > 0 and sum(spread) > 0 else None for part in spread]
    return (
        replace(inside, mean=np.where(inside.count > 0, inside.mean, outside.mean + gain), single=single[0]),
        replace(outside, mean=np.where(outside.count > 0, outside.mean, inside.mean - gain), single=single[1]),
    )
