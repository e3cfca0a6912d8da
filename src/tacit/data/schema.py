"""Public facts of a table: columns with their kinds, ranges and words; the label, the unit of privacy and groups.

A schema is to tables what an event is to releases: frozen, and public wherever it says so. What was read off the data
is marked `public=False`: no proof about a training covers it, and the evidence names it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import BadInput
from ..core.files import shown, written
from ..core.toml_text import read_toml
from .values import canonical, days

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .frames import Frame

KINDS = ("number", "category", "text", "date")
Limit = float | str
SHOWN = 6
"""Words of a column that are shown."""


@dataclass(frozen=True)
class Column:
    """One column of a table: its kind, and what is public about its values.

    `range` is that of a number, or of a date as two ISO texts; `words` are those of a category.

    `public=False` says that range, words or decimal mark were read off the data. `decimal` is what marks the decimals
    of a number that is written as text, "." or ","; the other one separates thousands.
    """

    name: str
    kind: str = "number"
    range: tuple[Limit, Limit] | None = None
    words: tuple[str, ...] | None = None
    public: bool = True
    decimal: str = "."

    def __post_init__(self) -> None:
        where = f"Column {self.name!r}"
        if not isinstance(self.name, str) or not self.name:
            raise BadInput("A column needs a name, which is a text.")
        if self.kind not in KINDS:
            near = difflib.get_close_matches(str(self.kind), KINDS, n=1, cutoff=0.0)[0]
            raise BadInput(f"{where} has kind {self.kind!r}.", fix=f"Did you mean {near!r}? Kinds: {', '.join(KINDS)}.")
        if not isinstance(self.public, bool):
            raise BadInput(f"{where}: public is true or false.")
        if self.decimal not in (".", ","):
            raise BadInput(f"{where}: decimal must be a point or a comma.", fix='For example decimal = ",".')
        if self.decimal != "." and self.kind != "number":
            raise BadInput(f"{where}: decimal goes with a number.")
        object.__setattr__(self, "range", None if self.range is None else _range(where, self.kind, self.range))
        object.__setattr__(self, "words", None if self.words is None else _words(where, self.kind, self.words))
        if self.kind in ("number", "date") and self.range is None:
            example = "[0, 120]" if self.kind == "number" else '["1900-01-01", "2030-12-31"]'
            raise BadInput(f"{where} is a {self.kind} without a range.", fix=f"Say which is public: range = {example}.")
        if self.kind == "category" and not self.words:
            raise BadInput(f"{where} is a category without words.", fix='Say which there are: words = ["no", "yes"].')

    @property
    def limits(self) -> tuple[float, float]:
        """The range as numbers: of a date, days since 1970-01-01."""
        assert self.range is not None
        low, high = (days(end) if isinstance(end, str) else float(end) for end in self.range)
        return low, high


@dataclass(frozen=True)
class Schema:
    """Public facts of a table.

    `label` names the column that a model predicts, a category. `unit` names the column that says whose record a row
    is; it is no feature. `groups` names columns whose groups are compared; each is a feature too if it is among
    `columns`. Columns of the table that the schema does not describe are not read.
    """

    columns: tuple[Column, ...]
    label: str | None = field(default=None, kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    groups: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        given: object = self.groups
        groups = (given,) if isinstance(given, str) else tuple(self.groups)
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "groups", groups)
        if wrong := next((item for item in self.columns if not isinstance(item, Column)), None):
            raise BadInput(f"A schema is made of Column(...), got {type(wrong).__name__}.")
        names = [column.name for column in self.columns]
        if twice := next((name for k, name in enumerate(names) if name in names[:k]), None):
            raise BadInput(f"The schema describes column {twice!r} twice.")
        if self.label is not None:
            self._check_label(names)
        if not self.features:
            raise BadInput("The schema needs at least one column besides label and unit.")

    def _check_label(self, names: list[str]) -> None:
        if self.label not in names:
            raise BadInput(
                f"The label {self.label!r} is not among the schema's columns.",
                fix=f'Describe it: kind = "category", words = [...]. Columns: {", ".join(names)}.',
            )
        kind, words = self[self.label].kind, self[self.label].words
        if kind != "category" or words is None or len(words) < 2:
            raise BadInput(f"The label {self.label!r} must be a category of at least two words.")

    def __getitem__(self, name: str) -> Column:
        """A column by its name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise BadInput(
            f"The schema has no column {name!r}.", fix=f"Columns: {', '.join(item.name for item in self.columns)}."
        )

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that a model is given."""
        return tuple(column for column in self.columns if column.name not in (self.label, self.unit))

    @property
    def classes(self) -> tuple[str, ...]:
        """The words of the label, in the order of their numbers."""
        words = None if self.label is None else self[self.label].words
        if words is None:
            raise BadInput("The schema names no label.", fix="Give label=: the column that the model predicts.")
        return words

    @property
    def width(self) -> int:
        """How many numbers a record becomes: known from the schema alone."""
        from .encoding import width

        return sum(width(column) for column in self.features)

    @property
    def derived(self) -> tuple[str, ...]:
        """The columns whose range or words were read off the data."""
        return tuple(column.name for column in self.columns if not column.public)

    def encode(self, frame: Frame) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Turn a data frame into (x, y): x of shape (rows, width), y the number of each label's word.

        No value raises: a number is clipped to its range; a missing value and an unknown word have columns of their
        own; the label of a record that has none in the schema is -1. Without a label y is empty.
        """
        from .encoding import encoded, labelled
        from .frames import table

        found = table(frame)
        return encoded(self, found), labelled(self, found)

    def __repr__(self) -> str:
        roles = "".join(f", {role} {name!r}" for role, name in (("label", self.label), ("unit", self.unit)) if name)
        off = f", {len(self.derived)} read off the data" if self.derived else ""
        return f"Schema({len(self.columns)} columns{roles}, {self.width} features{off})"

    def _repr_html_(self) -> str:
        """For a notebook: one row per column."""
        from ..core.shown import table

        return table(repr(self), ((column.name, self.line(column)) for column in self.columns))

    def line(self, column: Column) -> str:
        """A column in one line: kind, range or some of its words, role, and whether it was read off the data."""
        held = self.held(column)
        role = "label" if column.name == self.label else "group" if column.name in self.groups else ""
        return "  ".join(part for part in (column.kind, held, role, "" if column.public else "not public") if part)

    @staticmethod
    def held(column: Column) -> str:
        """The range of a column, or its first words, as text."""
        words = column.words or ()
        more = f" and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
        return f"{column.range[0]} to {column.range[1]}" if column.range else ", ".join(words[:SHOWN]) + more

    def with_(self, **changes: Any) -> Schema:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @classmethod
    def of(cls, frame: Frame, **known: Any) -> Schema:
        """Read a schema off a data frame, around what is known of it; see `tacit.data.infer`."""
        from .inference import infer

        return infer(frame, **known)

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read the TOML file that `save` writes."""
        fix = "tacit init TABLE writes a schema, and tacit.Schema.of(frame, label=...) reads one off a data frame."
        return cls.from_table(read_toml(path, fix=fix), shown(Path(path)))

    @classmethod
    def from_table(cls, found: Mapping[str, Any], name: str) -> Schema:
        """A schema from the tables of a TOML file called `name`."""
        _known(found, ("label", "unit", "groups", "columns"), name)
        columns = found.get("columns")
        if not isinstance(columns, dict) or not all(isinstance(part, dict) for part in columns.values()):
            raise BadInput(f"{name} needs a section [columns.NAME] for every column.")
        for column, part in columns.items():
            _known(part, [item.name for item in fields(Column) if item.name != "name"], f"{name}, column {column!r}")
        roles = {role: found[role] for role in ("label", "unit", "groups") if role in found}
        for role, value in roles.items():
            if not (_text(value) or (role == "groups" and isinstance(value, list) and all(map(_text, value)))):
                raise BadInput(f"{name}: {role} must be the name of a column.")
        return cls(tuple(Column(column, **part) for column, part in columns.items()), **roles)

    def save(self, path: str | Path) -> Path:
        """Write the schema as TOML, whole or not at all."""
        return written(path, self.to_toml())

    def to_toml(self) -> str:
        """The schema as TOML."""
        roles = {"label": self.label, "unit": self.unit, "groups": list(self.groups) or None}
        lines = [f"{role} = {_quoted(value)}" for role, value in roles.items() if value is not None]
        for column in self.columns:
            lines += ["", f"[columns.{_quoted(column.name)}]", f"kind = {_quoted(column.kind)}"]
            lines += [] if column.range is None else [f"range = {_quoted(list(column.range))}"]
            lines += [] if column.words is None else [f"words = {_quoted(list(column.words))}"]
            lines += [] if column.decimal == "." else ['decimal = ","   # and dots separate thousands']
            lines += [] if column.public else ["public = false   # read off the data: no proof covers it"]
        return "\n".join(lines).lstrip("\n") + "\n"


def _range(where: str, kind: str, ends: Any) -> tuple[Limit, Limit]:
    if kind not in ("number", "date"):
        raise BadInput(f"{where}: a {kind} has no range.")
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise BadInput(f"{where}: range must be two values, the lower one first.")
    ends = tuple(end.isoformat() if isinstance(end, date) else end for end in ends)
    if kind == "date":
        fits = all(isinstance(end, str) and not math.isnan(days(end)) for end in ends)
        values = [days(end) for end in ends] if fits else []
    else:
        fits = all(type(end) in (int, float) and math.isfinite(end) for end in ends)
        values = list(ends)
    if not fits or not values[0] < values[1]:
        what = "two dates (1990-12-31)" if kind == "date" else "two numbers"
        raise BadInput(f"{where}: range must be {what}, the lower one first.")
    return _plain(ends[0]), _plain(ends[1])


def _plain(end: Limit) -> Limit:
    """A whole number without `.0`."""
    return int(end) if isinstance(end, float) and end.is_integer() and abs(end) < 2**53 else end


def _words(where: str, kind: str, words: object) -> tuple[str, ...]:
    if kind != "category":
        raise BadInput(f"{where}: words are those of a category.")
    if isinstance(words, str) or not isinstance(words, Sequence):
        raise BadInput(f"{where}: words must be a list of texts.")
    found = tuple(canonical(str(word)) for word in words)
    if "" in found or len(set(found)) < len(found):
        raise BadInput(f"{where}: words must be different from each other, and not empty.")
    return found


def _text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _known(found: Mapping[str, object], names: Sequence[str], where: str) -> None:
    for key in found:
        if key not in names:
            key = shown(key)
            near = difflib.get_close_matches(key, names, n=1, cutoff=0.0)[0]
            raise BadInput(f"{where}: {key!r} is not known.", fix=f"Did you mean {near!r}? Known: {', '.join(names)}.")


def _quoted(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_quoted, value)) + "]"
    if isinstance(value, str):
        plain = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in plain) + '"'
    return repr(value)
