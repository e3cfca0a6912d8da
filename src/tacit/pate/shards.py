r"""Which teacher learns from which record: one record, or one user, belongs to one teacher.

With ids (of records, or of users) the shard is HMAC-SHA256(key, id) mod `teachers`. The shard depends on that id
alone. So adding or removing a person moves nobody else, and a record whose values change stays in its shard. A record
without an id is left out, since nobody knows which other records belong to the same person.
Without ids each record's shard is drawn for it alone. In both cases neighbouring data sets differ in one shard.
Reference: docs/proofs/pate.md, Lemma 1.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import BadInput, Source, check
from .names import column, name

Shards = NDArray[np.int64]
KEY_WORDS = 4
NOBODY = -1


def shards(records: int, teachers: int, *, users: ArrayLike | None = None, rng: Source) -> Shards:
    """The teacher of each record, 0 to teachers - 1, or -1 for a record whose user is missing (None, NaN, no text).

    `users` says whose each record is: all records of one user go to one teacher.
    """
    count = check.whole("teachers", teachers)
    if count > check.whole("records", records, least=0):
        raise BadInput(
            f"There are {count} teachers and only {records} records.",
            fix="Use fewer teachers: each needs some dozens of records to learn from.",
        )
    if users is None:
        return _drawn(records, count, rng)
    ids = column(users)
    if ids.shape != (records,):
        raise BadInput(f"users must name one user for each of the {records} records.")
    return hashed(ids, count, rng.words(KEY_WORDS).tobytes())


def hashed(ids: NDArray[np.generic], teachers: int, key: bytes) -> Shards:
    """HMAC-SHA256(key, id) mod teachers, up to a bias of teachers 2^-64; -1 where there is no id."""
    if ids.dtype.kind == "O":  # values of several types have no order
        distinct, place = ids.tolist(), np.arange(ids.size)
    else:
        values, place = np.unique(ids, return_inverse=True)
        distinct = values.tolist()
    names = [name(value) for value in distinct]
    found = {known: int.from_bytes(_digest(key, known), "little") % teachers for known in set(names) if known}
    shards = np.array([NOBODY if known is None else found[known] for known in names], dtype=np.int64)
    return np.asarray(shards[place.reshape(-1)])


def _digest(key: bytes, name: str) -> bytes:
    return hmac.new(key, name.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()[:8]


def _drawn(records: int, teachers: int, rng: Source) -> Shards:
    """Draw a shard for each record by itself; the shards of the first records do not hang on how many follow."""
    return rng.integers(teachers, records)


def with_appended(users: ArrayLike | None, records: int) -> list[Any] | None:
    """The users of a run, and one more for every record that an audit appended to its records."""
    if users is None:
        return None
    known = column(users).tolist()
    if records < len(known):
        return [f"record {place}" for place in range(records)]
    return [*known, *(f"appended {place}" for place in range(records - len(known)))]
