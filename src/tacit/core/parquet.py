"""Parquet files as rows of text, so that they are read like any CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import BadInput, MissingExtra
from .files import opened, shown

MOST = 2**40
COLUMNS = 100_000
SMALL, DENSE = 2**24, 1000
"""Values that any file may hold, and how many per byte a larger one may."""


def table(path: Path) -> Any:
    """The Arrow table of a file; a nested column is refused."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet") from None
    with opened(path, MOST) as file:
        try:
            told = pyarrow.parquet.ParquetFile(file).metadata
            _check_size(path, told.num_rows * told.num_columns, told.num_columns)
            file.seek(0)
            found: Any = pyarrow.parquet.ParquetFile(file).read()
        except BadInput:
            raise
        except (OSError, pyarrow.ArrowException, ValueError, KeyError, TypeError, OverflowError, MemoryError):
            raise BadInput(f"{shown(path)} cannot be read as a Parquet file.") from None
    nested = [field.name for field in found.schema if pyarrow.types.is_nested(field.type)]
    if nested:
        raise BadInput(f"{shown(path)}: column {nested[0]!r} holds more than one value per row.")
    return found


def _check_size(path: Path, cells: int, columns: int) -> None:
    """Refuse what is far larger in memory than on disk, before memory is asked for."""
    if not 0 <= columns <= COLUMNS:
        raise BadInput(f"{shown(path)} has more than {COLUMNS:,} columns.")
    if cells < 0 or cells > max(SMALL, DENSE * path.stat().st_size):
        raise BadInput(f"{shown(path)} says that it holds {cells:,} values, which so small a file cannot.")


def rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """(header, rows); a missing value is an empty text."""
    found = table(path)
    columns = [texts(column, shown(path)) for column in found.columns]
    return list(found.column_names), [list(row) for row in zip(*columns, strict=True)]


def texts(column: Any, name: str) -> list[str]:
    """The values of an Arrow column as texts; a missing one is empty."""
    try:
        return ["" if value is None else str(value) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # damaged text, or dates beyond Python's
        raise BadInput(f"{name} holds a column that is neither numbers nor text in UTF-8.") from None
