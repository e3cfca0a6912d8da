"""Columns of pandas, polars and Arrow as arrays: a column's declared type decides what it is, never a missing value.

Libraries turn a column of whole numbers into one of floats, or raise, where one of them is missing. Whoever saw the
type of an answer, or the error, would then know that somebody's number is missing.
"""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHOLE = re.compile(r"(?P<name>u?int(8|16|32|64)|bool)(ean)?(\[pyarrow\])?")
"""Types of whole numbers as these libraries write them, in small letters."""
TIMES, NESTED = ("date", "timestamp", "duration"), ("list", "struct", "array")
"""How types of dates and times begin, and those of polars that may hold some."""
SILENT = (float, int, bool, str, type(None))
"""Types that become floats, or do not, without a word of warning."""
PLAIN = re.compile(r"(float(16|32|64)?|double|halffloat)(\[pyarrow\])?|array\(.*")
"""Types that these libraries turn into arrays of floats, whatever is missing, and fixed rows of numbers."""


def array_of_column(values: Any, *, filled: bool) -> NDArray[np.generic]:
    """A column as an array, or a table with its columns side by side.

    filled: a missing whole number counts as 0, and the column stays whole; else it is no number.
    """
    if hasattr(values, "columns"):
        parts = [array_of_column(part, filled=filled) for part in parts_of(values)]
        if len({part.dtype for part in parts}) > 1:  # a common type would round whole numbers beyond 2^53
            parts = [part.astype(object) for part in parts]
        return np.stack(parts, axis=1) if parts else np.empty((0,))
    kind = str(values.type if hasattr(values, "type") else getattr(values, "dtype", "")).lower()
    arrow, whole = hasattr(values, "to_pylist"), WHOLE.fullmatch(kind)
    if whole is None and not PLAIN.fullmatch(kind):  # a dictionary of whole numbers becomes floats where one is missing
        return np.fromiter(items_of(values), dtype=object, count=len(values))
    found = np.asarray(values.to_numpy(zero_copy_only=False) if arrow else values.to_numpy())
    if not filled or whole is None or found.dtype.kind in "biu":
        return found
    items = items_of(values)
    return np.array([item if isinstance(item, int) else 0 for item in items], dtype=whole["name"])


def items_of(column: Any) -> list[Any]:
    """The items of a column as Python's objects; None for one that Python does not have, such as the year 10,000.

    A library would raise at such an item, or print a panic, and so tell of one person's value.
    """
    if _may_panic(column):
        column = column.to_arrow()
    way = next(name for name in ("to_pylist", "to_list", "tolist") if hasattr(column, name))
    try:
        return list(getattr(column, way)())
    except Exception:  # of one item: each is then read by itself
        items = getattr(column, "iloc", column)
        return [_item(items, place) for place in range(len(column))]


def holds_times(column: object) -> bool:
    """Whether this is a column of dates or times of pandas, polars or Arrow, by its declared type."""
    kind = getattr(column, "dtype", getattr(column, "type", ""))
    return is_column(column) and not isinstance(kind, np.dtype) and str(kind).lower().startswith(TIMES)


def _may_panic(column: Any) -> bool:
    """Whether this is a column of polars that may hold a time which Python does not have. Nanoseconds do not reach it,
    and Arrow turns them into objects of pandas."""
    kind = str(getattr(column, "dtype", ""))
    return hasattr(column, "to_physical") and "'ns'" not in kind and kind.lower().startswith((*TIMES, *NESTED))


def _item(items: Any, place: int) -> Any:
    try:
        found = items[place]
        return found.as_py() if hasattr(found, "as_py") else found
    except Exception:  # an error that one person's value can cause is a release
        return None


def number_of(value: Any) -> float:
    """One value as a float, NaN where it is none; numpy and torch warn of some, which would be seen."""
    try:
        if type(value) in SILENT:
            return float(value)
        if value is np.ma.masked or isinstance(value, np.complexfloating):
            return math.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(value)
    except Exception:  # whatever one person's value does
        return math.nan


def is_column(values: object) -> bool:
    """Whether this is a column or table of these libraries; some of their single values can be arrays too."""
    return hasattr(values, "__len__") and (hasattr(values, "to_numpy") or hasattr(values, "to_pylist"))


def parts_of(table: Any) -> list[Any]:
    """The columns of a table, also those of one name."""
    if hasattr(table, "iloc"):
        return [table.iloc[:, k] for k in range(table.shape[1])]
    return list(table.get_columns() if hasattr(table, "get_columns") else table.columns)
