"""An audit's journal: its randomness and every run that has ended, so that an interrupted one can go on."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import BadInput, Source, TacitError, source
from ...core.errors import FileWarning
from ...core.files import Lasting, shown, written
from ...core.lines import Record, append, read_lines, stamped, unusable
from ...core.randomness import Seeded
from .workers import Result

SCHEMA = "tacit.audit-journal/2"
BYTES = 32
SYNC = 1.0
"""Seconds between two times that the operating system is made to put the notes on disk."""
Data = tuple[NDArray[Any], NDArray[Any]]
Randomness = Source | int | np.random.Generator | None


class Kept(Seeded):
    """A stream from a secret of the operating system that the journal keeps until the audit has ended."""

    name = "from a secret of the operating system, kept in the audit's checkpoint"


@dataclass
class Journal:
    """Results by the number of the run; `path` holds one line for each, after a first line about the audit.

    The file is for the operator (mode 0600), and is deleted when the audit has ended. A damaged line costs its run,
    which is made again; lines in the middle are reported, and counted in `damaged`. A damaged first line is refused
    and the file is left as it is, unless a seed is given, from which the line follows.
    """

    path: Path
    chance: Source
    head: Record
    results: dict[int, Result] = field(default_factory=dict)
    asked: int = 0
    lasting: bool = False
    damaged: int = 0
    whole: bool = True
    _stuck: bool = False
    _synced: float = 0.0

    @classmethod
    def open(cls, given: str | Path | Lasting, about: Record, data: Data, rng: Randomness) -> Journal:
        """A new journal, or the one that an audit with the same settings left; nothing is written before a run ends."""
        path = given.path if isinstance(given, Lasting) else Path(given)
        seed = _seed(rng)
        made = None if seed is None else _head(about, data, seed, _seeded_key(seed))
        lines = read_lines(path, made)
        if lines is None:
            head = made or _head(about, data, _drawn(rng), os.urandom(BYTES).hex())
            return cls(path, _chance(head, seed), head, lasting=isinstance(given, Lasting), whole=not path.exists())
        if lines.head is None:
            raise unusable(path, lines)
        _check_same(path, lines.head, about, data, seed)
        found, bad = _results(lines.rest)
        damaged = len(lines.damaged) + bad
        if damaged:
            where = f" (line {', '.join(map(str, lines.damaged[:5]))})" if lines.damaged else ""
            warnings.warn(
                f"{shown(path)} is damaged in {damaged} places{where}: these runs are made again.",
                FileWarning,
                stacklevel=3,
            )
        chance = _chance(lines.head, seed)
        whole = lines.whole and not bad
        return cls(path, chance, lines.head, found, 0, isinstance(given, Lasting), damaged, whole)

    def number(self, count: int) -> range:
        """Numbers of the next `count` runs: the order in which they are asked for is the audit's own."""
        first, self.asked = self.asked, self.asked + count
        return range(first, first + count)

    def keep(self, run: int, result: Result) -> None:
        """Note a run that has ended; before the first note, put a damaged file in order."""
        self.results[run] = result
        self._stuck = True  # until the note is on disk
        if not self.whole:
            known = [_line(number, found) for number, found in self.results.items() if number != run]
            body = [stamped(self.head), *(stamped(line, self.head) for line in known)]
            written(self.path, "".join(f"{line}\n" for line in body), 0o600)
            self.whole = True
        new = [] if self.path.exists() else [stamped(self.head)]
        if new:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        now = time.monotonic()
        append(self.path, [*new, stamped(_line(run, result), self.head)], sync=now - self._synced > SYNC)
        self._synced = now if now - self._synced > SYNC else self._synced
        self._stuck = False

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """An audit that ended, with an answer or with a sentence, leaves nothing to go on with.

        A note that could not be written is no end: the runs so far stay.
        """
        ended = not self.lasting if kind is None else issubclass(kind, TacitError) and not self._stuck
        if ended:
            self.path.unlink(missing_ok=True)


def identity(data: Data, key: str) -> str:
    """A keyed hash: tells data sets apart, and nothing else without the key."""
    code = hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256)
    for array in data:
        code.update(f"{array.shape} {array.dtype}".encode())
        code.update(np.ascontiguousarray(array).tobytes() if array.dtype != object else repr(array.tolist()).encode())
    return code.hexdigest()


def _head(about: Record, data: Data, random: list[int], key: str) -> Record:
    return {"schema": SCHEMA, "about": about, "data": identity(data, key), "random": random, "key": key}


def _check_same(path: Path, head: Record, about: Record, data: Data, seed: list[int] | None) -> None:
    """Refuse an audit with other settings, data or seed than the journal's, by name; the file stays."""
    kept = head.get("about")
    if head.get("schema") != SCHEMA or not isinstance(kept, dict) or not _fits(head):
        raise BadInput(f"{shown(path)} is not a journal that this version can go on with.")
    plain = json.loads(json.dumps(about))
    names = [name for name in {**kept, **plain} if kept.get(name) != plain.get(name)]
    names += [] if head.get("data") == identity(data, head["key"]) else ["data"]
    names += [] if seed is None or seed == head["random"] else ["seed"]
    if names:
        raise BadInput(
            f"{path} is of an audit with other settings, data or seed: {', '.join(names)} differ.",
            fix="Repeat the settings of the audit that did not end, or delete the file.",
        )


def _fits(head: Record) -> bool:
    words, key = head.get("random"), head.get("key")
    plain = isinstance(words, list) and all(type(word) is int and 0 <= word < 2**64 for word in words) and words
    return bool(plain) and isinstance(key, str) and len(key) == 2 * BYTES and set(key) <= set("0123456789abcdef")


def _line(run: int, result: Result) -> Record:
    score = result.score.tolist() if isinstance(result.score, np.ndarray) else float(result.score)
    return {"run": run, "score": _told(score), "problem": result.problem, "seconds": result.seconds}


def _results(lines: list[Record]) -> tuple[dict[int, Result], int]:
    """Results by run, and how many lines held none that can be used."""
    found, bad = {}, 0
    for line in lines:
        try:
            run, problem, seconds = line["run"], line["problem"], float(line["seconds"])
            if type(run) is not int or not isinstance(problem, str):
                raise TypeError
            found[run] = Result(_score(line["score"]), problem, seconds)
        except (KeyError, TypeError, ValueError):
            bad += 1
    return found, bad


def _chance(head: Record, seed: list[int] | None) -> Source:
    return Seeded(seed[0]) if seed else Kept(np.random.SeedSequence(head["random"]))


def _seeded_key(seed: list[int]) -> str:
    """The key of an experiment that has no secrets: its first line can be made again."""
    return hashlib.sha256(f"{SCHEMA} {seed}".encode()).hexdigest()


def _seed(rng: Randomness) -> list[int] | None:
    return [int(rng)] if isinstance(rng, int | np.integer) else None


def _drawn(rng: Randomness) -> list[int]:
    """A seed that was given, or words from the source."""
    chance = source(rng)
    return _seed(rng) or [int(word) for word in chance.words(4)]


def _told(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are texts."""
    if isinstance(value, list):
        return [_told(item) for item in value]
    return value if math.isfinite(value) else repr(value)


def _score(value: Any) -> Any:
    return np.array(value, dtype=np.float64) if isinstance(value, list) else float(value)
