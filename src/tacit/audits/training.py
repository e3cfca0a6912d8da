"""Audit anybody's training: run it many times with and without a canary, and see whether the claim survives."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, Claim, Evidence, NotFinished, Scores, Source, check, source
from . import controls
from .canary import CANARIES, Maker, Pair, maker, pair
from .claims import Stated, stated
from .demonstration import demonstrate
from .foreign import Fit, last_margin
from .game import balanced, failures, scored
from .workers import Job, Result, cores, run_all

Array = NDArray[Any]
GAMES = ("runs",)
PATIENCE = 300.0
"""Seconds a first run may take when no budget is given."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run of somebody's training on a pair of neighbours: (coin, seed words) -> (score, problem)."""

    fit: Fit
    pair: Pair

    def __call__(self, coin: bool, words: tuple[int, ...]) -> tuple[float, str]:
        x, y = self.pair.data(coin)
        model = self.fit(x, y, np.random.Generator(np.random.PCG64DXSM(list(words))))
        probe = np.concatenate((self.pair.x[:16], self.pair.canary_x))
        label = np.concatenate((self.pair.y[:16], self.pair.canary_y))
        return last_margin(model, probe, label, np.unique(self.pair.y))


@dataclass(frozen=True)
class Budget:
    """How runs are executed: where, for how long each and in all, and with what randomness."""

    isolation: str
    limit: float
    deadline: float
    chance: Source
    began: float

    @classmethod
    def of(cls, isolation: str, seconds: float | None, chance: Source) -> Budget:
        now = time.monotonic()
        if seconds is None:
            return cls(isolation, PATIENCE, math.inf, chance, now)
        seconds = check.positive("seconds", seconds)
        return cls(isolation, seconds / 4, now + seconds, chance, now)

    def run(self, task: Run, coins: NDArray[np.bool_]) -> list[Result]:
        jobs = [Job(bool(coin), tuple(int(word) for word in self.chance.words(4))) for coin in coins]
        return run_all(task, jobs, isolation=self.isolation, limit=self.limit, deadline=self.deadline)

    def affordable(self, runs: int, times: Sequence[float]) -> int:
        """How many runs fit, a fifth of the time kept in reserve; fixed before the first run that counts."""
        side_by_side = cores() if self.isolation == "process" else 1
        left = self.deadline - time.monotonic()
        count = int(0.8 * left * side_by_side / max(float(np.mean(times)), 1e-6))
        if count < 4:
            raise NotFinished("The time is too short for four runs.", fix="Give more seconds, or a faster fit.")
        return min(runs, count)


def audit(
    fit: Fit,
    data: tuple[Array, Array],
    *,
    claim: Stated,
    game: str = "runs",
    canary: str | Maker = "auto",
    runs: int = 1000,
    seconds: float | None = None,
    confidence: float = 0.95,
    isolation: str = "process",
    rng: Source | int | np.random.Generator | None = None,
    delta: float = 1e-5,
    adjacency: Adjacency | str | None = None,
) -> Evidence:
    """Test a privacy claim about `fit(x, y, rng) -> predict` by many runs with and without a canary.

    The score of a run is the log-odds margin of the canary's label. A fifth of the runs chooses the threshold, the
    others judge. With `seconds` the number of runs is fixed after a short trial, before the first run that counts.

    Guarantee: a true claim is refuted with probability at most 1 - confidence (docs/proofs/auditing.md).
    Caller ensures: fit's runs are independent (it keeps nothing between calls), and the claim is about one release
    of what `fit` returns.
    Edge cases: a run that raises, hangs or predicts NaN or a constant counts against refutation.
    """
    if game not in GAMES:
        raise BadInput(f"Game {game!r} is not known.", fix=f"Use one of: {', '.join(GAMES)}.")
    claimed = stated(claim, delta=delta, adjacency=adjacency)
    stage = Stage(fit, *_checked(data), claimed.bound.adjacency, Budget.of(isolation, seconds, source(rng)))
    rehearsal = stage.rehearse(canary, check.whole("runs", runs, least=4))
    planned = runs if seconds is None else stage.budget.affordable(runs, rehearsal.times)
    scores, results = stage.perform(rehearsal, planned)
    shown = demonstrate(
        scores,
        claim=claimed,
        confidence=confidence,
        rng=stage.budget.chance,
        game=game,
        canary=rehearsal.canary,
        planned=planned,
        failed=failures(scores),
    )
    return Evidence(
        subject=getattr(fit, "__qualname__", type(fit).__name__),
        claim=claimed,
        demonstrations=shown,
        controls=(controls.null(scores, stage.budget.chance), controls.planted_leak(scores, stage.budget.chance)),
        not_covered=_not_covered(claimed),
        threat={"released": "the trained model", "attacker sees": "predictions on the canary"},
        provenance=_provenance(stage.budget, results),
        scores=(scores,),
    )


