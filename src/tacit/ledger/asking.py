"""What a charge asks for and what is left for its kind, in epsilon: the two numbers of a refusal."""

from __future__ import annotations

import math
from functools import lru_cache

from ..core.adjacency import Adjacency
from ..core.errors import BadInput, Unsupported
from ..core.event import Event, rescaled
from ..loss.dispatch import privacy_loss
from .amounts import Amount, Amounts, added, exact, limit, plain
from .costs import costs
from .criteria import STATED, SUM, Criterion, accepts
from .state import Terms

Limits = list[tuple[tuple[Criterion, ...], Amounts]]


@lru_cache(maxsize=256)
def fits_alone(event: Event, adjacency: Adjacency, group: int, terms: Terms) -> bool:
    """Whether the event alone, by its exact loss, keeps the budget: then it may be the first and only charge.

    Where a criterion accepts it, nobody needs to know.
    """
    own = costs(event, adjacency, group, terms.criteria)
    if accepts(terms.criteria, own):
        return False
    if _adds_up(own[SUM], terms.epsilon) and _adds_up(own[STATED], terms.delta):
        return True
    loss = privacy_loss(event, adjacency, group=group)
    try:  # each is proven: calibration goes by epsilon, and delta at a given epsilon may be a little farther off
        return loss.delta(terms.epsilon).upper <= terms.delta or loss.epsilon(terms.delta).upper <= terms.epsilon
    except BadInput:  # a loss larger than numbers can hold
        return False


def _adds_up(total: Amount, most: float) -> bool:
    """Whether stated numbers add up to at most `most`, all as they are written (basic composition)."""
    return total is not None and total <= limit(exact(most))


def asked(event: Event, adjacency: Adjacency, group: int, terms: Terms) -> float:
    """The event's epsilon: its pure one where it is pure, else that at the ledger's delta."""
    pure = costs(event, adjacency, group, terms.criteria)[SUM]
    if pure is not None:
        return plain(pure)
    try:
        return privacy_loss(event, adjacency, group=group).epsilon(terms.delta).upper
    except (BadInput, Unsupported):
        return math.inf


def room(event: Event, adjacency: Adjacency, group: int, terms: Terms, limits: Limits, pure_left: float) -> float:
    """What is left for releases like this one: the pure epsilon, or that of the same event with just enough noise."""
    if costs(event, adjacency, group, terms.criteria)[SUM] is not None:
        return pure_left
    low, high = 0.0, math.log(1e4)
    if rescaled(event, 2.0) == event or not _accepted(rescaled(event, math.exp(high)), adjacency, group, terms, limits):
        return 0.0
    for _ in range(12):
        middle = (low + high) / 2
        fits = _accepted(rescaled(event, math.exp(middle)), adjacency, group, terms, limits)
        low, high = (low, middle) if fits else (middle, high)
    return asked(rescaled(event, math.exp(high)), adjacency, group, terms)


def stated_left(cost: Amounts, limits: Limits) -> tuple[float, float] | None:
    """The delta that the charge states and what is left for such deltas, where that is too little."""
    for criteria, totals in limits:
        own = next(item for item in criteria if item.name == STATED)
        if not own.holds(added(totals, cost)):
            return plain(cost[STATED]), plain(max(own.left(totals), 0))
    return None


def _accepted(event: Event, adjacency: Adjacency, group: int, terms: Terms, limits: Limits) -> bool:
    cost = costs(event, adjacency, group, terms.criteria)
    return all(accepts(criteria, added(totals, cost)) for criteria, totals in limits)
