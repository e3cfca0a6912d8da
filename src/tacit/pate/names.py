"""Ids, labels and features read value by value: how one person's value is read never depends on another's.

NumPy gives a list one type: a single missing or odd value turns whole numbers into floats, and numbers into text, for
everybody. An id or a label that is spelled otherwise because somebody else is there would move more than one teacher.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import BadInput
from ..core.arrays import Array
from ..mechanism.columns import is_column, items_of, number_of

NUMBERS = "biuf"


def column(values: object) -> Array:
    """One entry per record, each as it was given; arrays stay as they are.

    A series of pandas, polars or Arrow is read value by value, unless NumPy holds its values. One missing value would
    make fractions of 64-bit ids otherwise, and merge people whose ids differ in the last digits alone.
    """
    if not isinstance(values, list | tuple):
        masked = isinstance(values, np.ma.MaskedArray)  # what lies under a mask is nobody's value
        if isinstance(getattr(values, "dtype", None), np.dtype) and not masked:
            return np.asarray(values)
        values = _listed(values)
    found = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        found[place] = value
    return found


def _listed(values: Any) -> list[Any]:
    if is_column(values):
        return items_of(values)
    return list(values.tolist() if callable(getattr(values, "tolist", None)) else values)


def name(value: Any, *, numeric: bool = False) -> str | None:
    """The spelling of an id or a label, equal for 1, 1.0, True and numpy's 1; None where it is missing.

    With `numeric` a text that is a number is spelled like that number. Values that cannot be spelled count as missing.
    """
    try:
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bytes):
            plain = plain.decode("utf-8", "surrogateescape")
        if numeric and isinstance(plain, str):
            plain = number_of(plain)
        if plain is None or plain != plain:  # NaN and NaT
            return None
        if isinstance(plain, float) and math.isfinite(plain) and plain == int(plain):
            plain = int(plain)
        return str(int(plain) if isinstance(plain, bool) else plain) or None
    except Exception:  # the object of one person cannot be compared or spelled
        return None


def numbers(x: object) -> Array:
    """Features as numbers: an array of numbers as it is, anything else value by value, NaN where it is no number."""
    found = x if isinstance(x, np.ndarray) else np.asarray(x)
    if found.dtype.kind in NUMBERS:
        return found
    flat = np.fromiter((number_of(value) for value in found.ravel().tolist()), dtype=np.float64, count=found.size)
    return flat.reshape(found.shape)


def features(x: Any, shape: tuple[int, ...] | None = None) -> Array:
    """Records as an array. Lists become float64 whatever they hold; arrays keep their type, which is the caller's.

    `shape` of a record is public where it is given. Lists of it are then read entry by entry, so that no entry, which
    may be a list or an array itself, is asked for its own shape.
    """
    if callable(getattr(x, "tocsr", None)):
        raise BadInput("Records are a sparse matrix.", fix="Give an array: x.toarray().")
    if callable(getattr(x, "detach", None)):  # a tensor
        x = x.detach().cpu()
        x = x.float() if "bfloat16" in str(x.dtype) else x
    if not isinstance(x, list | tuple):
        return np.asarray(x)
    if shape and (entries := _entries(x, (len(x), *shape))) is not None:
        return np.array(entries, dtype=np.float64).reshape(len(x), *shape)
    try:
        found = np.asarray(x)
        found = found if found.dtype.kind in NUMBERS else np.asarray(x, dtype=object)
    except ValueError:
        raise BadInput("Records must all have the same shape.") from None
    return numbers(found).astype(np.float64)


def _entries(x: Any, shape: tuple[int, ...]) -> list[float] | None:
    """The numbers in nested lists of this shape; None where a list has another length, or is none."""
    if not isinstance(x, list | tuple | np.ndarray) or len(x) != shape[0]:
        return None
    if len(shape) == 1:
        return [number_of(entry) for entry in x]
    found: list[float] = []
    for part in x:
        if (entries := _entries(part, shape[1:])) is None:
            return None
        found += entries
    return found
