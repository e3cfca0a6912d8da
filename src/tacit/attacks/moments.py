"""Means and spreads of the reference models that did, and did not, see a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Observations

Floats = NDArray[np.float64]

FLOOR = 1e-12
"""A variance below this is none: references that all said the same. Log-odds are not known to more than 1e-6."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Per record, over the references on one side (in or out): how many, their mean, their sum of squares about it.

    A record without a reference on this side has count 0 and the mean of all other records.
    """

    count: Floats
    mean: Floats
    squares: Floats

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of each record's variance."""
        return np.maximum(self.count - 1, 0.0)

    @property
    def pooled(self) -> float:
        """One variance for all records: within records, or between them when each was seen once."""
        freedom = float(self.freedom.sum())
        if freedom > 0:
            return max(float(self.squares.sum()) / freedom, FLOOR)
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
    """The named signal's moments over the references that saw a record, and over those that did not."""
    values, member = references.need(name), references.need("member").astype(bool)
    return moments(values, member), moments(values, ~member)
