"""Which public inputs to ask about: chosen from public inputs and from what was released before, so at no cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Source
from ..core.arrays import Array
from .names import numbers

Rows = NDArray[np.int64]
CHOICES = ("first", "random", "spread", "typical")
ROUNDS, PART = 30, 4096
WIDTH, WIDE = 32, 1024
"""Directions in which inputs are compared; more make no difference to who is far from whom."""
FARTHEST = 1e100
"""Values beyond this count as this, so that no squared distance overflows."""


def check_choice(how: str) -> None:
    """Refuse a way of choosing that is not known."""
    if how not in CHOICES:
        raise BadInput(f"choose must be first, random, spread or typical, got {how!r}.")


def next_queries(x: Array, count: int, asked: Rows, how: str, said: Array | None, chance: Source) -> Rows:
    """`count` rows of x that were not asked yet.

    Where `said` is given, a student's shares for all of x, these are the rows that it is least sure of. Else `how`
    decides: "first" in the order of the records, "random", "spread": each is the farthest from all before it, or
    "typical": each is in the middle of a group.
    """
    left = np.setdiff1d(np.arange(len(x)), asked)
    if said is not None:
        sure = said[left].max(axis=1)
        return np.asarray(left[np.argsort(sure, kind="stable")[:count]])
    if how == "first":
        return np.asarray(left[:count])
    if how == "random" or count >= left.size:
        return np.asarray(left[chance.permutation(left.size)[:count]])
    if how == "typical":
        return typical(x, left, count, chance)
    return spread(x, left, asked, count, chance)


def typical(x: Array, left: Rows, count: int, chance: Source) -> Rows:
    """As many groups as rows are wanted, by k-means, and of each group the row nearest to its middle.

    A few answers then cover all kinds of inputs, and none is spent on an odd one. Groups start from rows drawn with
    chances as squared distances (k-means++: Arthur and Vassilvitskii 2007).
    """
    places = principal(compared(x[left], chance, WIDE))
    middles = places[chance.integers(left.size, 1)]
    distance = ((places - middles) ** 2).sum(axis=1)
    while len(middles) < count:
        mass = np.cumsum(distance)
        row = int(np.searchsorted(mass, chance.uniform(1)[0] * mass[-1])) if mass[-1] > 0 else len(middles)
        middles = np.concatenate((middles, places[min(row, left.size - 1)][None]))
        distance = np.minimum(distance, ((places - middles[-1]) ** 2).sum(axis=1))
    for _ in range(ROUNDS):
        group = nearest(places, middles)
        sizes = np.bincount(group, minlength=count)
        sums = np.zeros_like(middles)
        np.add.at(sums, group, places)
        middles = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], middles)
    taken = np.zeros(left.size, dtype=bool)
    for middle in middles:  # two groups may share their nearest row
        taken[np.where(taken, np.inf, ((places - middle) ** 2).sum(axis=1)).argmin()] = True
    return np.asarray(left[taken])


def nearest(places: Array, middles: Array) -> Rows:
    """Which middle each place is nearest to, some places at a time: all distances at once may not fit into memory."""
    lengths = (middles**2).sum(axis=1)
    parts = [places[first : first + PART] for first in range(0, len(places), PART)]
    return np.concatenate([(lengths - 2 * part @ middles.T).argmin(axis=1) for part in parts])


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


def compared(x: Array, chance: Source, width: int = WIDTH) -> Array:
    """Inputs in a few random directions of their own scale; what is no finite number counts as 0.

    It raises for no value: the queries are chosen after the charge.
    """
    flat = numbers(x).astype(np.float64).reshape(len(x), -1)
    flat = np.clip(np.where(np.isfinite(flat), flat, 0.0), -FARTHEST, FARTHEST)
    flat = flat - flat.mean(axis=0)
    if flat.shape[1] <= width:
        return flat
    return np.asarray(flat @ chance.normal((flat.shape[1], width)) / np.sqrt(width))


def principal(places: Array) -> Array:
    """Places in the directions in which they differ most."""
    directions = np.linalg.eigh(places.T @ places)[1]
    return np.asarray(places @ directions[:, -WIDTH:])
