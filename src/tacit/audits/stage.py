"""What a game on somebody's training is played with: the training, its data, and trial runs that do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, NotFinished, Scores
from ..core.arrays import Array
from .canary import AUTO, maker, pair
from .foreign import Fit
from .makers import Maker
from .runs.batched import Together
from .runs.budget import Budget
from .runs.tasks import ManyCanaries, Run
from .runs.workers import Result
from .scoring import balanced, scored, separation


@dataclass(frozen=True)
class Rehearsal:
    """What the runs that do not count have shown: the canary to play, and how long a run takes."""

    canary: str
    task: Run
    times: tuple[float, ...]
    runs: int = 0
    """Of the audit's runs that were used up."""

    def coins(self, coins: NDArray[np.bool_]) -> list[bool]:
        """What each run is told, of the game's coins."""
        return [bool(coin) for coin in coins]

    def scores(self, results: Sequence[Result], coins: NDArray[np.bool_], first: int = 0) -> list[Scores]:
        """The canary's margin is the only way in which these runs are scored."""
        return [scored(np.array([result.score for result in results]), coins, first=first)]


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


def unusable(results: Sequence[Result], fleet: Together | None = None) -> NotFinished:
    """The one sentence when nothing came of all runs."""
    name = "fit" if fleet is None else "fit.many"
    place = next((result.place for result in results if result.place), "")
    return NotFinished(
        f"No run gave a score: {name} {said(results)}{place}.", fix=f"Try {name} on the data by itself first."
    )


def said(results: Sequence[Result], *, short: bool = False) -> str:
    """What went wrong, most frequent first; in short, without what is said in brackets."""
    found = [result.problem.partition(" (")[0] if short else result.problem for result in results if result.problem]
    problems = Counter(found).most_common(3)
    return ", ".join(f"{problem} in {count} run{'s' * (count > 1)}" for problem, count in problems)
