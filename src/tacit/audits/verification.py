"""Recompute every bound of some evidence from the events and counts stored in it; no data is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core import Bound, Claim, Demonstration, Evidence
from ..loss import privacy_loss
from .claims import STATED
from .methods import estimator

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
    """Whether every bound follows from what is stored with it."""

    ok: bool
    bounds: tuple[Recomputed, ...]


def verify(evidence: Evidence) -> Verification:
    """Recompute the claim from its event, each lower bound from its counts, and what each could have shown at most."""
    rows = [] if evidence.claim is None else [_claim(evidence.claim)]
    for item in evidence.demonstrations:
        rows += _demonstration(item, evidence.claim)
    return Verification(all(row.equal for row in rows), tuple(rows))


def _claim(claim: Claim) -> Recomputed:
    bound = claim.bound
    if claim.event is None:
        return Recomputed.of(bound.method, bound.epsilon, None)
    found = privacy_loss(claim.event, bound.adjacency).epsilon(bound.delta).upper
    return Recomputed.of(bound.method, bound.epsilon, found)


def _demonstration(item: Demonstration, claim: Claim | None) -> list[Recomputed]:
    bound: Bound = item.bound
    event = None if claim is None else claim.event
    use = estimator(bound.method, delta=bound.delta, adjacency=bound.adjacency, event=event)
    if use is None:
        return [Recomputed.of(bound.method, bound.epsilon, None)]
    return [
        Recomputed.of(bound.method, bound.epsilon, use.read(item.counts, bound.confidence)),
        Recomputed.of(f"{bound.method}, attainable", item.attainable, use.attainable(item.counts, bound.confidence)),
    ]
