"""What verbs read: events, data, folders. Everything is checked before anything is done."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import BadInput, MissingExtra
from ..core.events import Event
from ..data import Records, labels, load
from .entry import Guarded, resolve_callable

if TYPE_CHECKING:
    from ..study.run_file import RunFile


def read_event(path: str) -> Event:
    """An event from a JSON file, or from standard input when the path is `-`."""
    if path == "-":
        return Event.from_json(sys.stdin.read())
    try:
        return Event.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{path} cannot be read.", fix="Give the path of an event in JSON, or - for input.") from None


def read_records(file: RunFile) -> Records:
    """The data of a run file."""
    table = file.get("data")
    return read_data(str(file.need("data", "source")), **{key: table[key] for key in table if key != "source"})


def read_data(source: str, **columns: Any) -> Records:
    """A named data set, a file, or `package:function` returning (x, y)."""
    if ":" not in source:
        return load(source, **columns)
    if given := [key for key, value in columns.items() if value]:
        raise BadInput(f"{source} gives x and y alone: {', '.join(given)} must go.", fix="They are columns of a file.")
    found = Guarded(source)()
    try:
        x, y = found
        words: dict[str, tuple[str, ...]] = {}
        y = labels(np.asarray(y), "y", words)
        return Records(np.asarray(x, dtype=np.float32), y, words=words, derived=tuple(words), name=source)
    except (TypeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{source} must return a pair (x, y) of arrays.") from None


def place(path: str) -> Path:
    """A folder that is there or can be made, and written to; nothing is made yet."""
    folder = Path(path)
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise BadInput(f"The folder {path} cannot be made or written to.")
    return folder


def out_folder(path: str) -> Path:
    """A folder that can be written to, made if it is not there."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise BadInput(f"The folder {path} cannot be made.") from None
    if not os.access(folder, os.W_OK):
        raise BadInput(f"The folder {path} cannot be written to.")
    return folder


def canary(name: str) -> Any:
    """A canary by its name, or `package:function` that makes one."""
    return resolve_callable(name) if ":" in name else name


def require(module: str, extra: str) -> None:
    """Refuse before any work when an optional package is absent."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(extra)


def seeded(seed: int | None) -> Any:
    """`--seed` for an experiment; absent, the cryptographic source."""
    if seed is not None and seed < 0:
        raise BadInput(f"seed must be a whole number of at least 0, got {seed}.")
    return seed
