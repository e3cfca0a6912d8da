"""Data frames as arrays and back, for models that take frames: pipelines with named columns, mixed kinds, gaps.

Attacks and audits work on arrays: they mix records, compare them and make canaries. Numbers stay numbers, anything else
becomes the number of its value among those that occur, and a missing number has a column of its own; the model is given
a frame again. A made-up record that no frame could hold becomes the nearest one that some frame could.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import BadInput
from .frames import Frame, check_header, is_frame, named, narwhals
from .frames import table as read


@dataclass(frozen=True, eq=False)
class _Part:
    """One column: a number, perhaps with a mark for missing ones, or the place of a value among `values`."""

    name: str
    kind: Any
    values: Any = None
    missing: bool = False

    @property
    def width(self) -> int:
        return 1 + self.missing


@dataclass(frozen=True, eq=False)
class Codec:
    """How frames with these columns become arrays, and arrays frames."""

    parts: tuple[_Part, ...]
    backend: Any

    @classmethod
    def of(cls, *frames: Frame) -> Codec:
        """From all the frames that will be encoded, which must have the same columns."""
        narrow = [narwhals().from_native(frame, eager_only=True) for frame in frames]
        header = [str(name) for name in narrow[0].columns]
        if not all(isinstance(name, str) for name in narrow[0].columns):
            raise BadInput(
                "Columns must be named by texts.", fix="With pandas: frame.columns = frame.columns.astype(str)."
            )
        check_header(header, "The frame")
        for other in narrow[1:]:
            if list(other.columns) != list(narrow[0].columns):
                raise BadInput("All frames must have the same columns.", fix=f"The first has: {named(header)}.")
        whole = narwhals().concat([narwhals().maybe_reset_index(frame) for frame in narrow], how="vertical")
        parts = tuple(_part(whole[name], str(name)) for name in whole.columns)
        return cls(parts, whole.implementation)

    def encode(self, frame: Frame) -> Array:
        """An array of shape (rows, numbers of a record) in double precision."""
        narrow = narwhals().from_native(frame, eager_only=True)
        columns: list[Array] = []
        for part in self.parts:
            series = narrow[part.name]
            if part.values is not None:
                columns.append(_places(series, part.values))
                continue
            numbers = np.asarray(series.cast(narwhals().Float64).to_numpy(), dtype=np.float64)
            absent = ~np.isfinite(numbers)
            columns.append(np.where(absent, 0.0, numbers))
            if part.missing:
                columns.append(absent.astype(np.float64))
        return np.stack(columns, axis=1)

    def decode(self, x: Array) -> Frame:
        """The frame of some rows, of the library that the first frame came from."""
        nw, columns, first = narwhals(), [], 0
        for part in self.parts:
            values = np.asarray(x[:, first], dtype=np.float64)
            if part.values is not None:
                place = np.clip(np.rint(values), 0, len(part.values) - 1).astype(np.int64)
                series = nw.maybe_reset_index(part.values[place.tolist()]).alias(part.name)
            else:
                series = self._numbers(part, values, x[:, first + 1] > 0.5 if part.missing else None)
            columns.append(series.to_frame())
            first += part.width
        return nw.to_native(nw.concat(columns, how="horizontal"))

    def _numbers(self, part: _Part, values: Array, absent: Array | None) -> Any:
        nw = narwhals()
        whole = part.kind.is_integer() or part.kind == nw.Boolean
        if part.kind == nw.Boolean:
            values = np.clip(values, 0, 1)
        cells: Any = (np.rint(values) if whole else values).tolist()
        if absent is not None:
            empty = None if whole else float("nan")
            cells = [empty if lost else cell for cell, lost in zip(cells, absent.tolist(), strict=True)]
            return self._with_gaps(part, cells)
        return nw.new_series(part.name, cells, nw.Float64, backend=self.backend).cast(part.kind)

    def _with_gaps(self, part: _Part, cells: list[object]) -> Any:
        """Numbers of which some are missing; whole ones in pandas have a type of their own for that."""
        nw = narwhals()
        if self.backend.is_pandas() and (part.kind.is_integer() or part.kind == nw.Boolean):
            pandas, kind = sys.modules["pandas"], "boolean" if part.kind == nw.Boolean else "Int64"
            return nw.from_native(pandas.Series(cells, dtype=kind, name=part.name), series_only=True)
        return nw.new_series(part.name, cells, nw.Float64, backend=self.backend).cast(part.kind)


def _part(series: Any, name: str) -> _Part:
    kind, nw = series.dtype, narwhals()
    if kind.is_nested():
        raise BadInput(f"Column {name!r} holds more than one value per row.")
    if kind.is_numeric() or kind == nw.Boolean:
        numbers = np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        return _Part(name, kind, missing=bool((~np.isfinite(numbers)).any()))
    return _Part(name, kind, values=nw.maybe_reset_index(series.unique(maintain_order=True)))


def _places(series: Any, values: Any) -> Array:
    """Index of each value among `values`; an unknown value gets index 0."""
    known = {_key(value): k for k, value in enumerate(values.to_list())}
    return np.array([known.get(_key(value), 0) for value in series.to_list()], dtype=np.float64)


def _key(value: object) -> object:
    return None if value is None or type(value).__name__ == "NAType" or value != value else value


def split(data: object, label: str | None) -> tuple[Frame, Array]:
    """(x, y) of a frame with a label column, or of a pair of a frame and labels."""
    if is_frame(data):
        if label is None:
            raise BadInput("A data frame needs the name of its label column.", fix="Give schema=, or (x, y).")
        narrow = narwhals().from_native(data, eager_only=True)
        if label not in narrow.columns:
            raise BadInput(f"The frame has no column {label!r}.", fix=f"Columns: {named(map(str, narrow.columns))}.")
        return narwhals().to_native(narrow.drop(label)), _labels(narrow[label].to_list())
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("Records and labels must be a pair (x, y).")
    x, y = data
    return x, _labels(_plain(y)) if _is_series(y) else np.asarray(y)


def _plain(y: Any) -> list[object]:
    """The values of a series, an index or an array of pandas, polars or Arrow."""
    return list(y.to_pylist() if callable(getattr(y, "to_pylist", None)) else y.tolist() if _of_pandas(y) else y)


def _of_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas"


def _labels(values: list[object]) -> Array:
    """Labels as numbers or texts; a missing one is refused, by its place."""
    if (empty := next((k for k, value in enumerate(values) if _key(value) is None), None)) is not None:
        raise BadInput(f"The labels must not be missing: record {empty + 1} has none.")
    found = np.asarray(values)
    return found if found.dtype.kind in "biufU" else found.astype(str)


def _is_series(data: object) -> bool:
    return type(data).__module__.partition(".")[0] in {"pandas", "polars", "pyarrow"} and not is_frame(data)


def holds_frame(data: object) -> bool:
    """Whether it is a data frame, or a pair of a data frame and labels."""
    return is_frame(data) or (isinstance(data, tuple | list) and len(data) == 2 and is_frame(data[0]))


__all__ = ["Codec", "holds_frame", "read", "split"]
