"""Tables from files: .npz with x and y, or a CSV with a label column. Pickles are refused."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import BadInput


def read_table(path: Path, *, label: str | None = None, members: str | None = None, groups: str | None = None) -> Any:
    """The arrays of a file: x, y and, where there are, members and groups."""
    if not path.is_file():
        raise BadInput(f"{path.name} is not there.", fix="Give the path of an .npz or .csv file.")
    return _npz(path) if path.suffix == ".npz" else _csv(path, label=label, members=members, groups=groups)


def _npz(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in ("x", "y", "members", "groups") if name in arrays.files}
    except (ValueError, OSError, EOFError):
        raise BadInput(f"{path.name} is not an .npz file without pickles.") from None
    if not {"x", "y"} <= found.keys():
        raise BadInput(f"{path.name} must hold the arrays x and y.")
    found["x"] = _numbers(found["x"], path.name)
    found["y"] = _labels(found["y"])
    if "members" in found:
        found["members"] = found["members"].astype(bool)
    return found


def _csv(path: Path, *, label: str | None, members: str | None, groups: str | None) -> dict[str, Any]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="", encoding="utf-8-sig") as file:
            header, *rows = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, ValueError):
        raise BadInput(f"{path.name} cannot be read as a CSV file with a header.") from None
    if label is None:
        raise BadInput(f"{path.name} needs the name of its label column.", fix=f"Columns: {', '.join(header)}.")
    named = {"y": label, "members": members, "groups": groups}
    for column in filter(None, named.values()):
        if column not in header:
            raise BadInput(f"{path.name} has no column {column!r}.", fix=f"Columns: {', '.join(header)}.")
    if any(len(row) != len(header) for row in rows):
        raise BadInput(f"{path.name} has rows of different lengths.")
    columns = {name: np.array([row[k] for row in rows]) for k, name in enumerate(header)}
    taken = {key: columns.pop(column) for key, column in named.items() if column is not None}
    found: dict[str, Any] = {"x": _features(columns), "y": _labels(taken["y"])}
    if "members" in taken:
        found["members"] = np.isin(np.char.lower(taken["members"]), ("1", "true", "1.0"))
    if "groups" in taken:
        found["groups"] = taken["groups"]
    return found


def _features(columns: dict[str, Any]) -> Any:
    """Numbers as they are; a column of words becomes one indicator per word."""
    parts = []
    for values in columns.values():
        try:
            parts.append(values.astype(np.float32)[:, None])
        except ValueError:
            parts.append((values[:, None] == np.unique(values)[None]).astype(np.float32))
    return np.concatenate(parts, axis=1) if parts else np.zeros((0, 0), dtype=np.float32)


def _labels(values: Any) -> Any:
    """Whole numbers from 0 stay; anything else is numbered in sorted order."""
    if np.issubdtype(values.dtype, np.integer) and values.size and values.min() >= 0:
        return values.astype(np.int64)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _numbers(values: Any, name: str) -> Any:
    try:
        return values.astype(np.float32)
    except (TypeError, ValueError):
        raise BadInput(f"{name}: x must hold numbers.") from None
