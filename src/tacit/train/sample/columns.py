"""Data given as columns: tensors, arrays or lists with an element per record, in tuples and mappings.

Whether something is a column, and its dtype, follow from types and lengths and from what most of some inspected records
look like. No single record decides it. Where one record holds something else, records are read one by one, and that
record contributes nothing (soundness rule 8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core import BadInput
from .collate import alike, array, signed
from .items import reader

FIELDS = 4
"""A list of more tensors than this is a list of records, not of columns."""
Constant = str | int | float | complex | None


class Rows:
    """Records from columns that are ragged lists, as tokenizers return them, or that a `collate` reads one by one."""

    def __init__(self, columns: object, count: int) -> None:
        self.columns, self.count = columns, count

    @classmethod
    def of(cls, columns: Any) -> Rows:
        fields = list(columns.values()) if isinstance(columns, Mapping) else columns
        named = isinstance(fields, tuple | list)
        if named and not all(hasattr(one, "__len__") and getattr(one, "ndim", 1) for one in fields):
            raise BadInput("A column of the data has no rows.", fix="Give constants to the loss, not with the data.")
        counts = {len(one) for one in fields} if named else {len(columns)}
        if len(counts) != 1:
            raise BadInput("Columns of the data differ in their number of rows.")
        return cls(columns, counts.pop())

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, row: int) -> object:
        if isinstance(self.columns, Mapping):
            return {name: _at(column, row) for name, column in self.columns.items()}
        if isinstance(self.columns, tuple | list):
            return alike(self.columns, (_at(column, row) for column in self.columns))
        return _at(self.columns, row)


def _at(column: Any, row: int) -> object:
    """An element by position, also of a column with row labels (pandas) or with a mask of missing values (Arrow,
    NumPy's masked arrays); missing values become None.
    """
    if isinstance(column, np.ma.MaskedArray):
        return column[row].tolist()
    if hasattr(column, "to_pylist"):
        return column[row].as_py()
    return column.iloc[row] if hasattr(column, "iloc") else column[row]


def has_columns(data: object) -> bool:
    """Whether data are tensors or arrays with a row per record, or a tuple, short list or mapping of these."""
    if isinstance(data, list):
        return 0 < len(data) <= FIELDS and all(isinstance(one, Tensor | np.ndarray) and one.ndim for one in data)
    return isinstance(data, Tensor | np.ndarray | tuple | Mapping)


def are_tensors(columns: object) -> bool:
    """Whether every column has become a tensor; ragged lists and texts have not."""
    if isinstance(columns, dict | tuple):
        return all(map(are_tensors, columns.values() if isinstance(columns, dict) else columns))
    return isinstance(columns, Tensor | Constant)


def as_tensors(data: Any) -> object:
    """Convert arrays, series of data frames and lists of numbers to tensors, float64 to float32 and labels to int64.
    Other columns and constants stay as they are.
    """
    if isinstance(data, Tensor):
        return _in_memory(data)
    if isinstance(data, Mapping):
        return {key: as_tensors(value) for key, value in data.items()}
    if isinstance(data, tuple | list) and not (has_columns(data) and _holds_columns(data)):
        return _listed(list(data))
    if isinstance(data, tuple | list):
        return alike(data, map(as_tensors, data))
    if isinstance(data, Constant):
        return data
    if not hasattr(data, "__array__"):
        raise BadInput(
            f"Data hold a {type(data).__name__}, of which rows cannot be drawn.", fix="Give tensors, arrays or lists."
        )
    if hasattr(data, "dtype") and not isinstance(data.dtype, np.dtype):  # one missing value would make fractions of all
        return _listed(list(data))
    if isinstance(data, np.ma.MaskedArray) or hasattr(data, "to_pylist"):
        return _listed(data.tolist() if isinstance(data, np.ma.MaskedArray) else data.to_pylist())
    try:
        return array(np.asarray(data))
    except ValueError:  # something other than numbers
        return data


def _in_memory(data: Tensor) -> Tensor:
    if data.layout is not torch.strided or data.is_meta or data.is_nested or data.is_quantized:
        raise BadInput(
            "Data hold a tensor that is sparse, nested, quantized or without memory.",
            fix="Give dense tensors, data.to_dense() say, or a list of records.",
        )
    return signed(data)


def _holds_columns(data: tuple[object, ...] | list[object]) -> bool:
    """Whether a sequence contains something with rows; if not, it is itself a column of numbers."""
    return any(isinstance(one, tuple | list | Mapping) or getattr(one, "ndim", 0) for one in data)


def _listed(values: list[object]) -> Any:
    """A column given as a list: a tensor if all elements have the type that most have, else the list."""
    try:
        found = _stacked(values)
        pattern = reader(values, len(values), None).pattern if values else None
    except (ValueError, TypeError, OverflowError, RuntimeError):  # unequal lengths, or other things than numbers
        return values
    usual = isinstance(pattern, Tensor) and (found.shape[1:], found.dtype) == (pattern.shape, pattern.dtype)
    return found if usual else values


def _stacked(values: list[Any]) -> Tensor:
    if all(isinstance(one, Tensor) for one in values):
        return torch.stack([_in_memory(one.detach()) for one in values])
    if any(isinstance(one, Tensor) for one in values):
        raise TypeError
    return array(np.asarray(values))
