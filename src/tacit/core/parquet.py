"""Parquet files as rows of text, so that they are read like any CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import BadInput, MissingExtra


def table(path: Path) -> Any:
    """The Arrow table of a file; a nested column is refused."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("parquet") from None
    try:
        found: Any = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException):
        raise BadInput(f"{path.name} cannot be read as a Parquet file.") from None
    nested = [field.name for field in found.schema if pyarrow.types.is_nested(field.type)]
    if nested:
        raise BadInput(f"{path.name}: column {nested[0]!r} holds more than one value per row.")
    return found


def rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """(header, rows); a missing value is an empty text."""
    found = table(path)
    columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in found.columns]
    return list(found.column_names), [list(row) for row in zip(*columns, strict=True)]
