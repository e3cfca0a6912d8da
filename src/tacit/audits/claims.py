"""What somebody claims, in one form: an (epsilon, delta) pair, an event, or a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import Adjacency, BadInput, Bound, Claim, Event, Mismatch, Side, check
from ..loss import Plan, privacy_loss
from ..loss.conditions import upper_bound
from .bounds.frontier import pair_limit

Stated = tuple[float, float] | Event | Plan | Claim
STATED = "stated"
"""The method of a claim that is a bare pair."""
RATES = (0.0, *np.logspace(-6, 0, 49).tolist())


def stated(claim: Stated, *, delta: float, adjacency: Adjacency | str | None = None) -> Claim:
    """A Claim from a pair (which brings its delta), an event or a plan (read at `delta`).

    A plan brings its adjacency; for the others None means add-remove.
    """
    if isinstance(claim, Claim):
        return _agreeing(claim, adjacency)
    if isinstance(claim, Plan):
        bound, event = claim.bound(check.delta(delta)), claim.event
        return _agreeing(with_frontier(Claim(bound, event)), adjacency)
    chosen = Adjacency.ADD_REMOVE if adjacency is None else Adjacency.of(adjacency)
    if isinstance(claim, Event):
        epsilon = privacy_loss(claim, chosen).epsilon(check.delta(delta)).upper
        bound = upper_bound(epsilon, delta, claim, chosen, method="privacy accounting")
        return with_frontier(Claim(bound, claim))
    return pair(claim, chosen)


def pair(claim: tuple[float, float], adjacency: Adjacency) -> Claim:
    """(epsilon, delta), of any mechanism."""
    if not isinstance(claim, tuple | list) or len(claim) != 2:
        raise BadInput("A claim is (epsilon, delta), an event or a plan.")
    bound = Bound(claim[0], claim[1], Side.UPPER, 1.0, STATED, adjacency)
    return with_frontier(Claim(bound))


def limits(claim: Claim, rates: ArrayLike) -> NDArray[np.float64]:
    """The largest true-positive rates that a claim allows at false-positive rates."""
    if claim.event is None:
        return pair_limit(claim.bound.epsilon, claim.bound.delta, rates)
    loss = privacy_loss(claim.event, claim.bound.adjacency)
    return np.array([loss.tradeoff(float(fpr)).upper for fpr in np.asarray(rates)])


def with_frontier(claim: Claim) -> Claim:
    """Add to a claim the true-positive rates that it allows."""
    return replace(claim, frontier=tuple(zip(RATES, limits(claim, RATES).tolist(), strict=True)))


def _agreeing(claim: Claim, adjacency: Adjacency | str | None) -> Claim:
    if adjacency is not None and Adjacency.of(adjacency) is not claim.bound.adjacency:
        raise Mismatch(
            f"The claim is under {claim.bound.adjacency} adjacency and the game under {Adjacency.of(adjacency)}."
        )
    return claim