@dataclass(frozen=True)
class Rehearsal:
    """What the runs that do not count have shown: the canary to play, and how long a run takes."""

    canary: str
    task: Run
    times: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """Everything a game on somebody's training is played with."""

    fit: Fit
    x: Array
    y: Array
    adjacency: Adjacency
    budget: Budget

    def rehearse(self, canary: str | Maker, runs: int) -> Rehearsal:
        """A few runs that do not count: they time the training and, for "auto", compare the canaries.

        Choosing on runs of their own is not looking (soundness rule 20): none of them is judged.
        """
        names: Sequence[str | Maker] = sorted(CANARIES) if canary == "auto" else [canary]
        count = 2 if len(names) == 1 else max(8, min(runs // 8, 128))
        tried, quality, results = [], [], []
        for item in names:
            name, make = maker(item)
            task = Run(self.fit, pair(self.x, self.y, make, self.budget.chance.generator(), self.adjacency))
            coins = balanced(count, self.budget.chance)
            found = self.budget.run(task, coins)
            tried.append((name, task))
            quality.append(_separation(np.array([result.score for result in found]), coins))
            results += found
        times = tuple(result.seconds for result in results if not result.problem)
        if not times:
            raise _unusable(results)
        return Rehearsal(*tried[int(np.argmax(quality))], times)

    def perform(self, rehearsal: Rehearsal, runs: int) -> tuple[Scores, list[Result]]:
        """The runs that count."""
        coins = balanced(runs, self.budget.chance)
        results = replace(self.budget, limit=max(10.0, 20 * max(rehearsal.times))).run(rehearsal.task, coins)
        scores = scored(np.array([result.score for result in results]), coins)
        if not (np.isfinite(scores.members).any() and np.isfinite(scores.nonmembers).any()):
            raise _unusable(results)
        return scores, results


def _separation(score: NDArray[np.float64], coins: NDArray[np.bool_]) -> float:
    """Difference of the means over the spread; a canary whose runs fail comes last."""
    inside, outside = score[coins & np.isfinite(score)], score[~coins & np.isfinite(score)]
    if min(inside.size, outside.size) < 1:
        return -math.inf
    spread = math.sqrt(float(inside.var() + outside.var()) / 2)
    return float(inside.mean() - outside.mean()) / max(spread, 1e-12)


def _unusable(results: list[Result]) -> NotFinished:
    problems = Counter(result.problem for result in results if result.problem)
    return NotFinished(f"No run gave a score: fit {_said(problems)}.", fix="Try fit on the data by itself first.")


def _said(problems: Counter[str]) -> str:
    return ", ".join(f"{problem} in {count} run{'s' * (count > 1)}" for problem, count in problems.most_common(3))


def _checked(data: tuple[Array, Array]) -> tuple[Array, Array]:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise BadInput("data must be a pair (x, y).")
    x, y = (np.asarray(part) for part in data)
    if x.ndim < 2 or y.ndim != 1 or len(x) != len(y) or len(x) < 2:
        raise BadInput("data must be (x, y) with x of shape (records, ...) and one label per record.")
    if np.unique(y).size < 2:
        raise BadInput("data must hold at least two classes.")
    return x, y


def _not_covered(claim: Claim) -> tuple[str, ...]:
    lines = ["an audit tests one pair of data sets; it can refute a claim, never prove one"]
    if claim.event is None:
        lines.append("the claim is stated as (epsilon, delta); no event was given to recompute it from")
    return tuple(lines)


def _provenance(budget: Budget, results: list[Result]) -> dict[str, Any]:
    problems = Counter(result.problem for result in results if result.problem)
    return {
        "randomness": budget.chance.name,
        "runs_planned": len(results),
        "runs_done": len(results) - sum(problems.values()),
        "runs_failed": sum(problems.values()),
        "failures": _said(problems),
        "seconds": round(time.monotonic() - budget.began, 3),
    }
