"""Records that are there several times on one side: a training set that was oversampled, or drawn with replacement.

Copies of one record are one record to an attack. A reference model that is trained on some of them knows the others
too, so they go into a training set together or not at all. Ten rows of one record say no more than one row does, so
intervals count them as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import natural

Rows = NDArray[np.int64]
SURE = 2.0
"""Standard deviations by which a side must repeat itself more often than the other side repeats it. Either mistake is
small: a pair of people is counted once, or a pair of copies twice."""


def repeats(known: list[tuple[bytes, str]], member: NDArray[np.bool_]) -> Rows:
    """For every row the first row of the same side that equals it; its own number where none does.

    In a coarse table people equal each other on both sides. Where records of one side equal one another no more often
    than those of the other side equal them, they are different people, and every row stays for itself.
    """
    first = np.arange(member.size)
    for side in (member, ~member):
        rows, others = np.flatnonzero(side), np.flatnonzero(~side)
        seen: dict[Any, int] = {}
        place = np.array([seen.setdefault(known[row], row) for row in rows.tolist()])
        times = np.bincount(place, minlength=member.size)[place]
        crossing = sum(known[row] in seen for row in others.tolist())
        if not natural(int((times > 1).sum()), rows.size, crossing, others.size, SURE):
            first[rows] = place
    return first


def together(first: Rows) -> tuple[int, NDArray[np.intp]]:
    """How many different records there are, and for every row which of them it is."""
    names, place = np.unique(first, return_inverse=True)
    return names.size, place.ravel()
