"""The charges so far as one epsilon: a reading for people. No decision of the ledger uses it."""

from __future__ import annotations

import math

from .amounts import Amounts, plain
from .criteria import STATED, SUM, Criterion, gaussian_delta, renyi_limit
from .state import State, Terms


def so_far(state: State, terms: Terms) -> float:
    """The epsilon, at the ledger's delta, of the charges so far, if all of them had been fixed beforehand."""
    if not state.charges:
        return 0.0
    most = terms.epsilon if terms.planned_epsilon is None else terms.planned_epsilon
    return min(reached(terms.criteria, state.totals, terms.delta), most)


def reached(found: tuple[Criterion, ...], totals: Amounts, delta: float) -> float:
    """The smallest epsilon that some criterion gives for these sums, with all of delta that no event states.

    That is an upper end for events that were fixed beforehand. For events that were chosen by looking at earlier
    answers it is no bound: then several criteria cannot each have all of delta (soundness rule 2).
    """
    left = delta - plain(totals[STATED])
    ends = [_epsilon(item, plain(totals[item.name]), left) for item in found if item.name != STATED]
    return min(ends, default=math.inf)


def _epsilon(item: Criterion, total: float, delta: float) -> float:
    if item.name == SUM or total == 0:
        return total
    if not delta > 0 or math.isinf(total):
        return math.inf
    if item.tilt is not None:
        return max(total - renyi_limit(0.0, delta, item.tilt), 0.0)
    low, high = 0.0, total / 2 + math.sqrt(2 * total * max(-math.log(delta), 0.0))  # mu^2/2 + mu sqrt(2 log(1/delta))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, math.sqrt(total)) <= delta else (middle, high)
    return high
