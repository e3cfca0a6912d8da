"""An audit's journal: its randomness and every run that has ended, so that an interrupted one can go on."""

from __future__ import annotations

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

from ...core import Source, TacitError
from ...core.errors import FileWarning
from ...core.files import Lasting, shown, written
from ...core.journal_head import BYTES, Randomness, check_same, drawn, head, seed, seeded_key
from ...core.lines import Record, append, read_lines, stamped, unusable
from ...core.randomness import Replayed, Seeded
from .workers import Result

SCHEMA = "tacit.audit-journal/2"
SYNC = 1.0
"""Seconds between two times that the operating system is made to put the notes on disk."""
Data = tuple[NDArray[np.generic], NDArray[np.generic]]


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
        words = seed(rng)
        made = None if words is None else head(SCHEMA, about, data, words, seeded_key(SCHEMA, words))
        lines = read_lines(path, made)
        if lines is None:
            first = made or head(SCHEMA, about, data, drawn(rng), os.urandom(BYTES).hex())
            return cls(path, _chance(first, rng), first, lasting=isinstance(given, Lasting), whole=not path.exists())
        if lines.head is None:
            raise unusable(path, lines)
        check_same(path, SCHEMA, lines.head, about, data, words)
        found, bad = _results(lines.rest)
        damaged = len(lines.damaged) + bad
        if damaged:
            where = f" (line {', '.join(map(str, lines.damaged[:5]))})" if lines.damaged else ""
            warnings.warn(
                f"{shown(path)} is damaged in {damaged} places{where}: these runs are made again.",
                FileWarning,
                stacklevel=3,
            )
        chance = _chance(lines.head, rng)
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


def _chance(head: Record, rng: Randomness) -> Source:
    """The source of a seed or of a work that is gone through again; else one from the words that the journal keeps."""
    if isinstance(rng, Replayed):
        return rng
    words = seed(rng)
    return Seeded(words[0]) if words else Kept(np.random.SeedSequence(head["random"]))


def _told(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are texts."""
    if isinstance(value, list):
        return [_told(item) for item in value]
    return value if math.isfinite(value) else repr(value)


def _score(value: Any) -> object:
    return np.array(value, dtype=np.float64) if isinstance(value, list) else float(value)
