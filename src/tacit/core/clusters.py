r"""How many independent rows some scores are worth: one record attacked in 16 models is not 16 records.

Rows share a record or a target model. Let psi_i be the influence of row i on an estimate (its derivative). The variance
is that of sums over records, plus that of sums over targets, minus that of rows (two-way clusters: Cameron, Gelbach and
Miller 2011, section 2.1). Divided by what independent rows would have it is the design effect, and an exact interval
for independent rows is used with so many times fewer of them (Korn and Graubard 1998).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .arrays import Array

Floats = NDArray[np.float64]
SPREAD = 8
"""Whole numbers are counted directly where their range is at most so many times their count."""


def design_effect(influence: Floats, record: NDArray[np.generic], target: NDArray[np.generic]) -> float:
    """Variance of the sum of `influence` over its variance had all rows been independent; at least 1.

    One target: 1, where no record is there twice. Few records or targets say little about their own spread. So each
    part is raised by the squared ratio of Student's and the normal quantile (Korn and Graubard 1998, section 2), of
    three degrees of freedom at least. Two targets say next to nothing about how much targets differ.
    """
    return Clusters.of(record, target).effect(lambda: influence)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which rows share a record or a target, as numbers; `alone`: no record is there twice, so all rows count fully."""

    alone: bool
    targets: int
    record: NDArray[np.intp] | None = None
    target: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, record: Array, target: Array) -> Clusters:
        if distinct(record):
            return cls(True, count(target))
        places = [np.unique(names, return_inverse=True)[1].ravel() for names in (record, target)]
        return cls(False, int(places[1].max(initial=-1)) + 1, *places)

    def effect(self, influence: Callable[[], Floats], rows: NDArray[np.bool_] | None = None) -> float:
        """The design effect of a sum over some `rows` (all where none are given); see `design_effect`.

        `influence` is asked for only where rows are not all independent.
        """
        if self.alone or self.record is None or self.target is None:
            return 1.0
        value = influence()
        squares = float(value @ value)
        if value.size < 2:
            return 1.0
        record, target = (names if rows is None else names[rows] for names in (self.record, self.target))
        if squares <= 0.0:  # no spread to see: rows of one record in one target are copies, and count once
            return value.size / count(record) if count(target) == 1 else 1.0
        records, record_count = _grouped(value, record)
        targets, target_count = _grouped(value, target)
        if record_count == value.size:
            return 1.0
        by_record = records * _few(record_count) / squares
        by_target = targets * _few(target_count) / squares if target_count > 1 else 1.0
        return max(1.0, by_record, by_record + by_target - 1.0)


def distinct(names: NDArray[np.generic]) -> bool:
    """Whether all names differ."""
    return count(names) == names.size


def count(names: Array) -> int:
    """How many names there are; whole numbers that lie close together are marked in a table instead of sorted."""
    if names.size and names.dtype.kind in "iu":
        first, last = int(names.min()), int(names.max())
        if last - first < SPREAD * names.size:
            seen = np.zeros(last - first + 1, dtype=bool)
            seen[names - names.dtype.type(first)] = True
            return int(np.count_nonzero(seen))
    return int(np.unique(names).size)


def _grouped(influence: Floats, place: NDArray[np.intp]) -> tuple[float, int]:
    """Sum of squared sums over equal places, and how many places there are."""
    sums = np.bincount(place, weights=influence)
    return float(sums @ sums), int(np.count_nonzero(np.bincount(place)))


def _few(count: int) -> float:
    """n / (n - 1) (t_{n-1} / z)^2 at 97.5 %."""
    if count < 2:
        return 1.0
    student = float(special.stdtrit(max(count - 1, 3), 0.975)) / float(special.ndtri(0.975))
    return count / (count - 1) * student**2
