r"""Which records are trained on where nobody says so: about nine in ten, by a rule that looks at each record alone.

A split by places in a file would break a promise about one record more or less. Whoever leaves moves everybody behind
to another place, so the training would exchange many records. Here a record is held out if

    hash(its values, k) mod 10 = 0,

where k counts the records with the same values before it. Equal records cannot be told apart, so the records that are
trained on, as a collection, lose or gain at most the one that left or came. Where neighbours have as many records
(replace, zero-out), nobody changes places, and every tenth place is held out.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput
from ..data import Records

Mask = NDArray[np.bool_]
EVERY = 10
"""One record, or user, in so many is held out."""


def training_rows(records: Records, adjacency: Adjacency | str) -> Mask:
    """The members, where the data name them; else about nine records in ten, or all records of nine users in ten.

    Guarantee: two data sets that differ in one record (one user) give training records that differ in at most that one.
    """
    if records.members is not None:
        if not records.members.any():
            raise BadInput("`members` names no record to train on.")
        return records.members
    if Adjacency.of(adjacency) is not Adjacency.ADD_REMOVE:
        places = np.arange(len(records.x)) if records.unit is None else _whose(records)[1]
        return np.asarray(places % EVERY != 0)
    marks = _marks(records)
    if records.unit is None:
        return _kept(marks)
    number, place = _whose(records)
    own: list[list[bytes]] = [[] for _ in range(number)]
    for user, mark in zip(place.tolist(), marks, strict=True):
        own[user].append(mark)
    return np.asarray(_kept([_mark(*sorted(mine)) for mine in own])[place])


def in_value_order(records: Records, rows: Mask) -> NDArray[np.int64]:
    """Places of these rows, in an order that their values alone decide.

    Of equal records one may be trained on in the place of another that left. In the order of the file it would stand
    elsewhere, and a training that hangs on the order of its records would see more change than one record.
    """
    marks, places = _marks(records), np.flatnonzero(rows)
    return np.array(sorted(places.tolist(), key=lambda place: marks[place]), dtype=np.int64)


def _marks(records: Records) -> list[bytes]:
    """A hash of every record's values and label."""
    return [_mark(row.tobytes(), label.tobytes()) for row, label in zip(records.x, records.y, strict=True)]


def _kept(marks: list[bytes]) -> Mask:
    """Which records are trained on, by a hash of each record's mark. The k-th copy of a mark is hashed with k, so that
    copies are decided one by one."""
    seen: dict[bytes, int] = {}
    kept = np.zeros(len(marks), dtype=bool)
    for place, mark in enumerate(marks):
        before = seen.get(mark, 0)
        seen[mark] = before + 1
        kept[place] = int.from_bytes(_mark(mark, before.to_bytes(8, "big"))[:8], "big") % EVERY != 0
    return kept


def _mark(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def _whose(records: Records) -> tuple[int, NDArray[np.generic]]:
    """The number of users, and the user of each record, numbered in the order in which they first appear."""
    names, first, place = np.unique(np.asarray(records.unit), return_index=True, return_inverse=True)
    return len(names), np.argsort(np.argsort(first))[place]
