"""Columns of pandas, polars and Arrow as arrays: a column's declared type decides what it is, never a missing value.

Libraries turn a column of whole numbers into one of floats, or raise, where one of them is missing. Whoever saw the
type of an answer, or the error, would then know that somebody's number is missing.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE = re.compile(r"(?P<name>u?int(8|16|32|64)|bool)(ean)?(\[pyarrow\])?")
"""Types of whole numbers as these libraries write them, in small letters."""
PLAIN = re.compile(r"(float(16|32|64)?|double|halffloat)(\[pyarrow\])?|array\(.*")
"""Types that these libraries turn into arrays of floats, whatever is missing, and fixed rows of numbers."""


def array_of_column(values: Any, *, filled: bool) -> NDArray[np.generic]:
    """A column as an array, or a table with its columns side by side.

    filled: a missing whole number counts as 0, and the column stays whole; else it is no number.
    """
    if hasattr(values, "columns"):
        parts = [array_of_column(part, filled=filled) for part in _parts(values)]
        if len({part.dtype for part in parts}) > 1:  # a common type would round whole numbers beyond 2^53
            parts = [part.astype(object) for part in parts]
        return np.stack(parts, axis=1) if parts else np.empty((0,))
    kind = str(values.type if hasattr(values, "type") else getattr(values, "dtype", "")).lower()
    arrow, whole = hasattr(values, "to_pylist"), WHOLE.fullmatch(kind)
    if whole is None and not PLAIN.fullmatch(kind):  # a dictionary of whole numbers becomes floats where one is missing
        return np.fromiter(values.to_pylist() if arrow else values.to_list(), dtype=object, count=len(values))
    found = np.asarray(values.to_numpy(zero_copy_only=False) if arrow else values.to_numpy())
    if not filled or whole is None or found.dtype.kind in "biu":
        return found
    items = values.to_pylist() if arrow else values.to_list()
    return np.array([item if isinstance(item, int) else 0 for item in items], dtype=whole["name"])


def is_column(values: object) -> bool:
    """Whether this is a column or table of these libraries; some of their single values can be arrays too."""
    return hasattr(values, "__len__") and (hasattr(values, "to_numpy") or hasattr(values, "to_pylist"))


def _parts(table: Any) -> list[Any]:
    if hasattr(table, "iloc"):
        return [table.iloc[:, k] for k in range(table.shape[1])]
    return list(table.get_columns() if hasattr(table, "get_columns") else table.columns)
