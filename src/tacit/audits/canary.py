"""Canaries: records made to be noticed. The data sets with and without one are the pair that a game is played on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput

Array = NDArray[Any]
FEATURES = 1024
Maker = Callable[[Array, Array, np.random.Generator], tuple[Any, Any]]


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


def blank(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """A record of zeros with the rarest label."""
    return np.zeros_like(x[0]), _rarest(y)


def mislabelled(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """A real record, drawn at random, with the label that fits it least."""
    record = x[int(rng.integers(len(x)))].copy()
    return record, _least_fitting(x, y, record)


def backdoor(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """A real record with a corner pattern at the data's largest value and the label that fits it least.

    The corner is the first tenth of every axis, at least one entry of it.
    """
    record = x[int(rng.integers(len(x)))].copy()
    axes = record.shape[:2] if record.ndim == 2 else record.shape[-2:] if record.ndim > 2 else record.shape
    corner = tuple(slice(0, max(1, size // 10)) for size in axes)
    record[(..., *corner) if record.ndim > 2 else corner] = x.max()
    return record, _least_fitting(x, y, record)


def unseen(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """A blank record but for the feature that varies least, at the data's largest value, with the rarest label.

    Hardly another record has a gradient along its own, so nothing covers its trace but the noise.
    """
    record = np.zeros_like(x[0])
    record.flat[int(np.argmin(x.reshape(len(x), -1).std(axis=0)))] = x.max()
    return record, _rarest(y)


def clip_aware(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """Along the direction in which the records vary least, as long as the longest of them, with the rarest label.

    Clipping shortens every gradient alike, so what counts is that nobody else's points the same way.
    Reference: Jagielski, Ullman and Oprea 2020, ClipBKD. Of very many features, those that vary least.
    """
    flat = x.reshape(len(x), -1).astype(np.float64)
    few = np.argsort(flat.std(axis=0), kind="stable")[:FEATURES]
    _, vectors = np.linalg.eigh(flat[:, few].T @ flat[:, few])
    record = np.zeros(flat.shape[1])
    record[few] = vectors[:, 0] * np.linalg.norm(flat, axis=1).max()
    return record.reshape(x.shape[1:]), _rarest(y)


CANARIES: dict[str, Maker] = {
    "backdoor": backdoor,
    "blank": blank,
    "clip-aware": clip_aware,
    "mislabelled": mislabelled,
    "unseen": unseen,
}
AUTO = ("backdoor", "blank", "mislabelled", "unseen")
"""Those that "auto" compares; along its direction the least varying feature is nearly what clip-aware is."""


def maker(canary: str | Maker) -> tuple[str, Maker]:
    """A canary's name and its maker; a callable is its own."""
    if callable(canary):
        return getattr(canary, "__name__", "own canary"), canary
    if canary not in CANARIES:
        raise BadInput(f"Canary {canary!r} is not known.", fix=f"Use auto, a callable, or: {', '.join(CANARIES)}.")
    return canary, CANARIES[canary]


def _rarest(y: Array) -> Any:
    labels, count = np.unique(y, return_counts=True)
    return labels[np.argmin(count)]


def _least_fitting(x: Array, y: Array, record: Array) -> Any:
    """The class whose mean is farthest from the record: what a trained model finds hardest to believe."""
    labels = np.unique(y)
    distance = [float(np.linalg.norm(x[y == label].mean(axis=0) - record)) for label in labels]
    return labels[int(np.argmax(distance))]
