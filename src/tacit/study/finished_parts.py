"""Finished parts of an attack or a bracket, so that an interrupted one goes on: reference models, runs of its audit.

The work is done again from its beginning with the same randomness. A part that was finished is read instead of made,
and the randomness it used is skipped. So the result is the uninterrupted one, as far as a training depends on the
generator it is given alone. The folder is for the operator (mode 0700): it holds what models say of records, and the
words that the randomness comes from.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import Source, source
from ..core.arrays import Array
from ..core.errors import FileWarning
from ..core.files import Lasting, content, shown, unwritten, written
from ..core.journal_head import BYTES, Data, Randomness, check_same, drawn, head, seed, seeded_key
from ..core.lines import Record, read_lines, stamped, unstamped, unusable
from ..core.randomness import Replayed
from ..data.npz_file import BAD

SCHEMA = "tacit.study-journal/1"
HEAD = "head.jsonl"
DRAWN = ("words", "children")
MOST = 2**36
"""Bytes of what one part says."""


@dataclass(eq=False)
class Finished:
    """Parts by name. `chance` is the work's randomness; without a `folder` nothing is kept. `note` is told what is made
    now."""

    chance: Source
    folder: Path | None = None
    first: Record | None = None
    lasting: bool = True
    note: Callable[[str], None] = lambda text: None

    @classmethod
    def of(cls, given: Checkpoint, about: Record, data: Data, rng: Randomness) -> Finished:
        """Nothing where nothing is given; else a new folder, or the one that the same work left."""
        if isinstance(given, Finished):
            return given
        if given is None:
            return cls(source(rng))
        folder = given.path if isinstance(given, Lasting) else Path(given)
        words, path = seed(rng), folder / HEAD
        lines = read_lines(path)
        if lines is None:
            key = os.urandom(BYTES).hex() if words is None else seeded_key(SCHEMA, words)
            first = head(SCHEMA, about, data, drawn(rng), key)
        elif lines.head is None:
            raise unusable(path, lines)
        else:
            first = lines.head
            check_same(path, SCHEMA, first, about, data, words)
        return cls(Replayed(first["random"], seeded=words is not None), folder, first, isinstance(given, Lasting))

    def part(self, name: str, make: Callable[[], Array], told: str = "") -> Array:
        """What `make` gives, made once: a part that is on disk is read. `told` says in words what is made."""
        if self.folder is None or not isinstance(self.chance, Replayed):
            self._tell(told)
            return make()
        path = self.folder / f"{name}.npy"
        if path.exists() and (kept := self._read(path)) is not None:
            value, words, children = kept
            self.chance.skip(words, children)
            return value
        self._tell(told)
        before, born = self.chance.drawn, self.chance.children
        value = np.asarray(make())
        self._write(path, value, self.chance.drawn - before, self.chance.children - born)
        return value

    def journal(self, name: str) -> Lasting | None:
        """Where an audit keeps its own runs."""
        if self.folder is None:
            return None
        self._begin()
        return Lasting(self.folder / f"{name}.jsonl")

    def end(self) -> None:
        """The results are there: remove everything, unless whoever gave the folder does so."""
        if self.folder is not None and not self.lasting:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self, told: str) -> None:
        if told:
            self.note(told)

    def _begin(self) -> None:
        """The first line, on disk before the first part."""
        assert self.folder is not None
        assert self.first is not None
        if not (self.folder / HEAD).exists() or read_lines(self.folder / HEAD) is None:
            with unwritten(self.folder):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            written(self.folder / HEAD, stamped(self.first) + "\n", 0o600)

    def _write(self, path: Path, value: Array, words: int, children: int) -> None:
        if value.dtype.kind not in "biufU":
            return  # nothing that can be kept without pickles: it is made again
        self._begin()
        body = io.BytesIO()
        np.save(body, value, allow_pickle=False)
        line = stamped({"sha256": _sum(body.getvalue()), "words": words, "children": children}, self.first)
        partial = path.with_name(path.name + ".partial")
        with unwritten(path, partial):
            partial.unlink(missing_ok=True)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(line.encode() + b"\n")
                file.write(body.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)

    def _read(self, path: Path) -> tuple[Array, int, int] | None:
        """The result of a part and how much randomness it drew; None if it is damaged or not of this run."""
        line, _, body = bytes(content(path, MOST)).partition(b"\n")
        told = unstamped(line, self.first)
        if told is not None and told.get("sha256") == _sum(body) and all(_count(told.get(name)) for name in DRAWN):
            with contextlib.suppress(*BAD):
                return np.load(io.BytesIO(body), allow_pickle=False), told["words"], told["children"]
        warnings.warn(f"{shown(path)} is damaged: it is made again.", FileWarning, stacklevel=3)
        return None


Checkpoint = str | Path | Lasting | Finished | None
"""A folder for finished parts, one that stays when the work has ended, or the parts of the work around this one."""


def _count(value: object) -> bool:
    """Whether it can be how much randomness a part drew."""
    return type(value) is int and 0 <= value < 2**31


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
