"""Whether a claimed event is that of the plan which the evidence of a training names.

Evidence of our own trainings says what was planned: rate, steps, noise, how batches are drawn. The claim has one event,
and both were written together. If somebody replaces the claim by a cheaper one, and
recomputes every number, it no longer agrees with what was planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core import Evidence, TacitError
from ..loss import Plan
from .verified_rows import Statement

NAMED = "public_size", "rate", "planned_steps", "noise_multiplier", "clipping", "sampling"
"""What provenance must hold for the plan to be made again."""
ALONE = frozenset({"poisson", "fixed-size", "shuffled", "allocation", "full"})
"""Samplings of which nothing else needs to be known; cyclic batches have bands, which are not named."""
FURTHER = frozenset({"adaptive"})
"""Clippings whose own noise is not named."""


def planned(evidence: Evidence) -> Iterator[Statement]:
    """One row, where the plan is named and can be made again."""
    claim, said = evidence.claim, evidence.provenance
    if claim is None or claim.event is None or not set(NAMED) <= set(said):
        return
    if said["sampling"] not in ALONE or said["clipping"] in FURTHER:
        return
    found = _made(said, claim.bound.adjacency.value)
    text = "no plan that there is" if found is None else str(found.event)
    equal = found is not None and found.event == claim.event
    yield Statement("claim, plan", str(claim.event), text, equal)


def _made(said: Mapping[str, object], adjacency: str) -> Plan | None:
    size, rate, steps, noise, clipping, sampling = (said[name] for name in NAMED)
    try:
        return Plan(size, rate, steps, noise, adjacency=adjacency, sampling=sampling, clipping=clipping)  # type: ignore[arg-type]
    except (TacitError, ArithmeticError, TypeError, ValueError):
        return None
