"""A plan from the section [plan] of a run file."""

from __future__ import annotations

from typing import Any

from ..core import BadInput
from ..loss import Plan, plan


def planned(table: dict[str, Any], records: int) -> tuple[Plan, float]:
    """A plan and its delta from [plan]: the least noise for an epsilon, or a noise multiplier itself."""
    table = {key: value for key, value in table.items() if key != "records_per_user"}
    delta, epsilon = table.pop("delta", 1e-5), table.pop("epsilon", None)
    size = table.pop("public_size", records)
    schedule = {"rate", "steps"} & table.keys()
    if (epsilon is None) == ("noise_multiplier" not in table):
        raise BadInput("[plan] needs epsilon or noise_multiplier, one of them.")
    if (schedule and schedule != {"rate", "steps"}) or (epsilon is None and not schedule):
        raise BadInput("[plan] needs both rate and steps.")
    if schedule and (extra := {"epochs", "batch_size"} & table.keys()):
        raise BadInput(f"[plan] has rate and steps, so {' and '.join(sorted(extra))} must go.")
    if epsilon is None:
        return Plan(size, **table), delta
    if not schedule:
        return plan(size, epsilon=epsilon, delta=delta, **table), delta
    return Plan(size, noise_multiplier=1.0, **table).calibrated(epsilon=epsilon, delta=delta), delta
