"""Tables from files: .npz with x and y, or a CSV or Parquet with a label column. Pickles are refused.

A column of words becomes numbers by a list of words. A list that is not given is read off the data, which no proof
about a training covers (`derived`). A given one is public, and a value outside it never raises: a feature is then all
zeros, and a record with another label is left out.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core import check, parquet
from ..core.errors import BadInput

Words = dict[str, tuple[str, ...]]
"""The words of each column that holds words, in the order they are numbered in."""


ROLES = {"label": "y", "members": "members", "groups": "groups", "unit": "unit", "canaries": "canaries"}
"""What names a column, and which array it becomes."""
FLAGS = ("members", "canaries")


def read_table(path: Path, categories: Mapping[str, Sequence[str]] | None = None, **named: str | None) -> Any:
    """The arrays of a file: x, y and, where there are, those of other roles; and the words that became numbers.

    `named` gives the columns' names by their roles (`ROLES`), `categories` the public words of some columns.
    """
    if not path.is_file():
        raise BadInput(f"{path.name} is not there.", fix="Give the path of an .npz or .csv file.")
    if path.suffix != ".npz":
        return _csv(path, named, {name: tuple(words) for name, words in (categories or {}).items()})
    if categories:
        raise BadInput("categories are the words of a CSV file's columns.", fix="An .npz file holds numbers.")
    return _npz(path, named)


def _npz(path: Path, named: Mapping[str, str | None]) -> dict[str, Any]:
    wanted = {key: named.get(role) or key for role, key in ROLES.items()} | {"x": "x"}
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if isinstance(arrays, np.lib.npyio.NpzFile):
                found = {key: arrays[name] for key, name in wanted.items() if name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        raise BadInput(f"{path.name} is not an .npz file without pickles.") from None
    asked = {"x", "y"} | {ROLES[role] for role, name in named.items() if name}
    if missing := sorted(wanted[key] for key in asked - found.keys()):
        raise BadInput(f"{path.name} must hold the arrays x and y; it has no {' and no '.join(missing)}.")
    words: Words = {}
    found["x"] = _numbers(found["x"], path.name)
    found["y"] = labels(found["y"], "y", words)
    for key in found.keys() & set(FLAGS):
        found[key] = check.flags(key, found[key].ravel()).reshape(found[key].shape)
    return {**found, "words": words, "derived": tuple(words)}


def _csv(path: Path, named: Mapping[str, str | None], lists: Words) -> dict[str, Any]:
    header, rows = _rows(path)
    columns = f"Columns: {', '.join(header)}."
    if named.get("label") is None:
        raise BadInput(f"{path.name} needs the name of its label column.", fix=columns)
    taken = {ROLES[role]: name for role, name in named.items() if name is not None}
    for column in (*taken.values(), *lists):
        if column not in header:
            raise BadInput(f"{path.name} has no column {column!r}.", fix=columns)
    if len(set(taken.values())) < len(taken):
        raise BadInput("Labels, members, groups, unit and canaries must be different columns.")
    values = {name: np.array([row[k] for row in rows]) for k, name in enumerate(header)}
    found: dict[str, Any] = {key: values.pop(column) for key, column in taken.items()}
    words: Words = {}
    found["x"] = _features(values, words, lists)
    found["y"], kept = _classes(found["y"], taken["y"], words, lists)
    for key in found.keys() & set(FLAGS):
        found[key] = check.flags(f"column {taken[key]}", found[key])
    found = {key: column[kept] for key, column in found.items()}
    return {**found, "words": words, "derived": tuple(name for name in words if name not in lists)}


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    header, rows = parquet.rows(path) if path.suffix == ".parquet" else _csv_rows(path)
    if not rows:
        raise BadInput(f"{path.name} holds no rows.")
    if len(set(header)) < len(header):
        raise BadInput(f"{path.name} has two columns of one name.")
    if any(len(row) != len(header) for row in rows):
        raise BadInput(f"{path.name} has rows of different lengths.")
    return header, rows


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, EOFError, csv.Error, zlib.error):
        raise BadInput(f"{path.name} cannot be read as a CSV file with a header.") from None
    return header, rows


def _features(columns: dict[str, Any], words: Words, lists: Words) -> Any:
    """Numbers as they are; a column of words becomes one indicator per word.

    Without a list, a column that is mostly no numbers holds words; otherwise it has missing values.
    """
    parts = []
    for name, values in columns.items():
        parsed = np.array([_parsed(value) for value in values.tolist()], dtype=np.float32)
        if name in lists or np.isnan(parsed).mean() > 0.5:
            words[name] = lists.get(name) or tuple(np.unique(values).tolist())
            parts.append((values[:, None] == np.array(words[name])[None]).astype(np.float32))
        else:
            parts.append(parsed[:, None])
    if not parts:
        raise BadInput("The data needs at least one column besides labels, members, groups and unit.")
    return np.concatenate(parts, axis=1)


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


def labels(values: Any, name: str, words: Words) -> Any:
    """Whole numbers from 0 stay, also as text; words, and whole numbers below 0, are numbered in sorted order."""
    if values.dtype.kind in "US":
        if (values == "").any():
            raise BadInput(f"Column {name} must hold a label in every row.")
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
