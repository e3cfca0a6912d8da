"""Tables from files: .npz with x and y, or a CSV or Parquet with a label column. Pickles are refused.

With a schema, a table is encoded by it (`encoding`). Without one, numbers stay as they are, and
a column of words becomes numbers by a list of words. A list that is not given is read off the data, which no proof
about a training covers (`derived`). A given one is public, and a value outside it never raises: a feature is then all
zeros, and a record with another label is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import check, parquet
from ..core.errors import BadInput
from ..core.files import shown
from .csv_file import read_csv
from .decimal_marks import DECIMAL_COMMA, Spelling
from .frames import Table, check_header, from_arrow
from .frames import named as names_of
from .npz_file import read_npz
from .schema import Schema
from .values import Values

Words = dict[str, tuple[str, ...]]
"""The words of each column that holds words, in the order they are numbered in."""


ROLES = {"label": "y", "members": "members", "groups": "groups", "unit": "unit", "canaries": "canaries"}
"""What names a column, and which array it becomes."""
FROM = ", seen from the folder in which the command runs"
FLAGS = ("members", "canaries")
OTHERS = frozenset(
    {".arrow", ".db", ".dta", ".feather", ".h5", ".hdf5", ".json", ".jsonl", ".npz", ".pdf", ".pickle", ".pkl"}
    | {".rds", ".sas7bdat", ".sav", ".sqlite", ".toml", ".zip"}
)
"""How files end that hold something else than CSV."""
WORDS, ROLE_WORDS, LONGEST = 1000, 10_000_000, 1000
"""Public limits: distinct words of a column that becomes indicators, those of labels, groups and units, and the
characters of a word."""
INDICATORS = 2**34
"""Bytes that one column's indicators may take."""


def read_table(
    path: Path,
    categories: Mapping[str, Sequence[str]] | None = None,
    schema: str | None = None,
    **named: str | None,
) -> dict[str, Any]:
    """The arrays of a file: x, y and, where there are, those of other roles; and the words that became numbers.

    `named` gives the columns' names by their roles (`ROLES`), `categories` the public words of some columns, `schema`
    the file of a schema, which then says everything but members and canaries.
    """
    if not path.is_file():
        raise BadInput(f"{shown(path)} is not there.", fix=f"Give the path of an .npz, .csv or .parquet file{FROM}.")
    if path.suffix != ".npz" and schema is not None:
        if given := [role for role in ("label", "groups", "unit") if named.get(role)] + ["categories"] * bool(
            categories
        ):
            raise BadInput(f"The schema says {' and '.join(given)}: leave it out of [data].")
        return by_schema(Schema.read(schema), columns_of(path), **named)
    if path.suffix != ".npz":
        return _table(columns_of(path), named, {name: tuple(words) for name, words in (categories or {}).items()})
    if categories or schema:
        raise BadInput("A schema and categories describe the columns of a table.", fix="An .npz file holds numbers.")
    return _npz(path, named)


def columns_of(path: Path) -> Table:
    """The named columns of a CSV or Parquet file."""
    if path.is_dir():
        raise BadInput(f"{shown(str(path))} is a folder.", fix=f"Give the path of a .csv or .parquet file{FROM}.")
    if not path.is_file():
        raise BadInput(f"{shown(path)} is not there.", fix=f"Give the path of a .csv or .parquet file{FROM}.")
    if path.suffix.lower() in OTHERS:
        raise BadInput(f"{path.name} is neither a CSV nor a Parquet file.", fix="Save the table as one of these first.")
    if path.suffix != ".parquet":
        return read_csv(path)
    columns = parquet.table(path)
    check_header(list(columns.column_names), path.name)
    if not columns.num_rows:
        raise BadInput(f"{path.name} holds no rows.")
    try:
        found = {name: from_arrow(columns[name]) for name in columns.column_names}
    except (ValueError, TypeError, OverflowError, NotImplementedError):  # what Arrow raises for bytes that are no text
        raise BadInput(f"{shown(path)} holds a column that is neither numbers nor text in UTF-8.") from None
    return Table(found, columns.num_rows, path.name)


