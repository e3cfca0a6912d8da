"""How the runs of an audit are made: where, for how long, with what randomness, and which are known already."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core import BadInput, NotFinished, Source, check
from ...core.arrays import Array
from .batched import Together
from .journal import Journal
from .workers import Ended, Job, Result, Task, cores, run_all

PATIENCE = 3600.0
"""Seconds a run may take when no budget is given and none has been timed."""


@dataclass(frozen=True)
class Budget:
    """How runs are executed: where, for how long each (in a fleet, each call) and in all, and with what randomness."""

    isolation: str
    limit: float
    deadline: float
    chance: Source
    began: float
    journal: Journal | None = None
    fleet: Together | None = None

    @classmethod
    def of(
        cls,
        isolation: str,
        seconds: float | None,
        chance: Source,
        journal: Journal | None = None,
        fleet: Together | None = None,
    ) -> Budget:
        now = time.monotonic()
        if seconds is None:
            return cls(isolation, PATIENCE, math.inf, chance, now, journal, fleet)
        if journal is not None:
            raise BadInput("An audit with a time budget cannot be resumed.", fix="Say how many runs, not seconds.")
        seconds = check.positive("seconds", seconds)
        return cls(isolation, seconds / 4, now + seconds, chance, now, None, fleet)

    def run(self, task: Task, coins: Sequence[object] | Array) -> list[Result]:
        """One run per item of `coins`, each with its own randomness."""
        jobs = [Job(coin, tuple(int(word) for word in self.chance.words(4))) for coin in coins]
        if self.fleet is None:
            return self._ended(task, jobs)
        first = self.fleet.untried(jobs)
        results = self._ended(task, jobs[:first])
        if first:
            self.fleet.compare(task, jobs[:first], results, limit=self.limit, deadline=self.deadline)
        rest = self._ended(task, jobs[first:])
        self.fleet.remember(task, jobs[first:], rest)
        return results + rest

    def _ended(self, task: Task, jobs: list[Job]) -> list[Result]:
        return self._made(task, jobs) if self.journal is None else self._going_on(self.journal, task, jobs)

    def _made(self, task: Task, jobs: Sequence[Job], **more: Ended) -> list[Result]:
        if self.fleet is not None:
            return self.fleet.run_all(task, jobs, limit=self.limit, deadline=self.deadline, **more)
        return run_all(task, jobs, isolation=self.isolation, limit=self.limit, deadline=self.deadline, **more)

    def _going_on(self, journal: Journal, task: Task, jobs: list[Job]) -> list[Result]:
        """Make the runs that the journal does not hold yet, and write each into it as it ends."""
        numbers = journal.number(len(jobs))
        missing = [place for place, number in enumerate(numbers) if number not in journal.results]
        if missing:
            self._made(
                task,
                [jobs[place] for place in missing],
                ended=lambda place, result: journal.keep(numbers[missing[place]], result),
            )
        return [journal.results[number] for number in numbers]

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() >= self.deadline

    @property
    def here(self) -> bool:
        """Whether runs are made in this process."""
        return (self.isolation if self.fleet is None else self.fleet.isolation) == "none"

    @property
    def side_by_side(self) -> int:
        """How many runs, or calls, are made at a time."""
        return 1 if self.here else cores()

    def rehearsed(self, runs: int) -> int:
        """Runs that show how long one takes; in a fleet with a time budget, a whole call on every core."""
        if self.fleet is None or math.isinf(self.deadline):
            return 2
        return max(2, min(self.fleet.at_once * self.side_by_side, runs // 8))

    def batch(self, usual: int) -> int:
        """Runs between two looks of a sequential game; a fleet makes a whole call, of the size it began with."""
        return usual if self.fleet is None else self.fleet.batch

    def unhurried(self) -> Budget:
        """This budget with its time limit for one run raised to all of its time."""
        return self if math.isinf(self.deadline) else replace(self, limit=self.deadline - self.began)

    def patient(self, times: Sequence[float]) -> Budget:
        """This budget with a limit per run, or call, far above what such runs took."""
        return replace(self, limit=max(10.0, 20 * max(times) * (1 if self.fleet is None else self.fleet.at_once)))

    def affordable(self, runs: int, times: Sequence[float], least: int = 4) -> int:
        """How many runs fit, a fifth of the time kept in reserve; fixed before the first run that counts."""
        if math.isinf(self.deadline):
            return runs
        left = self.deadline - time.monotonic()
        usual = float(np.mean(times) if self.fleet is None else np.max(times))  # a call on an idle machine is quicker
        count = int(0.8 * left * self.side_by_side / max(usual, 1e-6))
        if count < least:
            raise NotFinished(f"The time is too short for {least} runs.", fix="Give more seconds, or a faster fit.")
        return min(runs, count)
