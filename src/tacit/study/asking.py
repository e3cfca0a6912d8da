"""Ask the target and its reference models about all records of an attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import Copies as NearCopies
from ..attacks import near_duplicates
from ..core import Control, Observations
from ..core.arrays import Array
from .augmented_queries import Copies
from .class_names import check_known, classes_of, names_of
from .column_order import check_columns, check_labels
from .finished_parts import Finished
from .forms import Form, check_values
from .models import Fit, answers, is_regressor, usual_form
from .outputs import Reading
from .pooling import pool
from .records import features, identities
from .reference_models import trained
from .repeats import TrainingSets, near_repeats, repeats
from .residuals import check_units

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pool:
    """Members and outsiders: records, labels, membership, and for every row the first row of the same record.

    `known` is what is known of every record itself, `found` which of the records (each once) are near each other.
    """

    x: Any
    y: Array
    member: Flags
    record: NDArray[np.int64]
    known: NDArray[np.float64]
    found: NearCopies

    @classmethod
    def of(cls, members: Any, nonmembers: Any, look: Callable[[Any], NDArray[np.float64]] = features) -> Pool:
        """From two pairs (x, y); `look` turns records into numbers. Rows that repeat a record in all but a digit, more
        often than the other side does, are rows of one record too."""
        x, y, member = pool(members, nonmembers)
        record, known = repeats(identities(x, y), member), look(x)
        once = _once(record)
        found = near_duplicates(known[once], member[once], y[once])
        first = near_repeats(found, member[once])
        if (first != np.arange(first.size)).any():
            record = once[first][np.searchsorted(once, record)]
            once = _once(record)
            found = near_duplicates(known[once], member[once], y[once])
        return cls(x, y, member, record, known, found)

    @property
    def once(self) -> NDArray[np.intp]:
        """One row of every record."""
        return _once(self.record)

    @property
    def repeated(self) -> int:
        """Rows that repeat a record."""
        return self.record.size - self.once.size

    def copies(self) -> tuple[tuple[Flags, Control | None], int]:
        """Rows to leave out, the control, and how many outsiders are copies of a member.

        Left out are all rows of a record but its first, and copies across the split.
        """
        member = self.member[self.once]
        left, test = self.found.settled(member)
        rows = ~np.isin(np.arange(self.record.size), self.once[~left])
        return (rows, test), int((self.found.of_members & ~member).sum())


def _once(record: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.flatnonzero(record == np.arange(record.size))


@dataclass(frozen=True, eq=False)
class Asked:
    """What the target, and its reference models, said of all records."""

    seen: Observations
    others: Observations | None

    @classmethod
    def of(
        cls,
        target: Any,
        pooled: Pool,
        train: Fit | None,
        wanted: int,
        finished: Finished,
        said: str,
        copies: Copies | None,
    ) -> Asked:
        """Ask the target, train its references on as many records as it has members, and read both in the same way."""
        x, y, member = pooled.x, pooled.y, pooled.member
        classes, names = classes_of(target, y), names_of(target, y)
        check_known(target, y[member])
        shown, times = (x, 1) if copies is None else (copies.of(x), copies.times)
        told = answers(target, shown, classes, names)
        form = "values" if said == "auto" and is_regressor(target) else said
        if form != said:
            check_values(told, y)
        reading = Reading.of(told, np.tile(y, times), classes, form, usual_form(target))
        if said == "auto" and reading.form is Form.VALUES:
            check_units(told[: len(y)][member], reading.labels[: len(y)][member])
        if classes is None and reading.form is not Form.VALUES:
            inside = np.flatnonzero(member)
            check_columns(reading.table(told)[inside], reading.labels[inside])
        taught: list[object] = []
        sides: Flags | None = None
        if train is not None and wanted:
            sets = TrainingSets.of(pooled.record, member, y, wanted, finished.chance)
            keep = reading.keeping(wanted, _lens(target, shown, names))
            taught = trained(train, x, y, sets, finished.chance, (classes, names), keep, finished, shown)
            sides = sets.member
            if classes is not None and reading.form is not Form.VALUES:
                check_labels(reading.table, reading.labels, [(told, member), *zip(taught, sides.T, strict=True)])
        read = reading.coarsest(taught)

        def signals(answered: Sequence[object], inside: Flags) -> Observations:
            found = reading.observe(answered, np.tile(inside, (times, 1)), read)
            return replace(found if copies is None else copies.folded(found), record=pooled.record)

        seen = replace(signals([told], member[:, None]), features=pooled.known)
        return cls(seen, None if sides is None else signals(taught, sides))

    def without(self, rows: Flags) -> Asked:
        """Both without some records."""
        if not rows.any():
            return self
        others = None if self.others is None else self.others.select(records=~rows)
        return Asked(self.seen.select(records=~rows), others)


def _lens(target: object, x: object, names: Array | None) -> Callable[[Any], Any] | None:
    """How a target shows shares of these records, where it says so itself: a service may name some classes alone.

    `names` are those of its columns, in its own order; shares of references come and go in the sorted order.
    """
    own = getattr(target, "shown", None) or getattr(getattr(target, "__wrapped__", None), "shown", None)
    if not callable(own):
        return None
    if names is None:
        return lambda shares: own(shares, x)
    place = np.argsort(np.argsort(names))
    return lambda shares: own(shares[:, place], x)[:, np.argsort(names)]
