"""An audit's journal: its randomness and every run that has ended, so that an interrupted one can go on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import BadInput, Source, TacitError, source
from ...core.files import Lasting
from ...core.randomness import Seeded
from .workers import Result

SCHEMA = "tacit.audit-journal/1"
Randomness = Source | int | np.random.Generator | None


class Kept(Seeded):
    """A stream from a secret of the operating system that the journal keeps until the audit has ended."""

    name = "from a secret of the operating system, kept in the audit's checkpoint"


@dataclass
class Journal:
    """Results by the number of the run; `path` holds one line for each, after a first line about the audit.

    The file is for the operator (mode 0600), and is deleted when the audit has ended.
    """

    path: Path
    chance: Source
    head: dict[str, Any]
    results: dict[int, Result] = field(default_factory=dict)
    asked: int = 0
    lasting: bool = False

    @classmethod
    def open(cls, given: str | Path | Lasting, about: dict[str, Any], rng: Randomness) -> Journal:
        """A new journal, or the one that an audit with the same settings left; nothing is written before a run ends."""
        path = given.path if isinstance(given, Lasting) else Path(given)
        head, *lines = _read(path) or [{"schema": SCHEMA, "about": about, "random": _drawn(rng)}]
        same = (head.get("schema"), head.get("about")) == (SCHEMA, about)
        if not same or (_seed(rng) or head["random"]) != head["random"]:
            raise BadInput(
                f"{path} is of an audit with other settings, data or seed.",
                fix="Repeat the settings of the audit that did not end, or delete the file.",
            )
        found = {line["run"]: Result(_score(line["score"]), line["problem"], line["seconds"]) for line in lines}
        words = head["random"]
        chance: Source = Seeded(words[0]) if _seed(rng) else Kept(np.random.SeedSequence(words))
        return cls(path, chance, head, found, lasting=isinstance(given, Lasting))

    def number(self, count: int) -> range:
        """Numbers of the next `count` runs: the order in which they are asked for is the audit's own."""
        first, self.asked = self.asked, self.asked + count
        return range(first, first + count)

    def keep(self, run: int, result: Result) -> None:
        """Note a run that has ended."""
        self.results[run] = result
        score = result.score.tolist() if isinstance(result.score, np.ndarray) else float(result.score)
        line = {"run": run, "score": score, "problem": result.problem, "seconds": result.seconds}
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _append(self.path, self.head)
        _append(self.path, line)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """An audit that ended, with an answer or with a sentence, leaves nothing to go on with."""
        if not self.lasting if kind is None else issubclass(kind, TacitError):
            self.path.unlink(missing_ok=True)


def identity(x: NDArray[Any], y: NDArray[Any]) -> str:
    """Tells data sets apart; shared with nobody, as the journal is not."""
    code = hashlib.blake2b(digest_size=16)
    for array in (x, y):
        code.update(f"{array.shape} {array.dtype}".encode())
        code.update(np.ascontiguousarray(array).tobytes() if array.dtype != object else repr(array.tolist()).encode())
    return code.hexdigest()


def _append(path: Path, line: dict[str, Any]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    """All whole lines; one that was being written when the audit ended is dropped from the file, too."""
    if not path.exists():
        return []
    whole: list[dict[str, Any]] = []
    kept = 0
    data = path.read_bytes()
    for line in data.splitlines(keepends=True):
        try:
            found = json.loads(line)
        except ValueError:
            break
        if not line.endswith(b"\n") or not isinstance(found, dict):
            break
        whole.append(found)
        kept += len(line)
    os.truncate(path, kept)
    return whole


def _seed(rng: Randomness) -> list[int] | None:
    return [int(rng)] if isinstance(rng, int | np.integer) else None


def _drawn(rng: Randomness) -> list[int]:
    """A seed that was given, or words from the source."""
    chance = source(rng)
    return _seed(rng) or [int(word) for word in chance.words(4)]


def _score(value: Any) -> Any:
    return np.array(value) if isinstance(value, list) else value
