"""Canaries: records made to be noticed. The data sets with and without one are the pair that a game is played on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput
from ..core.arrays import Array
from . import makers
from .makers import Maker


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring data sets and the canary that tells them apart: `data(True)` holds it.

    add-remove: one record more. replace: the canary in the place of the last record, sizes equal.
    """

    x: Array
    y: Array
    canary_x: Array
    canary_y: Array
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if self.adjacency is Adjacency.ZERO_OUT:
            raise BadInput(
                "A zero-out claim cannot be played on somebody else's fit: nobody knows its null record.",
                fix="Audit under add-remove or replace.",
            )

    def data(self, coin: bool) -> tuple[Array, Array]:
        """The data set with (True) or without the canary; a copy, as a fit may work in place."""
        base = slice(None, -1) if self.adjacency is Adjacency.REPLACE and coin else slice(None)
        more = slice(None if coin else 0)
        return np.concatenate((self.x[base], self.canary_x[more])), np.concatenate((self.y[base], self.canary_y[more]))

    def pool(self, coins: NDArray[np.bool_]) -> tuple[Array, Array, NDArray[np.bool_]]:
        """All records of both data sets, and which of them (rows) belong to the run of each coin (columns)."""
        x, y = np.concatenate((self.x, self.canary_x)), np.concatenate((self.y, self.canary_y))
        member = np.ones((len(x), coins.size), dtype=bool)
        member[-1] = coins
        if self.adjacency is Adjacency.REPLACE:
            member[-2] = ~coins
        return x, y, member


def pair(x: Array, y: Array, maker: Maker, rng: np.random.Generator, adjacency: Adjacency) -> Pair:
    """Make the canary once; all runs of a game are played on the same pair."""
    try:
        record, label = maker(x, y, rng)
        canary_x, canary_y = np.asarray(record, dtype=x.dtype), np.asarray(label, dtype=y.dtype)
    except (TypeError, ValueError):
        raise BadInput("A canary maker must return a pair (x1, y1): one record and its label.") from None
    if canary_x.shape != x.shape[1:] or canary_y.shape != y.shape[1:]:
        raise BadInput("A canary must be one record (x1, y1) of the shape of the data's.")
    return Pair(x, y, canary_x[None], canary_y[None], adjacency)


CANARIES: dict[str, Maker] = {
    "backdoor": makers.backdoor,
    "blank": makers.blank,
    "clip-aware": makers.clip_aware,
    "contrary": makers.contrary,
    "duplicate": makers.duplicate,
    "mislabelled": makers.mislabelled,
    "missing": makers.missing,
    "near-duplicates": makers.near_duplicates,
    "outlier": makers.outlier,
    "rare": makers.rare,
    "unseen": makers.unseen,
}
AUTO = ("backdoor", "blank", "mislabelled", "unseen")
"""Canaries of a game of updates that is told "auto"; along its direction the least varying feature is nearly what
clip-aware is. A game of runs plays them and those of `unusual` in a pilot (portfolio.py)."""
UNUSUAL = ("contrary", "outlier", "rare", "missing", "near-duplicates", "duplicate")
"""Canaries with values that nobody has, or with nothing of their own, which show what is read off the data before
training; they are watched through other records' eyes too."""


def fitting(x: Array) -> tuple[str, ...]:
    """The names of all canaries that such data can hold, those that have told most first.

    The first is the pilot's favourite: another must be better than it by more than luck.
    """
    words = x.dtype.kind in "UO"
    first = ("contrary", "unseen", "outlier") if x.dtype.kind in "fiu" else ("unseen",)
    usual = ("mislabelled",) if words else (*first, "blank", "mislabelled", "backdoor")
    rare = ("rare",) if makers.categorical(x).any() else ()
    missing = ("missing",) if x.dtype.kind in "fUO" else ()
    near = () if words else ("near-duplicates",)
    return (*usual, *rare, *missing, *near, "duplicate")


def maker(canary: str | Maker) -> tuple[str, Maker]:
    """A canary's name and its maker; a callable is its own."""
    if callable(canary):
        return getattr(canary, "__name__", "own canary"), canary
    if canary not in CANARIES:
        raise BadInput(f"Canary {canary!r} is not known.", fix=f"Use auto, a callable, or: {', '.join(CANARIES)}.")
    return canary, CANARIES[canary]
