"""Map records to users, where the unit of privacy is a user.

Which user a record belongs to depends on its own id alone: no other id may merge two users or split one. So ids are
never put into one array of a common type. There, 64-bit integers beside one missing value would become floats and lose
digits, and numbers beside one text would become texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from numbers import Complex
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core import BadInput, Source, check
from .draw import Index

MOST = 2**14
"""Records of a user in one step: a public limit, since memory that ran out would tell how large the sample is."""


@dataclass(frozen=True, eq=False)
class Users:
    """The records of every user, and how many of them take part in a step at `most`.

    Guarantee: whatever a user's records are, the user contributes one average of at most `most` of them.
    """

    records: list[Index]
    most: int

    @classmethod
    def of(cls, ids: ArrayLike, most: int | None, rows: int) -> Users:
        """Records without an id (None, NaN, pandas.NA, NaT) belong to nobody and are left out."""
        if most is None:
            raise BadInput("Say how many records of a user take part in a step at most.", fix="Give records_per_user.")
        most = check.whole("records_per_user", most)
        if most > MOST:
            raise BadInput(
                f"records_per_user must be at most {MOST:,}.", fix="Each user of a step is padded to so many records."
            )
        codes = user_codes(ids)
        if codes.shape != (rows,):
            raise BadInput("users must hold one id for every record.")
        known = np.flatnonzero(codes >= 0)
        order = known[np.argsort(codes[known], kind="stable")]
        ends = np.cumsum(np.bincount(codes[known]))
        return cls(np.split(order, ends)[:-1], most)

    def table(self, index: Index, source: Source) -> tuple[Index, NDArray[np.float32]]:
        """(users, most) records with their shares; a user with fewer repeats the first one with share zero.

        A user with more sends a uniform choice of them, drawn anew in every step.
        """
        rows = np.zeros((len(index), self.most), dtype=np.int64)
        shares = np.zeros((len(index), self.most), dtype=np.float32)
        for place, user in enumerate(index):
            own = self.records[user]
            if len(own) > self.most:
                own = own[source.permutation(len(own))[: self.most]]
            rows[place] = own[0]
            rows[place, : len(own)] = own
            shares[place, : len(own)] = 1 / len(own)
        return rows, shares


def user_codes(ids: ArrayLike | Iterable[object]) -> NDArray[np.int64]:
    """A number for every record's user; -1 if the id is missing. Ids that are not an array are read one by one."""
    kind = getattr(ids, "dtype", None)
    masked = isinstance(ids, np.ma.MaskedArray)  # what lies under a mask is nobody's id
    if isinstance(kind, np.dtype) and not kind.hasobject and not masked:
        names = np.asarray(ids)
        known = names == names
        codes = np.full(names.shape, -1, dtype=np.int64)
        codes[known] = np.unique(names[known], return_inverse=True)[1]
        return codes
    words = [_word(name) for name in _listed(ids)]
    places: dict[str | None, int] = {word: place for place, word in enumerate(sorted({*words} - {None}, key=str))}
    return np.array([places.get(word, -1) for word in words], dtype=np.int64)


def _listed(ids: object) -> Iterable[Any]:
    """The ids as Python values; an Arrow column would yield scalars, whose missing value is not None."""
    for name in ("to_pylist", "tolist"):
        if hasattr(ids, name):
            found: Iterable[Any] = getattr(ids, name)()
            return found
    return cast(Iterable[Any], ids)


def _word(name: object) -> str | None:
    """An id as text. Equal numbers give the same text, so they stay one user.

    Missing values are None, or unequal to themselves (NaN, NaT), or refuse the comparison (pandas.NA). An id that
    cannot be converted to text counts as missing too: nothing may be revealed by how an id behaves here.
    """
    try:
        if name is None or not bool(name == name):
            return None
        number: Any = name if isinstance(name, Complex | Decimal | np.bool_) else None
        if number is not None and number == number.real and number.real == number.real // 1:
            return str(int(number.real))
        return str(name)
    except Exception:  # whatever it is, the id alone is its reason
        return None
