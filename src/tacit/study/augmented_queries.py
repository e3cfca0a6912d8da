"""Ask a model about several copies of each record, as its training saw them: a model trained with augmentation knows
the copies too, and their mean tells more than the record alone (Carlini et al. 2022, section VI-A)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from ..core import BadInput, Observations, check
from ..core.arrays import Array
from ..core.resolution import Resolution, are_shares
from .models import predictor
from .records import joined, size


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of every record: `augment(x, k)` gives the k-th copy of all records, for k = 0 to `times` - 1.

    It must give the same copies each time it is called; k = 0 should be the records themselves. A record costs `times`
    queries.
    """

    augment: Callable[[Any, int], Any]
    times: int = 5

    def __post_init__(self) -> None:
        if not callable(self.augment):
            raise BadInput("augment must be a function augment(x, k), which gives the k-th copy of all records.")
        check.whole("times", self.times)

    def of(self, x: Any) -> Any:
        """All copies, one after the other, in the kind of table that the records came in."""
        parts = [self.augment(x, k) for k in range(self.times)]
        if any(size(part) != size(x) for part in parts):
            raise BadInput("augment must give one copy of every record.")
        return functools.reduce(joined, parts)

    def folded(self, seen: Observations) -> Observations:
        """Signals of records from those of all their copies: means of margins, logarithms and shares."""
        rows = seen.records // self.times

        def mean(name: str) -> Array | None:
            value = getattr(seen, name)
            return None if value is None else value.reshape(self.times, rows, *value.shape[1:]).mean(axis=0)

        member = seen.need("member")[:rows].astype(bool)
        margin, probability = np.asarray(mean("margin")), mean("probability")
        if seen.label is None:
            return Observations(member=member, loss=mean("loss"), margin=margin, probability=probability)
        found = Observations.from_margin(margin, member=member, logits=mean("logits"), label=seen.label[:rows])
        return replace(found, probability=probability)


def towards_label(x: Any, y: Any, parts: Sequence[float] = (0.1, 0.2)) -> Copies:
    """Copies of records that are moved a part of the way to the mean of all records with their label.

    Give members and outsiders together, in this order, as `tacit.attack` asks about them. A service that names its
    first few classes alone names a moved record's label more often. Networks that were trained on a record still tell;
    trees hardly do, so try it on reference models first.
    """
    records, label, steps = np.asarray(x, dtype=np.float64), np.asarray(y), tuple(parts)
    if records.shape[:1] != label.shape or not steps or not all(0 <= part < 1 for part in steps):
        raise BadInput("towards_label needs one label per record, and parts of at least 0 and below 1.")
    names, place = np.unique(label, return_inverse=True)
    means = np.stack([records[label == name].mean(axis=0) for name in names])[place]

    def moved(asked: Any, k: int) -> Array:
        if np.shape(asked) != records.shape or not np.array_equal(np.asarray(asked, dtype=float), records, True):
            raise BadInput("towards_label was given other records than those that are asked about.")
        return np.asarray((1 - steps[k]) * np.asarray(asked) + steps[k] * means)

    return Copies(moved, len(steps))


def augmented(model: object, augment: Callable[[object, int], object], *, copies: int) -> Callable[[Any], Array]:
    """predict(x) that asks about `augment(x, k)` for k = 0, 1, ... and gives the geometric mean of the shares.

    `tacit.attack(..., augment=Copies(augment, copies))` does the same for the target and all its references.
    """
    predict, asked = predictor(model), Copies(augment, copies)

    def answer(x: object) -> Array:
        told = _logarithms(predict(asked.of(x)))
        return np.asarray(special.softmax(told.reshape(copies, size(x), -1).mean(axis=0), axis=1))

    return answer


def _logarithms(told: Array) -> Array:
    """Log shares of one answer, be it shares, at their resolution, or logits."""
    if told.ndim != 2 or told.dtype.kind != "f":
        raise BadInput("Augmented queries need shares or logits, one column per class.", fix="Labels: use by_votes.")
    if are_shares(told):
        return np.asarray(np.log(Resolution.of(told).raised(told.astype(np.float64))))
    return np.asarray(special.log_softmax(told.astype(np.float64), axis=1))