def by_schema(schema: Schema, table: Table, **named: str | None) -> dict[str, Any]:
    """The arrays of a table by its schema. Records without a known label, or without a unit where there is one, are
    left out: what one record holds decides about that record only."""
    x, y = schema.encode(table)
    kept = y >= 0
    found: dict[str, Any] = {"x": x, "y": y, "schema": schema}
    if schema.unit is not None:
        found["unit"] = table[schema.unit].as_ids()[0]
        kept &= found["unit"] >= 0
    if schema.groups:
        found["groups"] = grouped(table, schema.groups)
    for role in FLAGS:
        if (column := named.get(role)) is not None:
            found[role] = _flags(table, column)
    if not kept.any():
        raise BadInput(f"{table.name}: no record has a label that the schema knows.", fix="Look at its words.")
    found |= {key: column[kept] for key, column in found.items() if key != "schema"}
    words = {column.name: column.words for column in schema.columns if column.words is not None}
    return {**found, "words": words, "derived": schema.derived, "rows": np.flatnonzero(kept)}


def grouped(table: Table, groups: Sequence[str]) -> Any:
    """The group of every record, by its words in some columns."""
    parts = []
    for column in groups:
        codes, texts = table[column].as_words()
        parts.append(np.array([*texts, "missing"])[codes])
    joined = parts[0]
    for part in parts[1:]:
        joined = np.char.add(np.char.add(joined, ", "), part)
    return joined


def _flags(table: Table, column: str) -> object:
    codes, texts = table[column].as_words()
    return check.flags(f"column {column}", np.array([*texts, ""])[codes])


def _npz(path: Path, named: Mapping[str, str | None]) -> dict[str, Any]:
    wanted = {key: named.get(role) or key for role, key in ROLES.items()} | {"x": "x"}
    arrays = read_npz(path, set(wanted.values()))
    found = {key: arrays[name] for key, name in wanted.items() if name in arrays}
    asked = {"x", "y"} | {ROLES[role] for role, name in named.items() if name}
    if missing := sorted(wanted[key] for key in asked - found.keys()):
        raise BadInput(f"{path.name} must hold the arrays x and y; it has no {' and no '.join(missing)}.")
    words: Words = {}
    found["x"] = _numbers(found["x"], path.name)
    found["y"] = labels(found["y"], "y", words)
    for key in found.keys() & set(FLAGS):
        found[key] = check.flags(key, found[key].ravel()).reshape(found[key].shape)
    return {**found, "words": words, "derived": tuple(words)}


def _table(table: Table, named: Mapping[str, str | None], lists: Words) -> dict[str, Any]:
    """Columns as they are, without a schema: numbers stay, words become indicators."""
    columns = f"Columns: {names_of(table.columns)}."
    if named.get("label") is None:
        raise BadInput(f"{table.name} needs the name of its label column.", fix=columns)
    taken = {ROLES[role]: name for role, name in named.items() if name is not None}
    for column in (*taken.values(), *lists):
        table[column]  # one that is not there is refused
    if len(set(taken.values())) < len(taken):
        raise BadInput("Labels, members, groups, unit and canaries must be different columns.")
    found: dict[str, Any] = {key: _texts(table[column], column) for key, column in taken.items()}
    words: Words = {}
    left = {name: table[name] for name in table.columns if name not in taken.values() or name == taken.get("groups")}
    found["x"] = _features(left, words, lists)
    found["y"], kept = _classes(found["y"], taken["y"], words, lists)
    for key in found.keys() & set(FLAGS):
        found[key] = check.flags(f"column {taken[key]}", found[key])
    found = {key: column[kept] for key, column in found.items()}
    derived = tuple(name for name in words if name not in lists)
    return {**found, "words": words, "derived": derived, "rows": np.flatnonzero(kept)}


def _texts(values: Values, name: str) -> Any:
    """The texts of a column, as they are in the file; a missing value is empty."""
    check_words(name, values.texts, ROLE_WORDS)
    return np.array([*values.texts, ""])[values.codes]


def _features(columns: dict[str, Values], words: Words, lists: Words) -> Any:
    """Numbers as they are; a column of words becomes one indicator per word.

    Without a list, a column that is mostly no numbers holds words; otherwise it has missing values.
    """
    parts = []
    for name, values in columns.items():
        if name not in lists and _thousands(values):
            raise BadInput(
                f"Column {shown(name)!r} holds numbers such as 12.500, which is 12500 or 12.5.",
                fix="tacit init writes a schema that says which.",
            )
        numbers = values.as_numbers().astype(np.float32)
        if name in lists or np.isnan(numbers).mean() > 0.5:
            if name not in lists:
                check_words(name, values.texts, WORDS)
            words[name] = lists.get(name) or _all_words(values)
            _check_width(name, len(values), len(words[name]))
            parts.append(_indicators(values, words[name]))
        else:
            _check_finite(name, numbers)
            parts.append(numbers[:, None])
    if not parts:
        raise BadInput("The data needs at least one column besides labels, members, groups and unit.")
    return np.concatenate(parts, axis=1)


