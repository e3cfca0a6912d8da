"""What a game on somebody's training is played with: runs of it, and a budget of time, place and randomness."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, NotFinished, Source, check
from .canary import AUTO, Maker, Pair, maker, pair
from .foreign import Fit, last_margin, margins_of, outputs
from .game import balanced, separation
from .journal import Journal
from .together import Together, answers
from .workers import Ended, Job, Result, Task, cores, run_all

Array = NDArray[Any]
PATIENCE = 3600.0
"""Seconds a run may take when no budget is given and none has been timed."""
PROBE = 16
"""Records that are predicted beside the canary: a model that says the same of all of them has failed."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run on a pair of neighbours: (coin, seed words) -> (margin of the canary's label, problem)."""

    fit: Fit
    pair: Pair

    def __call__(self, coin: bool, words: tuple[int, ...]) -> tuple[float, str]:
        model = self.fit(*self.pair.data(coin), generator(words))
        return self._margin(*outputs(model, self._probe))

    def together(self, coins: Sequence[bool], words: Sequence[tuple[int, ...]]) -> list[tuple[float, str]]:
        """The same of many runs, in one call of fit.many."""
        x, y, member = self.pair.pool(np.array(coins))
        told = answers(self.fit, x, y, member, [generator(item) for item in words], self._probe)
        return [(math.nan, told)] * len(words) if isinstance(told, str) else [self._margin(one, None) for one in told]

    @property
    def _probe(self) -> Array:
        return np.concatenate((self.pair.x[:PROBE], self.pair.canary_x))

    def _margin(self, told: Array, names: Array | None) -> tuple[float, str]:
        label = np.concatenate((self.pair.y[:PROBE], self.pair.canary_y))
        return last_margin(told, names, label, np.unique(self.pair.y))


@dataclass(frozen=True, eq=False)
class ManyCanaries:
    """One run with many canaries: (coins, seed words) -> (margins of all canaries' labels, problem)."""

    fit: Fit
    x: Array
    y: Array
    canary_x: Array
    canary_y: Array

    def __call__(self, coins: NDArray[np.bool_], words: tuple[int, ...]) -> tuple[NDArray[np.float64], str]:
        x, y = np.concatenate((self.x, self.canary_x[coins])), np.concatenate((self.y, self.canary_y[coins]))
        return self._margins(*outputs(self.fit(x, y, generator(words)), self.canary_x))

    def together(self, coins: Sequence[NDArray[np.bool_]], words: Sequence[tuple[int, ...]]) -> list[tuple[Any, str]]:
        """The same of many runs, in one call of fit.many."""
        x, y = np.concatenate((self.x, self.canary_x)), np.concatenate((self.y, self.canary_y))
        member = np.concatenate((np.ones((len(self.x), len(words)), dtype=bool), np.stack(coins, axis=1)))
        told = answers(self.fit, x, y, member, [generator(item) for item in words], self.canary_x)
        return [(math.nan, told)] * len(words) if isinstance(told, str) else [self._margins(one, None) for one in told]

    def _margins(self, told: Array, names: Array | None) -> tuple[NDArray[np.float64], str]:
        found = margins_of(told, names, self.canary_y, np.unique(self.y))
        return found, "" if np.isfinite(found).all() else "predicted NaN"


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

    def run(self, task: Task, coins: Sequence[Any] | Array) -> list[Result]:
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
        """Only the runs that the journal does not know; it learns of each as it ends."""
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
        """The same with all of the time for one run."""
        return self if math.isinf(self.deadline) else replace(self, limit=self.deadline - self.began)

    def patient(self, times: Sequence[float]) -> Budget:
        """The same with a limit per run, or call, that none like these comes near."""
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


@dataclass(frozen=True)
class Rehearsal:
    """What the runs that do not count have shown: the canary to play, and how long a run takes."""

    canary: str
    task: Run
    times: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """Somebody's training, the data, the adjacency of the game, and the budget."""

    fit: Fit
    x: Array
    y: Array
    adjacency: Adjacency
    budget: Budget

    def rehearse(self, canary: str | Maker, runs: int) -> Rehearsal:
        """A few runs that do not count: they time the training and, for "auto", compare the canaries.

        Choosing on runs of their own is not looking (soundness rule 20): none of them is judged.
        """
        names: Sequence[str | Maker] = AUTO if canary == "auto" else [canary]
        count = self.budget.rehearsed(runs) if len(names) == 1 else max(8, min(runs // 8, 128))
        tried, quality, results = [], [], []
        for item in names:
            name, make = maker(item)
            task = Run(self.fit, pair(self.x, self.y, make, self.budget.chance.generator(), self.adjacency))
            coins = balanced(count, self.budget.chance)
            found = self.budget.run(task, coins.tolist())
            tried.append((name, task))
            quality.append(separation(np.array([result.score for result in found]), coins))
            results += found
        times = tuple(result.seconds for result in results if not result.problem)
        if not times:
            raise unusable(results, self.budget.fleet)
        return Rehearsal(*tried[int(np.argmax(quality))], times)

    def many(self, canary: str | Maker, count: int) -> tuple[str, ManyCanaries]:
        """Many canaries of one kind, each made by itself; "auto" makes mislabelled records."""
        name, make = maker("mislabelled" if canary == "auto" else canary)
        rng = self.budget.chance.generator()
        made = [pair(self.x, self.y, make, rng, self.adjacency) for _ in range(count)]
        canary_x, canary_y = (
            np.concatenate(parts) for parts in zip(*((p.canary_x, p.canary_y) for p in made), strict=True)
        )
        return name, ManyCanaries(self.fit, self.x, self.y, canary_x, canary_y)


def generator(words: tuple[int, ...]) -> np.random.Generator:
    """A run's own randomness."""
    return np.random.Generator(np.random.PCG64DXSM(list(words)))


def unusable(results: Sequence[Result], fleet: Together | None = None) -> NotFinished:
    """The one sentence when nothing came of all runs."""
    name = "fit" if fleet is None else "fit.many"
    return NotFinished(f"No run gave a score: {name} {said(results)}.", fix=f"Try {name} on the data by itself first.")


def said(results: Sequence[Result], *, short: bool = False) -> str:
    """What went wrong, most frequent first; in short, without what is said in brackets."""
    found = [result.problem.partition(" (")[0] if short else result.problem for result in results if result.problem]
    problems = Counter(found).most_common(3)
    return ", ".join(f"{problem} in {count} run{'s' * (count > 1)}" for problem, count in problems)
