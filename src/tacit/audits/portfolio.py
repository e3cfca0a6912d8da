"""A pilot that chooses the canary: all that fit the data are played, on runs that are never judged.

Runs without a canary serve all canaries at once. First every canary is played once, and those whose run fails are left
out; then all are compared on a few runs each, then the best few on more, in rounds. The favourite, which shows most of
the faults that show little, stays to the end, and another must be better than it by more than luck: what shows in few
runs shows much. The pilot is paid from the audit's runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Scores
from .canary import Pair, fitting, maker, pair
from .makers import Maker, twins
from .run_statistics import OWN, Statistic, held_out, quality
from .runs.tasks import Watched
from .runs.workers import Result
from .scoring import scored
from .stage import Stage, unusable

Floats = NDArray[np.float64]
SHARE, LEAST, MOST = 0.1, 120, 400
"""Of the runs that the pilot may use; how many at least, where that is no quarter of them; and how many at most."""
FEW = 4
"""Runs of every canary that a comparison needs at least; with less, fewer canaries are compared."""
ROUNDS = ((0.4, 99), (0.7, 4), (1.0, 2))
"""By the end of each round, the share of the pilot that is used up; and how many canaries are played in it."""
OFFERS = 3
"""Statistics beside the canary's own margin that may judge."""
ATTEMPTS = 5
"""Runs that a canary has to show that the training ends with it at all."""
LUCK = 1.5
"""Standard errors by which another statistic than the canary's own margin must be better: the best of many is lucky."""
FAVOURED = 2.5
"""Standard errors by which another canary than the favourite must be better."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """What the pilot chose: a canary, and the statistics that may judge its runs, fitted on the pilot's runs."""

    canary: str
    which: int
    task: Watched
    offers: tuple[tuple[str, Statistic], ...]
    times: tuple[float, ...]
    runs: int
    tried: tuple[str, ...]
    failed: tuple[str, ...]

    def coins(self, coins: NDArray[np.bool_]) -> list[int]:
        """Which canary each run learns, of the game's coins."""
        return [self.which if coin else -1 for coin in coins]

    def scores(self, results: Sequence[Result], coins: NDArray[np.bool_], first: int = 0) -> list[Scores]:
        """The scores of runs under every statistic on offer; a failed run is wrong under each."""
        told = answers(results, len(self.task.seen_x))
        good = np.array([not result.problem for result in results])
        found = []
        for name, statistic in self.offers:
            value = np.full(len(results), np.nan)
            if good.any():
                value[good] = statistic(told[good])
            found.append(scored(value, coins, attack=name, first=first))
        return found

    @property
    def told(self) -> dict[str, str | int]:
        """For the evidence: what was tried and what was left out."""
        return {
            "pilot_runs": self.runs,
            "canaries_tried": ", ".join(self.tried),
            "canaries_left_out": ", ".join(self.failed),
        }


