"""What averages hide, from the reference models of an experiment; and a plan's budget step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..attacks import ATTACKS, disparity, distribution, exposed, leave_one_out
from ..core import GroupRisk, Observations, Source, Spent
from ..fleet import Epochs
from ..loss import Plan

RECORDS, FEWEST, POINTS = 10, 8, 21
"""Records that are named, the fewest models that may judge them, and points of the budget curve."""


def below_the_average(seen: Observations, schedule: Epochs | Plan, delta: float, chance: Source) -> dict[str, Any]:
    """Fields of Evidence: the most exposed records, all records by their memorisation, epsilon by steps."""
    found: dict[str, Any] = {"risk": distribution(seen)}
    if seen.models >= FEWEST:
        found["exposures"] = tuple(exposed(seen, RECORDS, chance))
    if isinstance(schedule, Plan):
        found["budget"] = budget(schedule, delta)
    return found


def groups(seen: Observations, attack: str, confidence: float, chance: Source) -> tuple[GroupRisk, ...]:
    """The attack's advantage on every group, on the first model alone: there every record is one row."""
    if seen.group is None:
        return ()
    return tuple(disparity(leave_one_out(ATTACKS[attack], seen, [0]), chance, confidence=confidence))


def budget(plan: Plan, delta: float) -> tuple[Spent, ...]:
    """Epsilon proven after some steps of the plan, the last of them included."""
    steps = np.unique(np.linspace(1, plan.steps, min(POINTS, plan.steps)).astype(int))
    return tuple(Spent(int(step), plan.spent(int(step), delta).epsilon) for step in steps)