def _thousands(values: Values) -> bool:
    """Whether dots separate thousands, or may do so: without a schema nothing says so."""
    spelling = Spelling.of(values)
    return spelling.unclear() or (spelling.grouped_dots and spelling.mark(elsewhere=False) == DECIMAL_COMMA)


def check_words(name: str, texts: Sequence[str], most: int) -> None:
    """Refuse a column of too many or too long words before memory is asked for them; `most` is a public limit."""
    if len(texts) > most:
        raise BadInput(
            f"Column {shown(name)!r} holds more than {most:,} different words.",
            fix="Leave it out, give its public words as categories, or describe it in a schema (tacit init).",
        )
    if any(len(text) > LONGEST for text in texts):
        raise BadInput(f"Column {shown(name)!r} holds a text of more than {LONGEST:,} characters.", fix="Leave it out.")


def _all_words(values: Values) -> tuple[str, ...]:
    """The distinct texts that rows have, sorted; a missing value is the empty text."""
    texts = (*values.texts, "")
    codes = np.zeros(0, dtype=np.int64) if values.codes is None else np.unique(values.codes)
    return tuple(sorted({texts[code] for code in codes.tolist()}))


def _check_width(name: str, rows: int, words: int) -> None:
    if rows * words * 4 > INDICATORS:
        raise BadInput(
            f"Column {shown(name)!r} would become {words:,} numbers in each of {rows:,} records.",
            fix="Give fewer words.",
        )


def _indicators(values: Values, words: tuple[str, ...]) -> Any:
    place = {word: k for k, word in enumerate(words)}
    table = np.array([place.get(text, len(words)) for text in (*values.texts, "")], dtype=np.int64)
    found = np.zeros((len(values), len(words) + 1), dtype=np.float32)
    found[np.arange(len(values)), table[values.codes]] = 1.0
    return found[:, :-1]


def _check_finite(name: str, numbers: Any) -> None:
    if len(bad := np.flatnonzero(~np.isfinite(numbers))):
        raise BadInput(
            f"Column {name!r} holds no finite number in {len(bad)} of {len(numbers)} records, "
            f"the first of them record {bad[0] + 1}.",
            fix="A schema has a place for missing values (see tacit init); or fill or drop them first.",
        )


def _classes(values: Any, name: str, words: Words, lists: Words) -> tuple[Any, Any]:
    """Labels as numbers, and which rows have one: all, or those whose label is in the public list."""
    if name not in lists:
        return labels(values, name, words), np.ones(len(values), dtype=bool)
    words[name] = lists[name]
    number = {word: k for k, word in enumerate(lists[name])}
    found = np.array([number.get(value, -1) for value in values.tolist()], dtype=np.int64)
    return found, found >= 0


def _parsed(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def labels(values: NDArray[Any], name: str, words: Words) -> NDArray[np.int64]:
    """Whole numbers from 0 stay, also as text; words, and whole numbers below 0, are numbered in sorted order."""
    if values.dtype.kind in "US":
        if len(empty := np.flatnonzero(values == "")):
            raise BadInput(f"Column {name} must hold a label in every row: record {empty[0] + 1} has none.")
        numbers = np.array([_parsed(value) for value in values.ravel().tolist()]).reshape(values.shape)
        values = values if np.isnan(numbers).any() else numbers
    if values.dtype.kind in "biuf":
        if not (np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2**53)).all():
            raise BadInput("Labels must be whole numbers or words.", fix="Numbers with fractions are not classes.")
        if not values.size or values.min() >= 0:
            return values.astype(np.int64)
    names, index = np.unique(values, return_inverse=True)
    words[name] = tuple(str(item) for item in names.tolist())
    return index.reshape(values.shape).astype(np.int64)


def _numbers(values: Any, name: str) -> Any:
    if values.dtype.kind not in "biuf":
        raise BadInput(f"{name}: x must hold numbers.")
    return values.astype(np.float32)
