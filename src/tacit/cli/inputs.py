"""What verbs read: events, data, folders. Everything is checked before anything is done."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import BadInput, MissingExtra
from ..core.events import Event
from ..core.files import Lasting, text, unwritten
from ..data import Records, labels, load
from .entry import Guarded, code_of, resolve, resolve_callable

PROGRESS = "progress"
"""The folder of finished parts in DIR.unfinished."""
EVENT_MOST = 2**26
"""Characters that an event in JSON may have: matrices of some thousand rows are below."""

if TYPE_CHECKING:
    from ..study.run_file import RunFile


def read_event(path: str) -> Event:
    """An event from a JSON file, or from standard input when the path is `-`."""
    if path.lstrip().startswith("{"):
        raise BadInput("--event takes a file, and this is JSON.", fix="Write it to a file, or give - and send it in.")
    if path == "-":
        found = sys.stdin.read(EVENT_MOST + 1)
        if len(found) > EVENT_MOST:
            raise BadInput(f"The event on standard input has more than {EVENT_MOST:,} characters.")
        return Event.from_json(found)
    return Event.from_json(text(path, EVENT_MOST, fix="Give the path of an event in JSON, or - for input."))


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


def settings_of(file: RunFile, *sections: str) -> dict[str, Any]:
    """Settings that an unfinished run stores and must be resumed with: values and a hash of the user's code."""
    found = file.settings(*sections)
    for key in ("fit", "predict", "make"):
        if ":" in (entry := str(file.get("model").get(key, ""))):
            resolve(entry)
            found |= code_of(entry)
    return found


def made(state: Path | None) -> Lasting | None:
    """The folder of finished parts, made; it is kept until the results are on disk."""
    if state is None:
        return None
    with unwritten(state):
        state.mkdir(mode=0o700, exist_ok=True)
    return Lasting(state)


def one_process() -> None:
    """The command trains in one process; several that torchrun started would each train a model of its own."""
    count = os.environ.get("WORLD_SIZE", "")
    if count.isdecimal() and int(count) > 1:
        raise BadInput(
            "tacit train runs in one process, and torchrun has started several.",
            fix="Write a script that calls tacit.fit, and start that with torchrun.",
        )


def canary(name: str) -> Any:
    """A canary by its name, or `package:function` that makes one."""
    return resolve_callable(name) if ":" in name else name


def require(module: str, extra: str) -> None:
    """Refuse before any work when an optional package is absent."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(extra)


def check_out(path: Path, source: Path, endings: Sequence[str]) -> None:
    """Refuse, before any work, a file that is not written: the table that is read, another kind, no such folder."""
    if path.resolve() == source.resolve():
        raise BadInput(f"{path.name} is the table itself; it is not overwritten.", fix="Name another file with --out.")
    if path.suffix.lower() not in endings:
        raise BadInput(
            f"{path.name} is no kind of file that is written here.", fix=f"Use one of: {', '.join(endings)}."
        )
    if not path.parent.is_dir():
        raise BadInput(f"{path.name} cannot be written.", fix="Give a path in a folder that is there.")


def asking(folder: str, kind: str | None, file: RunFile) -> str:
    """How the model in a folder is asked about new records; of no kind that is known by name, it is the owner's own."""
    own = file.get("model").get("make") if kind is None else None
    more = "" if own is None else f" --make {shlex.quote(str(own))}"
    return f"Next: tacit predict {shlex.quote(folder)} TABLE{more} answers for new records."


def seeded(seed: int | None) -> Any:
    """`--seed` for an experiment; absent, the cryptographic source."""
    if seed is not None and seed < 0:
        raise BadInput(f"seed must be a whole number of at least 0, got {seed}.")
    return seed
