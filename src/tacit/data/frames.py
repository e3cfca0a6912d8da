"""The one place that knows data frames: pandas, polars and Arrow tables become named columns, through narwhals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput, MissingExtra
from .values import Values

Frame: TypeAlias = Any
"""A pandas or polars DataFrame, an Arrow table, or what narwhals takes for one."""

_LIBRARIES = frozenset({"pandas", "polars", "pyarrow", "narwhals", "modin", "cudf"})


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of one length."""

    columns: Mapping[str, Values]
    rows: int
    name: str = "The table"

    def __getitem__(self, column: str) -> Values:
        """A column by its name; one that is not there is refused with the names that are."""
        if column not in self.columns:
            raise BadInput(f"{self.name} has no column {column!r}.", fix=f"Columns: {named(self.columns)}.")
        return self.columns[column]

    def __contains__(self, column: str) -> bool:
        return column in self.columns

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Table:
        """Some of the rows."""
        parts = {name: values.take(rows) for name, values in self.columns.items()}
        return Table(parts, int(np.arange(self.rows)[rows].size), self.name)


def named(columns: Iterable[str], most: int = 30) -> str:
    """Names in one line, cut where there are many. One that holds a comma, or ends in a sign, stands in quotes."""
    names = [name if re.fullmatch(r"[^,]*[\w)]", name) else repr(name) for name in columns]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def is_frame(data: object) -> bool:
    """Whether `data` is a data frame of a known library; imports none of them."""
    library = type(data).__module__.partition(".")[0]
    return library in _LIBRARIES and any(name in dir(data) for name in ("columns", "column_names"))


def table(frame: Frame, name: str = "The table", *, fewest: int = 1) -> Table:
    """Read a data frame of at least `fewest` rows into named columns."""
    if isinstance(frame, Table):
        return frame
    try:
        narrow = narwhals().from_native(frame, eager_only=True, pass_through=False)
    except TypeError:
        raise BadInput(
            f"Records that a schema describes are a table with named columns, got {type(frame).__name__}.",
            fix="Give a data frame, for example of pandas or polars.",
        ) from None
    header = full_header([str(column) for column in narrow.columns])
    check_header(header, name)
    if len(narrow) < fewest:
        raise BadInput(f"{name} holds no rows.")
    columns = {label: _values(narrow[column], label) for label, column in zip(header, narrow.columns, strict=True)}
    return Table(columns, len(narrow), name)


def joined(frame: Frame, labels: object, label: str) -> Table:
    """The table of a frame and of labels that are held beside it, under the name `label`."""
    found = table(frame)
    if label in found:
        raise BadInput(f"The frame holds column {label!r} already.", fix="Give the frame alone, or drop the column.")
    values = table(narwhals().new_series(label, _cells(labels), backend=_backend(frame)).to_frame().to_native())[label]
    if len(values) != found.rows:
        raise BadInput(f"There are {len(values)} labels for {found.rows} records.")
    return Table({**found.columns, label: values}, found.rows, found.name)


def _cells(labels: Any) -> list[Any]:
    known = next((name for name in ("to_pylist", "to_list", "tolist") if name in dir(labels)), None)
    return list(labels if known is None else getattr(labels, known)())


def _backend(frame: Frame) -> Any:
    return narwhals().from_native(frame, eager_only=True).implementation


def full_header(header: list[str]) -> list[str]:
    """A column without a name, such as the row numbers that pandas writes, is called by its place."""
    return [column or f"column {place}" for place, column in enumerate(header, start=1)]


def check_header(header: list[str], name: str) -> None:
    """Refuse two columns of one name."""
    if twice := next((column for k, column in enumerate(header) if column in header[:k]), None):
        raise BadInput(f"{name} has two columns named {twice!r}.", fix="Rename or remove one of them.")


def narwhals() -> Any:
    """The adapter's library, or the sentence that says how to install it."""
    try:
        import narwhals.stable.v1
    except ImportError:
        raise MissingExtra("tables") from None
    return narwhals.stable.v1


def _values(series: Any, name: str) -> Values:
    kind = series.dtype
    if kind.is_nested():
        raise BadInput(f"Column {name!r} holds more than one value per row.")
    if kind == narwhals().Decimal:  # identifiers of databases: double precision would merge some
        return from_arrow(series)
    if kind.is_integer() and not _exact(series):
        return _texts(series.cast(narwhals().String))
    if kind.is_numeric() or kind == narwhals().Boolean:
        return Values(numbers=_numbers(series))
    return from_arrow(series) if kind.is_temporal() else _texts(series)


def _exact(series: Any) -> bool:
    """Whether all whole numbers of a column are numbers in double precision: identifiers may be larger."""
    ends = [end for end in (series.min(), series.max()) if isinstance(end, Integral)]  # none where all are missing
    return all(abs(int(end)) < 2**53 for end in ends)


def _numbers(series: Any) -> NDArray[np.float64]:
    """Numbers in double precision; a missing value is NaN."""
    wide = series.cast(narwhals().Float64)
    return np.asarray(wide.to_numpy(), dtype=np.float64)


def _texts(series: Any) -> Values:
    """Texts, categories and mixed objects, each by its words. Objects, and categories of pandas, are read one by one:
    Arrow would choose a type for all of them, by one person's."""
    held: Any = getattr(series.to_native(), "cat", None)
    if hasattr(held, "codes"):
        words = Values.of_texts([*map(_word, held.categories.tolist()), None])  # the last, at -1, is missing
        return words.take(held.codes.to_numpy())
    if series.dtype == narwhals().Object:
        return Values.of_texts([_word(value) for value in series.to_list()])
    try:
        return from_arrow(series)
    except (ImportError, TypeError, ValueError, OverflowError, NotImplementedError):  # one kind of value per column
        return Values.of_texts([_word(value) for value in series.to_list()])


def _word(value: object) -> str | None:
    """The text of one value; None where it is missing, or cannot be compared or written down."""
    try:
        if value is None or bool(value != value):
            return None
        if isinstance(value, str):  # of a class of its own, such as an Enum of texts: Arrow reads the text too
            return str.__str__(value)
        return str(value.real if isinstance(value, complex) and value.imag == 0 else value)
    except Exception:  # whatever one person's value does
        return None


def from_arrow(series: Any) -> Values:
    """Values of an Arrow column, or of a series that becomes one: distinct texts are found without a Python loop."""
    import pyarrow
    import pyarrow.compute

    column = series if isinstance(series, pyarrow.ChunkedArray | pyarrow.Array) else series.to_arrow()
    if pyarrow.types.is_float32(column.type) or pyarrow.types.is_float64(column.type):  # NaN is missing, no text
        nothing = pyarrow.scalar(None, column.type)
        column = pyarrow.compute.if_else(pyarrow.compute.is_nan(column), nothing, column)
    words = column.type.value_type if pyarrow.types.is_dictionary(column.type) else None
    if words is None or pyarrow.types.is_temporal(words):  # Python does not have every time that Arrow has
        column = column.cast(pyarrow.string()).dictionary_encode()
    column = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if isinstance(column, pyarrow.ChunkedArray):  # chunks of different dictionaries
        column = column.unify_dictionaries().combine_chunks()
    codes = pyarrow.compute.fill_null(column.indices.cast(pyarrow.int64()), -1)
    texts = [None if text is None else str(text) for text in column.dictionary.to_pylist()]
    table = np.array([-1 if text is None else k for k, text in enumerate(texts)] + [-1], dtype=np.int64)
    return Values(codes=table[codes.to_numpy(zero_copy_only=False)], texts=tuple(text or "" for text in texts))
