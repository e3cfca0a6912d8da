"""Tables from files: .npz with x and y, or a CSV with a label column. Pickles are refused."""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..core import check
from ..core.errors import BadInput

Words = dict[str, tuple[str, ...]]
"""The words of each column that holds words, in the order they are numbered in."""


def read_table(path: Path, *, label: str | None = None, members: str | None = None, groups: str | None = None) -> Any:
    """The arrays of a file: x, y and, where there are, members and groups; and the words that became numbers."""
    if not path.is_file():
        raise BadInput(f"{path.name} is not there.", fix="Give the path of an .npz or .csv file.")
    return _npz(path) if path.suffix == ".npz" else _csv(path, label=label, members=members, groups=groups)


def _npz(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if isinstance(arrays, np.lib.npyio.NpzFile):
                found = {name: arrays[name] for name in ("x", "y", "members", "groups") if name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        raise BadInput(f"{path.name} is not an .npz file without pickles.") from None
    if not {"x", "y"} <= found.keys():
        raise BadInput(f"{path.name} must hold the arrays x and y.")
    words: Words = {}
    found["x"] = _numbers(found["x"], path.name)
    found["y"] = labels(found["y"], "y", words)
    if "members" in found:
        found["members"] = check.flags("members", found["members"].ravel()).reshape(found["members"].shape)
    return {**found, "words": words}


def _csv(path: Path, *, label: str | None, members: str | None, groups: str | None) -> dict[str, Any]:
    header, rows = _rows(path)
    if label is None:
        raise BadInput(f"{path.name} needs the name of its label column.", fix=f"Columns: {', '.join(header)}.")
    named = {key: name for key, name in (("y", label), ("members", members), ("groups", groups)) if name is not None}
    for column in named.values():
        if column not in header:
            raise BadInput(f"{path.name} has no column {column!r}.", fix=f"Columns: {', '.join(header)}.")
    if len(set(named.values())) < len(named):
        raise BadInput("Labels, members and groups must be different columns.")
    columns = {name: np.array([row[k] for row in rows]) for k, name in enumerate(header)}
    taken = {key: columns.pop(column) for key, column in named.items()}
    words: Words = {}
    found: dict[str, Any] = {"x": _features(columns, words), "y": labels(taken["y"], label, words)}
    if "members" in taken:
        found["members"] = check.flags(f"column {members}", taken["members"])
    if "groups" in taken:
        found["groups"] = taken["groups"]
    return {**found, "words": words}


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, EOFError, csv.Error, zlib.error):
        raise BadInput(f"{path.name} cannot be read as a CSV file with a header.") from None
    if not rows:
        raise BadInput(f"{path.name} holds no rows.")
    if len(set(header)) < len(header):
        raise BadInput(f"{path.name} has two columns of one name.")
    if any(len(row) != len(header) for row in rows):
        raise BadInput(f"{path.name} has rows of different lengths.")
    return header, rows


def _features(columns: dict[str, Any], words: Words) -> Any:
    """Numbers as they are; a column of words becomes one indicator per word.

    A column that is mostly numbers has missing values, not words.
    """
    parts = []
    for name, values in columns.items():
        parsed = np.array([_parsed(value) for value in values.tolist()], dtype=np.float32)
        if np.isnan(parsed).mean() > 0.5:
            names = np.unique(values)
            words[name] = tuple(names.tolist())
            parts.append((values[:, None] == names[None]).astype(np.float32))
        else:
            parts.append(parsed[:, None])
    if not parts:
        raise BadInput("The data needs at least one column besides labels, members and groups.")
    return np.concatenate(parts, axis=1)


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
