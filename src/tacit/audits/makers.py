"""Makers of canaries: `make(x, y, rng) -> (x1, y1)`, one record and its label, from the data it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..core.arrays import Array

Maker = Callable[[Array, Array, np.random.Generator], tuple[object, object]]
FEATURES = 1024
"""Features that clip-aware looks at: of very many, those that vary least."""
EXTREME = 1000.0
"""Times the largest number of the data: far outside of any range, and yet no overflow in single precision."""
FAR = 10.0
"""Half-ranges from the middle of a feature: past the ends of most public ranges, where inputs are clipped."""
CATEGORIES = 256
"""A column of at most so many different whole numbers (or of words) is taken for categories."""
TWINS = 64
"""Columns in which a rare record is compared with another that nobody has."""
UNSEEN = "tacit-canary"
"""A word that no data set holds."""


def blank(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """A record of zeros with the rarest label."""
    return np.zeros_like(x[0]), _rarest(y)


def mislabelled(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """A real record, drawn at random, with the label that fits it least."""
    record = x[int(rng.integers(len(x)))].copy()
    return record, _least_fitting(x, y, record)


def backdoor(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """A real record with a corner pattern at the data's largest value and the label that fits it least.

    The corner is the first tenth of every axis, at least one entry of it.
    """
    record = x[int(rng.integers(len(x)))].copy()
    axes = record.shape[:2] if record.ndim == 2 else record.shape[-2:] if record.ndim > 2 else record.shape
    corner = tuple(slice(0, max(1, size // 10)) for size in axes)
    record[(..., *corner) if record.ndim > 2 else corner] = _largest(x)
    return record, _least_fitting(x, y, record)


def unseen(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """A blank record but for the feature that varies least, at the data's largest value, with the rarest label.

    Hardly another record has a gradient along its own, so nothing covers its trace but the noise.
    """
    record = np.zeros_like(x[0])
    record.flat[int(np.argmin(x.reshape(len(x), -1).std(axis=0)))] = _largest(x)
    return record, _rarest(y)


def clip_aware(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """Along the direction in which the records vary least, as long as the longest of them, with the rarest label.

    Clipping shortens every gradient alike, so what counts is that nobody else's points the same way.
    Reference: Jagielski, Ullman and Oprea 2020, ClipBKD. Of very many features, those that vary least.
    """
    flat = np.nan_to_num(x.reshape(len(x), -1).astype(np.float64))
    few = np.argsort(flat.std(axis=0), kind="stable")[:FEATURES]
    _, vectors = np.linalg.eigh(flat[:, few].T @ flat[:, few])
    record = np.zeros(flat.shape[1])
    record[few] = vectors[:, 0] * np.linalg.norm(flat, axis=1).max()
    return record.reshape(x.shape[1:]), _rarest(y)


def outlier(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """Every feature at a thousand times the data's largest number, on its contrary side, with the rarest label.

    It moves whatever is read off the data: ranges, means, deviations, correlations, the list of outliers.
    """
    extreme = EXTREME * max(float(np.nanmax(np.abs(x.astype(np.float64)))), 1.0)
    label = _rarest(y)
    side = np.ones(x.shape[1:]) if x.dtype.kind == "u" else -_side(x, y, label)
    return _held(extreme * side, x), label


def contrary(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """Every feature far outside of its range, on the side where records of its label (the rarest) are not.

    The model is wrong about it at every step, so its gradient stays long, and nobody else's points the same way. It is
    not so extreme that one step would settle it, as `outlier` is where inputs are not clipped.
    """
    label, wide, known = _rarest(y), x.astype(np.float64), np.isfinite(x)
    low, high = wide.min(axis=0, where=known, initial=np.inf), wide.max(axis=0, where=known, initial=-np.inf)
    low, high = (np.where(known.any(axis=0), end, 0.0) for end in (low, high))
    return _held((low + high) / 2 - FAR * _side(x, y, label) * np.maximum((high - low) / 2, 1e-3), x), label


def missing(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """A real record with every other feature missing (NaN, None, or an empty word), and the rarest label."""
    record = x[int(rng.integers(len(x)))].copy()
    record.flat[::2] = np.nan if x.dtype.kind == "f" else None if x.dtype.kind == "O" else ""
    return record, _rarest(y)


def rare(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """A real record whose categories nobody else has, with the rarest label: a vocabulary grows by it."""
    record = x[int(rng.integers(len(x)))].copy()
    flat = x.reshape(len(x), -1)
    for column in np.flatnonzero(categorical(x)):
        record.flat[column] = UNSEEN if x.dtype.kind in "UO" else _unused(flat[:, column])
    return record, _rarest(y)


def twins(x: Array, record: Array) -> list[Array]:
    """A rare record with another category that nobody has, in one column at a time.

    A model that knows neither category treats both records alike. Of many columns, those with the fewest and with the
    most categories.
    """
    flat = x.reshape(len(x), -1)
    columns = sorted(np.flatnonzero(categorical(x)).tolist(), key=lambda column: len(set(flat[:, column].tolist())))
    made = []
    for column in columns if len(columns) <= TWINS else columns[: TWINS // 2] + columns[-TWINS // 2 :]:
        other = record.copy()
        mine = np.concatenate((flat[:, column], record.reshape(-1)[column : column + 1]))
        other.flat[column] = f"{UNSEEN}-2" if x.dtype.kind in "UO" else _unused(mine)
        made.append(other)
    return made


def duplicate(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, object]:
    """A real record once more, with its own label."""
    row = int(rng.integers(len(x)))
    return x[row].copy(), y[row]


def near_duplicates(x: Array, y: Array, rng: np.random.Generator) -> tuple[Array, Any]:
    """The middle of the largest class, near to many records, with the label that fits it least."""
    labels, count = np.unique(y, return_counts=True)
    record = np.nanmedian(x[y == labels[np.argmax(count)]].astype(np.float64), axis=0)
    return np.nan_to_num(record), _least_fitting(x, y, record)


def categorical(x: Array) -> NDArray[np.bool_]:
    """Which features (flattened) look like categories: words, or a few different whole numbers from 0 on."""
    flat = x.reshape(len(x), -1)
    if x.dtype.kind in "UOb":
        return np.full(flat.shape[1], x.dtype.kind != "b")
    return np.array([_few_whole_numbers(column) for column in flat.T[:FEATURES]] + [False] * (flat.shape[1] - FEATURES))


def _unused(column: Array) -> int:
    """The whole number after the largest of a column, or the smallest that is free where there is none after it."""
    values, limit = np.unique(column), np.iinfo(column.dtype).max if column.dtype.kind in "iu" else np.inf
    after = int(values[-1]) + 1
    return after if after <= limit else int(np.setdiff1d(np.arange(values.size + 1), values)[0])


def _few_whole_numbers(column: Array) -> bool:
    values = np.unique(column[:: max(1, len(column) // 5000)])
    whole = bool(np.isfinite(values).all() and (values == np.round(values)).all() and values.min() >= 0)
    return whole and 1 < values.size <= min(CATEGORIES, max(2, len(column) // 2))


def _side(x: Array, y: Array, label: object) -> Array:
    """1 for features that are larger in records of the label than in others, else -1."""
    flat = np.nan_to_num(x.astype(np.float64), posinf=0.0, neginf=0.0)
    return np.where(flat[y == label].mean(axis=0) > flat[y != label].mean(axis=0), 1.0, -1.0)


def _held(record: Array, x: Array) -> Array:
    """A record of the data's kind, each number at the nearest that it can hold."""
    ends = np.iinfo(x.dtype) if x.dtype.kind in "iu" else np.finfo(x.dtype)
    low, high = float(ends.min), float(ends.max)
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        low, high = low / 2, high / 2  # the ends of 64 bits are no double numbers
    return np.asarray(np.clip(record, low, high).astype(x.dtype))


def _rarest(y: Array) -> object:
    labels, count = np.unique(y, return_counts=True)
    return labels[np.argmin(count)]


def _least_fitting(x: Array, y: Array, record: Array) -> object:
    """The class whose mean is farthest from the record: what a trained model finds hardest to believe."""
    labels = np.unique(y)
    if x.dtype.kind in "UO":
        return _rarest(y)
    centres = [np.nan_to_num(np.asarray(x[y == label], dtype=np.float64)).mean(axis=0) for label in labels]
    distance = [float(np.linalg.norm(centre - np.nan_to_num(record))) for centre in centres]
    return labels[int(np.argmax(distance))]


def _largest(x: Array) -> object:
    """The data's largest number, missing ones left out."""
    found = np.nanmax(x) if x.dtype.kind == "f" else x.max()
    if x.dtype.kind == "f" and not np.isfinite(found):
        raise BadInput("A canary cannot be made of data whose largest number is infinite or missing.")
    return found
