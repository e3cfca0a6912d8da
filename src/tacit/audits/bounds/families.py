"""Epsilon inside a family: the claimed event with its noise scaled until it fits what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from scipy import special

from ...core import Adjacency, Event, PrivacyLoss
from ...core.events import family, rescaled
from ...loss import privacy_loss
from .estimators import Estimator, Limits, LimitsEstimator
from .search import Search, Secant

ENOUGH = 30.0
"""No audit needs to tell larger epsilons apart: the search for less noise ends there."""

Test = Callable[[float], bool]


@dataclass(frozen=True)
class Family(Estimator):
    r"""The claimed event's family: E_s is the event with every noise multiplier times s; its epsilon falls in s.

    A test rules a member out when what was seen is too good for it. All members with more noise are then ruled out
    too, so epsilon at the smallest s found is a lower bound; it exceeds the claim exactly when s = 1 is ruled out.
    Past epsilon 30 the search ends: what is reported is then smaller than it could be, and still true.

    Reference: docs/proofs/auditing.md, Theorem 2.
    """

    event: Event
    adjacency: Adjacency
    delta: float

    @property
    def assumes(self) -> str:
        return family(self.event)

    def loss(self, factor: float) -> PrivacyLoss:
        """The privacy loss of the member with its noise scaled by `factor`."""
        return member(self.event, factor, self.adjacency)

    def reading(self, too_good: Test, search: Search) -> float:
        """Epsilon of the smallest factor found that is ruled out; how it is searched for cannot make it wrong."""
        factor = self.smallest(too_good, search)
        if math.isinf(factor):
            return 0.0
        found, claimed = self.loss(factor).epsilon(self.delta).lower, self.loss(1.0).epsilon(self.delta).upper
        # the claim itself is asked last, so that rounding in the search cannot decide about it
        return max(found, math.nextafter(claimed, math.inf)) if too_good(1.0) else min(found, claimed)

    def smallest(self, too_good: Test, search: Search) -> float:
        """The smallest factor found that is ruled out; infinite when none is."""
        if rescaled(self.event, 2.0) == self.event:  # no noise to scale: the family has one member
            return 1.0 if too_good(1.0) else math.inf
        while not search.done:
            factor = search.factor
            search.note(too_good(factor))
            if search.shut == factor and self.loss(factor).epsilon(self.delta).lower > ENOUGH:
                break
        return search.shut


@dataclass(frozen=True)
class Curve(Family, LimitsEstimator):
    r"""The member whose trade-off curve passes through the limits.

    T_s(fpr) is the largest true-positive rate under E_s; it falls in s. On (*), tpr <= TPR <= T_s(FPR) <= T_s(fpr) for
    the true s, so every s with T_s(fpr) < tpr is ruled out. Certified upper ends decide what is ruled out, lower ends
    what is reported.

    Reference: docs/proofs/auditing.md, Theorem 2; Nasr et al. 2023, section 4, for the Gaussian family.
    """

    method = "trade-off curve"

    def epsilon(self, limits: Limits) -> float:
        if limits.tpr <= limits.fpr:
            return 0.0
        return self.reading(lambda s: self.violated(s, limits), Secant(lambda s: self._excess(s, limits)))

    def factor(self, limits: Limits) -> float:
        """The smallest factor ruled out, infinite when none is."""
        if limits.tpr <= limits.fpr:
            return math.inf
        return self.smallest(lambda s: self.violated(s, limits), Secant(lambda s: self._excess(s, limits)))

    def violated(self, factor: float, limits: Limits) -> bool:
        """Whether the limits lie above the certified curve of that member."""
        return self.loss(factor).tradeoff(limits.fpr).upper < limits.tpr

    def _excess(self, factor: float, limits: Limits) -> float:
        """log of the member's normal reading over the limits': 0 at the root, falling about as fast as log(factor)."""
        allowed = min(self.loss(factor).tradeoff(limits.fpr).upper, 1 - 1e-16)
        low, mine, wanted = special.ndtri([limits.fpr, allowed, limits.tpr])
        return math.log(max(mine - low, 1e-300) / (wanted - low))


@lru_cache(maxsize=512)
def member(event: Event, factor: float, adjacency: Adjacency) -> PrivacyLoss:
    """The privacy loss of an event with its noise scaled; kept, as searches come back to the same factors."""
    return privacy_loss(event if factor == 1.0 else rescaled(event, factor), adjacency)
