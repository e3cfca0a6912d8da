"""Many runs of somebody's training in one call, where it offers that: `fit.many(x, y, member, rngs) -> predict`.

Run k is the one that `fit(x[member[:, k]], y[member[:, k]], rngs[k])` would be, and `predict(x)` gives (runs, records,
classes). Runs that share a batch order, or noise, are no independent runs: a claim that counts on a secret sample would
be refuted though it is true (soundness rule 16). So some runs are also made alone, with the generators that they had
among the others, and must score the same. They come from the first call, from any call that is larger than those
before, and from the last one, which shows what a fit has kept between calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core import BadInput, Control
from ...core.arrays import Array
from .workers import OUT_OF_TIME, Ended, Job, Result, Task, nobody, run_all, sendable

AT_ONCE = 64
"""Runs in one call, unless the fit says how many it wants (`at_once`)."""
SPLITS = 16
"""Cuts in halves, for every call, of those that failed: to find the run that failed it, or to need less memory."""
AGREE = 1e-3
"""How far scores of one run may lie apart, relative to 1 + their size: rounding, no more."""
ROUNDING, SPREAD = 1e-5, 0.1
"""Nor farther than this share of what runs of one coin differ by, if that is more than rounding: in scores that hardly
differ, other randomness would look like rounding."""
EXACT = 1e-8
"""Runs that score exactly alike among others must do so alone."""


class Joint(Protocol):
    """A task that performs many jobs at once."""

    def together(self, coins: list[object], words: list[tuple[int, ...]]) -> list[tuple[Any, str]]: ...


@dataclass(frozen=True, eq=False)
class Call:
    """Many jobs as one: (jobs, seed words) -> (a score and a problem for each, problem)."""

    task: Joint

    def __call__(self, jobs: list[Job], words: tuple[int, ...]) -> tuple[list[tuple[Any, str]], str]:
        return self.task.together([job.coin for job in jobs], [job.words for job in jobs]), ""


@dataclass
class Together:
    """Makes the runs of an audit `at_once`, and keeps account of those that were made alone to compare.

    `isolation`: calls are made in a "process" of their own, or with "none" here.
    """

    at_once: int = AT_ONCE
    isolation: str = "process"
    largest: int = 0
    compared: int = 0
    apart: float = 0.0
    latest: tuple[Task, Sequence[Job], Sequence[Result]] | None = None

    def __post_init__(self) -> None:
        self.batch = self.at_once  # stays: an audit that goes on must throw the coins that it would have thrown

    @classmethod
    def of(cls, fit: Any) -> Together:
        """How a fit wants its runs made together; in this process where the fit cannot be sent to another."""
        size, place = getattr(fit, "at_once", AT_ONCE), getattr(fit, "isolation", "process")
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise BadInput("fit.at_once must be a whole number of runs, at least 1.")
        if place not in ("process", "none"):
            raise BadInput("fit.isolation must be process or none.")
        return cls(int(size), place if sendable(fit) else "none")

    def run_all(
        self, task: Any, jobs: Sequence[Job], *, limit: float, deadline: float, ended: Ended = nobody
    ) -> list[Result]:
        """All jobs, in order, each call in a process of its own for at most `limit` seconds.

        A call that fails is cut in halves, a few times; what is left over has failed.
        """
        results: dict[int, Result] = {}
        starts = range(0, len(jobs), self.at_once)
        calls = [range(first, min(first + self.at_once, len(jobs))) for first in starts]
        splits, halves = SPLITS * len(calls), False
        while calls:
            known = _Known(calls, results, ended)
            asked = [Job([jobs[place] for place in places], jobs[places[0]].words) for places in calls]
            found = run_all(
                Call(task), asked, isolation=self.isolation, limit=limit, deadline=deadline, ended=known.good
            )
            if halves:
                self._learn(calls, found)
            waiting: list[range] = []
            for number, result in enumerate(found):
                places = calls[number]
                if result.problem and result.problem != OUT_OF_TIME and len(places) > 1 and splits:
                    splits -= 1
                    waiting += [places[: len(places) // 2], places[len(places) // 2 :]]
                elif result.problem:
                    known.bad(number, result)
            calls, halves = waiting, True
        return [results[place] for place in range(len(jobs))]

    def _learn(self, calls: Sequence[range], found: Sequence[Result]) -> None:
        """Where both halves of a call that failed have ended well, no run was bad: the call was too large."""
        for number in range(0, len(calls), 2):
            if not (found[number].problem or found[number + 1].problem):
                self.at_once = min(self.at_once, len(calls[number + 1]))

    def untried(self, jobs: Sequence[Job]) -> int:
        """How many of the jobs make a first call that is larger than any before; 0 if it is not."""
        size = min(self.at_once, len(jobs))
        return size if size > self.largest else 0

    def compare(
        self, task: Task, jobs: Sequence[Job], among: Sequence[Result], *, limit: float, deadline: float
    ) -> None:
        """Make some runs of a call again, alone: they must score what they scored among the others."""
        self.largest = max(self.largest, len(jobs))
        places, spread = _some(jobs, among), _spread(jobs, among)
        again = [jobs[place] for place in places]
        alone = run_all(task, again, isolation=self.isolation, limit=limit, deadline=deadline)
        for place, one in zip(places, alone, strict=True):
            if one.problem == OUT_OF_TIME:
                continue
            if one.problem:
                raise _other(f"alone a run {one.problem}, among others it gave a score")
            gap, size = _gap(one.score, among[place].score), 1 + np.abs(np.nan_to_num(one.score))
            if not (gap <= np.minimum(AGREE * size, np.maximum(ROUNDING * size, SPREAD * spread))).all():
                raise _other(f"scores of one run lie {float(np.max(gap)):.3g} apart")
            self.compared, self.apart = self.compared + 1, max(self.apart, float(np.max(gap)))
        ended = {place: one.score for place, one in zip(places, alone, strict=True) if not one.problem}
        for place, twin in itertools.combinations(ended, 2):
            same = _mark(jobs[place], among[place]) == _mark(jobs[twin], among[twin])
            if same and not np.allclose(ended[place], ended[twin], rtol=EXACT, atol=EXACT, equal_nan=True):
                raise _other("two runs that score alike among others do not when they are made alone")

    def remember(self, task: Task, jobs: Sequence[Job], results: Sequence[Result]) -> None:
        """The last runs, as many as a call has: to be compared if no others follow."""
        self.latest = (task, jobs[-self.at_once :], results[-self.at_once :]) if jobs else None

    def compare_latest(self, *, limit: float, deadline: float) -> None:
        """The last call of an audit, unless it was compared: by then a fit has kept what it keeps."""
        if self.latest is not None:
            self.compare(*self.latest, limit=limit, deadline=deadline)
            self.latest = None

    def control(self) -> Control:
        """What the runs that were made twice have shown."""
        found = f"{self.compared} runs, at most {self.apart:.1g} apart"
        return Control("fleet", "a run alone scores as it does among others", found, passed=self.compared > 0)


@dataclass(frozen=True)
class _Known:
    """Report single runs as soon as the call that made several of them has ended."""

    calls: list[range]
    results: dict[int, Result]
    ended: Ended

    def good(self, call: int, result: Result) -> None:
        """Each run took its share of the time."""
        if not result.problem:
            seconds = result.seconds / len(result.score)
            for place, (score, problem) in zip(self.calls[call], result.score, strict=True):
                self._note(place, Result(score, problem, seconds))

    def bad(self, call: int, result: Result) -> None:
        places = self.calls[call]
        for place in places:
            self._note(place, Result(math.nan, result.problem, result.seconds / len(places)))

    def _note(self, place: int, result: Result) -> None:
        self.results[place] = result
        if result.problem != OUT_OF_TIME:
            self.ended(place, result)


def answers(
    fit: Any, x: Array, y: Array, member: NDArray[np.bool_], rngs: list[np.random.Generator], probe: Array
) -> Any:
    """(runs x records x classes) of many runs, or what is wrong with it in words."""
    predict = fit.many(x, y, member, rngs)
    if not callable(predict):
        return "returned no predict(x)"
    told = np.asarray(predict(probe), dtype=np.float64)
    if told.ndim != 3 or told.shape[:2] != (len(rngs), len(probe)):
        return f"predicted shape {told.shape}, where ({len(rngs)} runs, {len(probe)} records, classes) is due"
    return told


def _some(jobs: Sequence[Job], among: Sequence[Result]) -> list[int]:
    """Pick which runs to repeat in isolation: the last run, the last run whose canary coin differs, one at random, and
    one pair with equal scores.

    The last run is used rather than the first, which would be right even if all runs shared its generator. The random
    choice comes from that run's own words, so no other randomness is drawn.
    """
    good = [place for place, result in enumerate(among) if not result.problem]
    if not good:
        return []
    last, count = good[-1], len(good)
    others = [place for place in good if not np.array_equal(jobs[place].coin, jobs[last].coin)]
    known: dict[bytes, int] = {}
    twins: list[int] = []
    for place in good:
        mark = _mark(jobs[place], among[place])
        twins = twins or ([known[mark], place] if mark in known else [])
        known[mark] = place
    return list(dict.fromkeys((last, *others[-1:], good[jobs[last].words[0] % count], *twins)))


def _mark(job: Job, result: Result) -> bytes:
    """A mark that is equal for two runs with the same coin and exactly the same score."""
    return np.asarray(job.coin).tobytes() + np.asarray(result.score).tobytes()


def _gap(one: object, other: object) -> NDArray[np.float64]:
    """How far scores lie apart; two that both lack an answer agree, one that lacks it alone is infinitely far."""
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    lacking = np.isnan(one), np.isnan(other)
    gap = np.where(lacking[0] != lacking[1], np.inf, np.nan_to_num(np.abs(one - other)))
    return np.asarray(gap)


def _spread(jobs: Sequence[Job], among: Sequence[Result]) -> float:
    """By how much runs of one coin differ, as a deviation; infinite where no two have one coin."""
    groups: dict[bytes, list[Any]] = {}
    for job, result in zip(jobs, among, strict=True):
        if not result.problem:
            groups.setdefault(np.asarray(job.coin).tobytes(), []).append(result.score)
    found = [float(np.mean(np.nan_to_num(np.var(s, axis=0, ddof=1)))) for s in groups.values() if len(s) > 1]
    return math.sqrt(max(found)) if found else math.inf


def _other(words: str) -> BadInput:
    return BadInput(
        f"fit.many does not make the runs that fit makes: {words}.",
        fix="Run k must draw all its randomness from rngs[k], as fit would; or use isolation='process'.",
    )
