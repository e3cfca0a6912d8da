"""What an audit would have caught: the chance that it refutes each usual fault (soundness rule 30).

Where a fault can be planted into the training, a small game is played on it. It uses the audit's canary and the
outlier, with a pilot and a threshold of its own, and gives the rates that the audit would have seen. The chance is then
the exact power of the audit's test, with its numbers of runs, at those rates; its interval comes from the limits of the
rates. A small pilot chooses no better than the audit's, so chances are rather too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import Calibration, Claim, Counts, Demonstration, Estimate, Evaluation, Scores, TacitError
from ..core.events import DiscreteGaussian, DiscreteLaplace, Event, Gaussian, Laplace
from ..core.fault import FAULTS, Fault
from .bounds.estimators import Limits, both_limits
from .bounds.families import Curve, member
from .choice import counts
from .demonstration import chosen
from .planting import planted
from .power import CONFIDENCE, Power
from .runs.batched import Together
from .runs.workers import Result
from .scoring import balanced
from .stage import Stage

LEAST, SHARE, FEWEST, MOST = 400, 8, 100, 200
"""Runs of an audit that has a panel, the share of them that each fault is played with, and its limits."""
POWER = "power of this test"
"""The note of a chance that follows from the claimed event and the counts."""
ADDITIVE = (Gaussian, Laplace, DiscreteGaussian, DiscreteLaplace)
TIMES = {"noise 2 times too small": 2.0, "noise 3 times too small": 3.0, "no noise": math.inf}


class Lead(Protocol):
    """Runs that do not count: which canary a run learns, and how it is scored."""

    @property
    def runs(self) -> int: ...

    @property
    def task(self) -> Any: ...

    def coins(self, coins: NDArray[np.bool_]) -> Sequence[Any]: ...

    def scores(self, results: Sequence[Result], coins: NDArray[np.bool_]) -> list[Scores]: ...


def unknown() -> tuple[Fault, ...]:
    """A panel that lists every usual fault, each with an unknown chance."""
    return tuple(Fault(name) for name in FAULTS)


def caught(
    stage: Stage, claim: Claim, shown: Demonstration, runs: int, lead: Callable[[Stage, int], Lead]
) -> tuple[Fault, ...]:
    """The panel of a game of runs: every fault that can be planted is, and its chance is computed."""
    if runs < LEAST or not math.isinf(stage.budget.deadline):
        return unknown()
    each = min(max(runs // SHARE, FEWEST), MOST)
    sequential = shown.game == "sequential"
    power = Power(claim, shown.bound.confidence, shown.counts.n_in, shown.counts.n_out, sequential)
    found = []
    for name in FAULTS:
        rates = _rates(stage, name, claim, each, lead)
        chance = None if rates is None else power.chance(rates, f"planted in this training, {each} runs")
        found.append(Fault(name, chance))
    return tuple(found)


def _rates(stage: Stage, fault: str, claim: Claim, runs: int, lead: Callable[[Stage, int], Lead]) -> Counts | None:
    """Hits and alarms of a small game at a threshold that half of its runs chose; None where there is no such game."""
    try:
        fit = planted(stage.fit, fault, stage.x)
        if fit is None:
            return None
        fleet = None if stage.budget.fleet is None else Together.of(fit)
        stage = replace(stage, fit=fit, budget=replace(stage.budget, fleet=fleet))
        first = lead(stage, runs)
        coins = balanced(runs - first.runs, stage.budget.chance)
        offers = first.scores(stage.budget.run(first.task, first.coins(coins)), coins)
        some, rest = _halves(coins, stage)
        choice = chosen([Calibration(one.take(some)) for one in offers], claim, CONFIDENCE)
        return counts(Evaluation(next(one for one in offers if one.attack == choice.attack).take(rest)), choice)
    except TacitError:
        return None


def _halves(coins: NDArray[np.bool_], stage: Stage) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    order = stage.budget.chance.permutation(coins.size)
    sides = [order[coins[order]], order[~coins[order]]]
    first = np.concatenate([side[: side.size // 2] for side in sides])
    return first, np.setdiff1d(order, first)


def of_release(claim: Claim, shown: Demonstration) -> tuple[Fault, ...]:
    """The panel of a mechanism whose claimed event is one additive noise: rates with less of it follow from its curve.

    The counts say how well the release is told apart: as well as by the best test of the event with its noise times s.
    With noise k times too small it is s / k, and at the same rate of alarms that member's curve gives the rate of hits.
    Exact where the chosen feature orders releases as their likelihood ratio does.
    """
    event = claim.event
    if not isinstance(event, ADDITIVE):
        return unknown()
    power = Power(claim, shown.bound.confidence, shown.counts.n_in, shown.counts.n_out)
    return tuple(Fault(name, _with_less(power, event, shown.counts, TIMES.get(name))) for name in FAULTS)


def _with_less(power: Power, event: Event, seen: Counts, times: float | None) -> Estimate | None:
    """The power with the noise `times` smaller, at the rates that were seen and at their limits."""
    if times is None:
        return None
    low, high = both_limits(seen.true_positives, seen.false_positives, seen.n_in, seen.n_out, CONFIDENCE)
    other = both_limits(
        seen.n_in - seen.true_positives, seen.n_out - seen.false_positives, seen.n_in, seen.n_out, CONFIDENCE
    )
    middle = Limits(seen.true_positives / seen.n_in, (seen.false_positives + 0.5) / (seen.n_out + 1))
    cases = (Limits(float(low), float(high)), middle, Limits(1 - float(other[0]), max(1 - float(other[1]), 1e-6)))
    found = sorted(power.at(*_faulty(power.claim, event, case, times)) for case in cases)
    return Estimate(found[1], found[0], found[2], CONFIDENCE, seen.n_in + seen.n_out, POWER)


def _faulty(claim: Claim, event: Event, seen: Limits, times: float) -> tuple[float, float]:
    """(hits, alarms) as rates, with less noise."""
    adjacency = claim.bound.adjacency
    factor = Curve(event, adjacency, claim.bound.delta).factor(seen)
    if math.isinf(factor):
        return seen.fpr, seen.fpr  # the two data sets are not told apart at all
    if math.isinf(times):
        return 1.0, 0.0
    return member(event, factor / times, adjacency).tradeoff(seen.fpr).lower, seen.fpr
