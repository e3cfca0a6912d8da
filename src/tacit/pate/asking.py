"""Which public inputs to ask about: chosen from public inputs and from what was released before, so at no cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Source

Array = NDArray[Any]
Rows = NDArray[np.int64]
CHOICES = ("first", "random", "spread")
WIDTH = 32
"""Directions in which inputs are compared; more make no difference to who is far from whom."""


def check_choice(how: str) -> None:
    """Refuse a way of choosing that is not known."""
    if how not in CHOICES:
        raise BadInput(f"choose must be first, random or spread, got {how!r}.")


def next_queries(
    x: Array, count: int, asked: Rows, how: str, student: Callable[[Any], Array] | None, chance: Source
) -> Rows:
    """`count` rows of x that were not asked yet.

    Where a `student` is given, those that it is least sure of. Else `how`: "first" in the order of the records,
    "random", or "spread": each is the farthest from all before it.
    """
    left = np.setdiff1d(np.arange(len(x)), asked)
    if student is not None:
        sure = np.asarray(student(x[left])).max(axis=1)
        return np.asarray(left[np.argsort(sure, kind="stable")[:count]])
    if how == "first":
        return np.asarray(left[:count])
    if how == "random" or count >= left.size:
        return np.asarray(left[chance.permutation(left.size)[:count]])
    return spread(x, left, asked, count, chance)


def spread(x: Array, left: Rows, asked: Rows, count: int, chance: Source) -> Rows:
    """Farthest-first traversal (Gonzalez 1985): each row is the farthest from all chosen and all asked before."""
    places = compared(x, chance)
    distance = np.full(len(x), np.inf)
    start = asked if asked.size else left[chance.integers(left.size, 1)]
    for row in start.tolist():
        distance = np.minimum(distance, ((places - places[row]) ** 2).sum(axis=1))
    chosen = [] if asked.size else start.tolist()
    open_ = np.zeros(len(x), dtype=bool)
    open_[left] = True
    open_[chosen] = False
    while len(chosen) < count:
        row = int(np.where(open_, distance, -1.0).argmax())
        chosen.append(row)
        open_[row] = False
        distance = np.minimum(distance, ((places - places[row]) ** 2).sum(axis=1))
    return np.array(chosen, dtype=np.int64)


def compared(x: Array, chance: Source) -> Array:
    """Inputs in a few random directions of their own scale; what is not finite counts as 0."""
    flat = np.nan_to_num(np.asarray(x, dtype=np.float64).reshape(len(x), -1), posinf=0.0, neginf=0.0)
    flat = flat - flat.mean(axis=0)
    if flat.shape[1] <= WIDTH:
        return flat
    return np.asarray(flat @ chance.normal((flat.shape[1], WIDTH)) / np.sqrt(WIDTH))
