"""Recompute what follows from the events and counts stored in some evidence; no data is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core import BadInput, Bound, Claim, Demonstration, Evidence
from ..loss import privacy_loss
from .bounds.bayes import credible
from .bounds.methods import estimator
from .claims import STATED, limits

TOLERANCE = 1e-6
"""Relative; another machine's floating point moves the last digits only."""


@dataclass(frozen=True)
class Recomputed:
    """One number of the evidence beside what its parts give.

    `recomputed` is None when nothing is stored to tell; then the two agree only for a bare statement of somebody's.
    """

    method: str
    stored: float
    recomputed: float | None
    equal: bool

    @classmethod
    def of(cls, method: str, stored: float, recomputed: float | None) -> Recomputed:
        if recomputed is None:
            return cls(method, stored, None, method == STATED)
        close = stored == recomputed or math.isclose(stored, recomputed, rel_tol=TOLERANCE)
        return cls(method, stored, recomputed, close)


@dataclass(frozen=True)
class Verification:
    """Whether every bound follows from what is stored with it; `unchecked` is what only the data could confirm."""

    ok: bool
    bounds: tuple[Recomputed, ...]
    unchecked: tuple[str, ...] = ()


def verify(evidence: Evidence | str | Path) -> Verification:
    """Recompute the claim from its event, the rates it allows, each lower bound from its counts, and what each could
    have shown at most. Takes evidence, or the path of an evidence file."""
    if isinstance(evidence, str | Path):
        evidence = Evidence.load(evidence)
    if not isinstance(evidence, Evidence):
        raise BadInput(f"verify takes Evidence or the path of an evidence file, not {type(evidence).__name__}.")
    rows = [] if evidence.claim is None else _claim(evidence.claim)
    for item in evidence.demonstrations:
        rows += _demonstration(item, evidence.claim)
    return Verification(all(row.equal for row in rows), tuple(rows), _unchecked(evidence))


def _claim(claim: Claim) -> list[Recomputed]:
    bound = claim.bound
    if claim.event is None:
        rows = [Recomputed.of(bound.method, bound.epsilon, None)]
    else:
        found = privacy_loss(claim.event, bound.adjacency).epsilon(bound.delta).upper
        rows = [Recomputed.of(bound.method, bound.epsilon, found)]
    return rows + ([_frontier(claim)] if claim.frontier else [])


def _frontier(claim: Claim) -> Recomputed:
    """The point of the frontier that is farthest from what the claim allows; the one near 1 in 1,000 if none is."""
    rates, stored = (np.array(column) for column in zip(*claim.frontier, strict=True))
    found = limits(claim, rates)
    apart = np.abs(stored - found)
    worst = int(np.argmax(apart) if apart.any() else np.argmin(np.abs(rates - 1e-3)))
    return Recomputed.of(f"{claim.bound.method}, rates allowed", float(stored[worst]), float(found[worst]))


def _unchecked(evidence: Evidence) -> tuple[str, ...]:
    """What is in the evidence and cannot be recomputed from it."""
    parts = {
        "the counts of the games": evidence.demonstrations,
        "the attacks' rates and curves": evidence.measurements,
        "utility": evidence.utility,
        "what the controls found": evidence.controls,
    }
    return tuple(name for name, held in parts.items() if held)


def _demonstration(item: Demonstration, claim: Claim | None) -> list[Recomputed]:
    bound: Bound = item.bound
    event = None if claim is None else claim.event
    use = estimator(bound.method, delta=bound.delta, adjacency=bound.adjacency, event=event)
    if use is None:
        return [Recomputed.of(bound.method, bound.epsilon, None)]
    rows = [
        Recomputed.of(bound.method, bound.epsilon, use.read(item.counts, bound.confidence)),
        Recomputed.of(f"{bound.method}, attainable", item.attainable, use.attainable(item.counts, bound.confidence)),
    ]
    if item.credible is not None:
        found = credible(item.counts, bound.delta, bound.confidence)
        ends = zip(("from", "to"), item.credible, found, strict=True)
        rows += [Recomputed.of(f"credible, {end}", stored, again) for end, stored, again in ends]
    return rows
