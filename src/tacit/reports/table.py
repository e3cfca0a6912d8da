"""Tables: once as HTML for reading, once as CSV for taking away, both from the same cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape


@dataclass(frozen=True)
class Cell:
    """What a reader sees, and the full-precision values that go into the file."""

    html: Markup
    values: tuple[Any, ...]

    @classmethod
    def words(cls, text: str) -> Cell:
        return cls(escape(text), (text,))


@dataclass(frozen=True)
class Column:
    """A heading, and the names of the file's columns it stands for (an interval is one heading and two columns)."""

    title: str | Markup
    names: tuple[str, ...]
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; `name` becomes the file's name, `of` says whose table it is."""

    name: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    of: str = ""

    @property
    def few(self) -> bool:
        """Few enough columns to wrap on a narrow screen instead of scrolling."""
        return len(self.columns) <= 3

    @property
    def csv(self) -> str:
        """The rows with full precision; null is an empty field."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(name for column in self.columns for name in column.names)
        for row in self.rows:
            writer.writerow(_fields(row))
        return file.getvalue()

    @property
    def href(self) -> str:
        """A data: address, so that the download needs no network and no script."""
        return "data:text/csv;charset=utf-8," + quote(self.csv, safe=",.-_ :;()/=+'!*")


def _fields(row: Iterable[Cell]) -> list[object]:
    return [_field(value) for cell in row for value in cell.values]


def _field(value: object) -> object:
    """A string that a spreadsheet would run as a formula is quoted with an apostrophe."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return repr(value) if isinstance(value, float) else value
