"""A campaign in pieces: every finished piece is a line of a file, so that it can be stopped, resumed and shared.

Pieces are shared between processes of one machine (`workers`) and between machines (`share`, I of N; put their files
together with `cat`). A line that was cut off is measured again.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Task = Callable[[], Any]
"""Something that can be sent to another process and gives what JSON can hold."""


@dataclass(frozen=True)
class Pieces:
    """Which pieces to measure and where finished ones are kept."""

    work: Path | None = None
    share: tuple[int, int] = (0, 1)
    seconds: float | None = None
    workers: int = 1
    began: float = field(default_factory=time.monotonic)
    left: list[str] = field(default_factory=list)

    @property
    def unfinished(self) -> bool:
        """Whether some piece that was asked for, of this share or another, is not finished."""
        return bool(self.left)

    def done(self) -> dict[str, Any]:
        """Finished pieces by name."""
        found = {}
        for line in self.work.read_text(encoding="utf-8").splitlines() if self.work and self.work.is_file() else ():
            with contextlib.suppress(json.JSONDecodeError, ValueError, TypeError):
                name, value = json.loads(line)
                found[name] = value
        return found

    def run(self, tasks: Mapping[str, Task]) -> dict[str, Any]:
        """What all pieces gave that are finished by now, of those asked for."""
        known = self.done()
        mine = {
            name: task
            for number, (name, task) in enumerate(tasks.items())
            if name not in known and number % self.share[1] == self.share[0]
        }
        for name, value in self._made(mine):
            known[name] = value
            self._keep(name, value)
        self.left.extend(name for name in tasks if name not in known)
        return {name: known[name] for name in tasks if name in known}

    def late(self) -> bool:
        """Whether no more pieces may be begun."""
        return self.seconds is not None and time.monotonic() - self.began > self.seconds

    def _made(self, tasks: Mapping[str, Task]) -> Iterator[tuple[str, Any]]:
        if self.workers == 1:
            for name, task in tasks.items():
                if self.late():
                    return
                yield name, task()
            return
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        waiting, running = list(tasks.items()), {}
        with ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn")) as pool:
            while running or (waiting and not self.late()):
                while waiting and len(running) < self.workers and not self.late():
                    name, task = waiting.pop(0)
                    running[pool.submit(task)] = name
                for ready in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(ready), ready.result()

    def _keep(self, name: str, value: Any) -> None:
        if self.work is None:
            return
        cut = self.work.is_file() and not self.work.read_bytes().endswith(b"\n")
        with self.work.open("a", encoding="utf-8") as file:
            file.write(("\n" if cut else "") + json.dumps([name, value]) + "\n")
