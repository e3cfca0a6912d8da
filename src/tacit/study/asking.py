"""All records of an attack, and what the target and its reference models said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import near_duplicates
from ..core import Control, Observations
from .augmented_queries import Copies
from .column_order import check_columns
from .finished import Finished
from .forms import Form
from .models import Fit, answers, as_given, classes_of, is_regressor, usual_form
from .outputs import Reading
from .pooling import pool
from .records import features, identities
from .reference_models import trained
from .repeats import TrainingSets, repeats

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pool:
    """Members and outsiders: records, labels, membership, and for every row the first row of the same record."""

    x: Any
    y: NDArray[Any]
    member: Flags
    record: NDArray[np.int64]

    @classmethod
    def of(cls, members: Any, nonmembers: Any) -> Pool:
        """From two pairs (x, y)."""
        x, y, member = pool(members, nonmembers)
        return cls(x, y, member, repeats(identities(x, y), member))

    @property
    def once(self) -> NDArray[np.intp]:
        """One row of every record."""
        return np.flatnonzero(self.record == np.arange(self.record.size))

    @property
    def repeated(self) -> int:
        """Rows that repeat a record."""
        return self.record.size - self.once.size

    def copies(self, known: NDArray[np.float64]) -> tuple[tuple[Flags, Control | None], int]:
        """Rows to leave out, the control, and how many outsiders are copies of a member.

        Left out are all rows of a record but its first, and copies across the split. `known` is what is known of every
        record itself.
        """
        rows, member = self.once, self.member[self.once]
        found = near_duplicates(known[rows], member, self.y[rows])
        left, test = found.settled(member)
        return (~np.isin(np.arange(self.record.size), rows[~left]), test), int((found.of_members & ~member).sum())


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
        classes = classes_of(target, y)
        shown, times = (x, 1) if copies is None else (copies.of(x), copies.times)
        told = answers(target, shown, classes)
        said = "values" if said == "auto" and is_regressor(target) else said
        reading = Reading.of(told, np.tile(y, times), classes, said, usual_form(target))
        if classes is None and reading.form in (Form.PROBABILITIES, Form.LOGITS):
            inside = np.flatnonzero(member)
            check_columns(reading.table(told)[inside], reading.labels[inside])
        taught: list[Any] = []
        sides: Flags | None = None
        if train is not None and wanted:
            sets = TrainingSets.of(pooled.record, member, y, wanted, finished.chance)
            keep = reading.keeping(wanted, _lens(target))
            taught = trained(train, x, y, sets, finished.chance, classes, keep, finished, shown)
            sides = sets.member
        read = reading.coarsest(taught)

        def signals(answered: Sequence[Any], inside: Flags) -> Observations:
            found = reading.observe(answered, np.tile(inside, (times, 1)), read)
            return replace(found if copies is None else copies.folded(found), record=pooled.record)

        seen = replace(signals([told], member[:, None]), features=features(as_given(target, x)))
        return cls(seen, None if sides is None else signals(taught, sides))

    def without(self, rows: Flags) -> Asked:
        """Both without some records."""
        if not rows.any():
            return self
        others = None if self.others is None else self.others.select(records=~rows)
        return Asked(self.seen.select(records=~rows), others)


def _lens(target: Any) -> Callable[[Any], Any] | None:
    """How a target shows shares, where it says so itself: a service may name its first few classes alone."""
    own = getattr(target, "shown", None) or getattr(getattr(target, "__wrapped__", None), "shown", None)
    return own if callable(own) else None
