"""Records that are there several times on one side: a training set that was oversampled, or drawn with replacement.

Copies of one record are one record to an attack, which judges it once. A reference model that is trained on some of
them knows the others too, so it gets all of them or none. How often it gets a record must not say whether the target
knows it: outsiders are mostly there once. So a reference model gets any record as often as a random member of the same
label is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import Copies, natural
from ..core import Source
from ..core.arrays import Array
from .forms import continuous
from .subsets import subsets

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
SURE = 2.0
"""Standard deviations by which a side must repeat itself more often than the other side repeats it. Either mistake is
small: a pair of people is counted once, or a pair of copies twice."""


def repeats(known: list[tuple[bytes, str]], member: Flags) -> Rows:
    """For every row the first row of the same side that equals it; its own number where none does.

    In a coarse table different people have equal records, on both sides. So equal rows are not merged where records of
    one side equal each other no more often than they equal records of the other side.
    """
    first = np.arange(member.size)
    for side in (member, ~member):
        rows = np.flatnonzero(side)
        seen: dict[Any, int] = {}
        place = np.array([seen.setdefault(known[row], row) for row in rows.tolist()])
        crossing = sum(known[row] in seen for row in np.flatnonzero(~side).tolist())
        first[rows] = _unless_natural(rows, place, crossing, member.size)
    return first


def near_repeats(found: Copies, member: Flags) -> Rows:
    """For every row the first row of the same side that is it in all but a digit, by the rule of `repeats`."""
    first = np.arange(member.size)
    for side, alike in ((member, found.of_members), (~member, found.of_outsiders)):
        rows = np.flatnonzero(side)
        first[rows] = _unless_natural(rows, found.first[rows], int((alike & ~side).sum()), member.size)
    return first


def _unless_natural(rows: Rows, place: Rows, crossing: int, count: int) -> Rows:
    """`rows` as they are if they repeat no oftener than those of the other side repeat them; else `place`."""
    twice = int((np.bincount(place, minlength=count)[place] > 1).sum())
    return rows if natural(twice, rows.size, crossing, count - rows.size, SURE) else place


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """What reference models are trained on: how often each row is used (rows x models), and who knows which record."""

    times: NDArray[np.int64]
    member: Flags

    @classmethod
    def of(cls, record: Rows, inside: Flags, y: Array, count: int, rng: Source) -> TrainingSets:
        """Random sets of as many records as the target's training set has; `record` names the first row of each row's
        record, `inside` says which rows the target was trained on."""
        first, place = np.unique(record, return_inverse=True)
        sets = subsets(first.size, count, int(inside[first].sum()), rng)
        times = np.zeros((record.size, count), dtype=np.int64)
        times[first] = sets
        often = np.bincount(place.ravel())
        if (often[inside[first]] > 1).any():
            label = np.zeros(first.size) if continuous(y) else y[first]
            for column, chosen in zip(times.T, sets.T, strict=True):
                rows = np.flatnonzero(chosen)
                column[first[rows]] = _dealt(label[rows], often[inside[first]], label[inside[first]], rng)
        return cls(times, sets[place.ravel()])

    @property
    def count(self) -> int:
        """How many models there are."""
        return self.times.shape[1]

    def rows(self, model: int) -> Rows:
        """The row numbers that one model is trained on; a row that is used k times stands there k times."""
        return np.repeat(np.arange(len(self.times)), self.times[:, model])

    def together(self, models: slice) -> tuple[Rows, Flags]:
        """Rows that hold the training sets of several models, and which of them each model is trained on."""
        times = self.times[:, models]
        most = np.maximum(times.max(axis=1), 1)
        rows = np.repeat(np.arange(len(times)), most)
        copy = np.arange(rows.size) - np.repeat(np.cumsum(most) - most, most)
        return rows, copy[:, None] < times[rows]


def _dealt(label: NDArray[np.generic], often: Rows, of: NDArray[np.generic], rng: Source) -> Rows:
    """How often records with these labels are used: as often as random members, whose labels are `of`, are there."""
    dealt = np.ones(label.size, dtype=np.int64)
    for name in np.unique(label):
        usual = often[of == name] if (of == name).any() else often
        rows = np.flatnonzero(label == name)
        dealt[rows] = np.resize(usual[rng.permutation(usual.size)], rows.size)
    return dealt