def pilot(stage: Stage, canary: str | Maker, runs: int, among: Sequence[str] = ()) -> Pilot:
    """Play the pilot; "auto" compares all canaries that fit the data, another choice is only looked at more closely.

    With `among` only these canaries are compared.
    """
    room = min(max(int(SHARE * runs), min(LEAST, runs // 4)), MOST)
    offers = among or fitting(stage.x)[: max(1, room // FEW - 1)]
    names: Sequence[str | Maker] = offers if canary == "auto" else [canary]
    trial = _Trial(stage, *_prepared(stage, names))
    alive = trial.able(range(-1, len(trial.names)))
    if alive[:1] != [-1] or len(alive) < 2:
        raise unusable(trial.results, stage.budget.fleet)
    room, best = trial.affordable(room), alive[1:]
    for share, many in ROUNDS:
        best = trial.best(best, many)
        trial.compare(best, int(share * room))
    which = trial.best(best, 1)[0]
    return Pilot(
        trial.names[which],
        which,
        trial.task,
        tuple(trial.quality(which)[1]),
        trial.times,
        len(trial.results),
        tuple(trial.names),
        tuple(name for k, name in enumerate(trial.names) if k not in alive),
    )


def _prepared(stage: Stage, names: Sequence[str | Maker]) -> tuple[Watched, list[str]]:
    """A run that may learn any of the canaries, and their names."""
    made = [(maker(item)[0], _made(stage, item)) for item in names]
    alike = [
        (k, other[None])
        for k, (name, one) in enumerate(made)
        if name == "rare"
        for other in twins(stage.x, one.canary_x[0])
    ]
    return Watched(stage.fit, tuple(one for _, one in made), tuple(alike)), [name for name, _ in made]


def answers(results: Sequence[Result], width: int) -> Floats:
    """(runs x seen records); a failed run is all NaN."""
    blank = np.full(width, np.nan)
    return np.stack([blank if result.problem else np.asarray(result.score, dtype=np.float64) for result in results])


class _Trial:
    """The runs of a pilot, by which canary they learned."""

    def __init__(self, stage: Stage, task: Watched, names: Sequence[str]) -> None:
        self.stage, self.task, self.names = stage, task, names
        self.which: list[int] = []
        self.results: list[Result] = []
        self.favourite = -1

    def play(self, groups: Sequence[int], each: int) -> None:
        """So many more runs of each group, in random order."""
        which = np.repeat(np.array(groups), max(each, 0))
        which = which[self.stage.budget.chance.permutation(which.size)]
        if which.size:
            self.results += self.stage.budget.run(self.task, which.tolist())
            self.which += which.tolist()

    def compare(self, some: Sequence[int], until: int) -> None:
        """More runs of some canaries and, twice as many where there are several, without any, up to so many in all."""
        shared = 1 if len(some) == 1 else 2
        self.play([-1] * shared + list(some), (until - len(self.results)) // (len(some) + shared))

    def best(self, some: Sequence[int], many: int) -> list[int]:
        """The canaries that are told best; the favourite is among them unless only one is asked for."""
        if len(some) <= many:
            return list(some)
        order = sorted(some, key=lambda k: -self.quality(k)[0])
        if many == 1 or self.favourite in order[:many]:
            return order[:many]
        return [self.favourite, *order[: many - 1]]

    def able(self, groups: Sequence[int]) -> list[int]:
        """The groups for which at least one of a few trial runs ended without a problem."""
        left = list(groups)
        for _ in range(ATTEMPTS):
            self.play(left, 1)
            well = {k for k, result in zip(self.which, self.results, strict=True) if not result.problem}
            left = [k for k in left if k not in well]
        alive = [k for k in groups if k not in left]
        self.favourite = next((k for k in alive if k >= 0), -1)
        return alive

    @property
    def times(self) -> tuple[float, ...]:
        return tuple(result.seconds for result in self.results if not result.problem)

    def affordable(self, room: int) -> int:
        """Runs of the pilot, no more than a quarter of what the time allows."""
        least = len(self.results) + 2 * OFFERS
        return max(least, min(room, self.stage.budget.affordable(4 * room, self.times, least) // 4))

    def quality(self, which: int) -> tuple[float, list[tuple[str, Statistic]]]:
        """How well a canary can be told, and by which statistics: its own margin, and what beats it by far."""
        task = self.task
        told, groups = answers(self.results, len(self.task.seen_x)), np.array(self.which)
        good = np.array([not result.problem for result in self.results])
        inside, outside = (told[good & (groups == k)] for k in (which, -1))
        if not (len(inside) and len(outside)):
            return -math.inf, []
        coins = np.repeat([True, False], [len(inside), len(outside)])
        error = math.sqrt(1 / len(inside) + 1 / len(outside))
        found = [
            (quality(told, coins) - LUCK * error * (name != OWN), name, statistic)
            for name, statistic, told in held_out(inside, outside, task.column(which), task.data, task.twins_of(which))
        ]
        own = found[0][0]
        kept = [item for item in found[1:] if item[0] > own]
        kept = sorted(kept, key=lambda item: -item[0])[:OFFERS]
        share = np.mean(good[groups == which])  # a canary whose runs fail shows less
        best = max([own, *(item[0] for item in kept)]) - FAVOURED * error * (which != self.favourite)
        return float(share * best if best > 0 else best), [(name, use) for _, name, use in [found[0], *kept]]


def _made(stage: Stage, canary: str | Maker) -> Pair:
    return pair(stage.x, stage.y, maker(canary)[1], stage.budget.chance.generator(), stage.adjacency)
