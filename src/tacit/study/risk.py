"""What averages hide, from the reference models of an experiment; and a plan's budget step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..attacks import ATTACKS, disparity, distribution, exposed, leave_one_out, models_needed
from ..core import Claim, Evidence, Exposure, GroupRisk, Observations, Source, Spent
from ..core.events import Repeat
from ..loss import Plan, privacy_loss

if TYPE_CHECKING:
    pass

RECORDS, POINTS = 10, 21
"""Records that are named at most, and points of the budget curve."""


def records(seen: Observations, chance: Source) -> dict[str, Any]:
    """Records that are shown to be exposed, at most ten, and all records by their memorisation."""
    found: dict[str, Any] = {"risk": distribution(seen)}
    if seen.models >= models_needed(RECORDS):
        found["exposures"] = tuple(item for item in exposed(seen, RECORDS, chance) if item.memorisation.lower > 0)
    return found


def unnamed(models: int) -> tuple[str, ...]:
    """A sentence for `not_covered` where there are too few models to name anybody."""
    needed = models_needed(RECORDS)
    return () if models >= needed else (f"which records are most exposed: that takes {needed} reference models",)


def renamed(exposures: Sequence[Exposure], rows: NDArray[np.int64]) -> tuple[Exposure, ...]:
    """Name exposed records by their rows in other data: the k-th was `rows[k]` there."""
    return tuple(replace(item, record=int(rows[item.record])) for item in exposures)


def placed(evidence: Evidence, rows: NDArray[np.int64]) -> Evidence:
    """Name records by their rows in other data, among the exposed and in the attacks' scores: the k-th was `rows[k]`.

    Scores of an audit have the names of its canaries and runs, and keep them.
    """
    scores = (item if item.randomised else replace(item, record=rows[item.record]) for item in evidence.scores)
    return evidence.with_(exposures=renamed(evidence.exposures, rows), scores=tuple(scores))


def groups(seen: Observations, attack: str, confidence: float, chance: Source) -> tuple[GroupRisk, ...]:
    """The attack's advantage on every group, on the first model alone: there every record is one row."""
    if seen.group is None:
        return ()
    (own,) = chance.spawn(1)  # so that nothing else depends on whether there are groups
    return tuple(disparity(leave_one_out(ATTACKS[attack], seen, [0]), own, confidence=confidence))


def by_steps(claim: Claim | None) -> tuple[Spent, ...]:
    """Epsilon by steps for a claimed event that is repeated; nothing for any other claim."""
    if claim is None or not isinstance(claim.event, Repeat):
        return ()
    event, bound = claim.event, claim.bound
    return tuple(
        Spent(step, privacy_loss(Repeat(event.event, step), bound.adjacency).epsilon(bound.delta).upper)
        for step in _points(event.steps)
    )


def budget(plan: Plan, delta: float) -> tuple[Spent, ...]:
    """Epsilon proven after some steps of the plan, the last of them included."""
    return tuple(Spent(step, plan.spent(step, delta).epsilon) for step in _points(plan.steps))


def _points(steps: int) -> list[int]:
    return [int(step) for step in np.unique(np.linspace(1, steps, min(POINTS, steps)).astype(int))]
