"""Epsilon inside a family: the claimed event with its noise scaled until it fits what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from scipy import special

from ..core import Adjacency, Event, PrivacyLoss
from ..core.events import family, rescaled
from ..loss import privacy_loss
from .estimators import Estimator, Limits, LimitsEstimator

CLOSE = 1e-5
"""Relative width to which the rescaling factor is found; the side that is ruled out is reported."""
WIDEST = 2.0**12
"""The largest factor by which a family's noise is rescaled, either way."""
LONGEST = math.log(2.0)
"""One step of the search; small steps keep away from members with next to no noise, which are costly to account."""
ENOUGH = 30.0
"""No audit needs to tell larger epsilons apart: the search for less noise ends there."""

Test = Callable[[float], bool]
Excess = Callable[[float], float]


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

    def reading(self, too_good: Test, excess: Excess | None = None, close: float = CLOSE) -> float:
        """Epsilon of the smallest factor found that is ruled out; `excess` speeds the search up, no more."""
        factor = self._ruled_out(too_good, excess, close)
        if math.isinf(factor):
            return 0.0
        found = self.loss(factor).epsilon(self.delta).lower
        if factor > 1.0 or not too_good(1.0):
            return found
        return max(found, math.nextafter(self.loss(1.0).epsilon(self.delta).upper, math.inf))

    def _ruled_out(self, too_good: Test, excess: Excess | None, close: float) -> float:
        if rescaled(self.event, 2.0) == self.event:  # no noise to scale: the family has one member
            return 1.0 if too_good(1.0) else math.inf
        search = _Search(close)
        while not search.done:
            factor = search.factor
            search.note(too_good(factor), None if excess is None else excess(factor))
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
        return self.reading(lambda s: self.violated(s, limits), lambda s: self._excess(s, limits))

    def violated(self, factor: float, limits: Limits) -> bool:
        """Whether the limits lie above the certified curve of that member."""
        return self.loss(factor).tradeoff(limits.fpr).upper < limits.tpr

    def _excess(self, factor: float, limits: Limits) -> float:
        """log of the member's normal reading over the limits': 0 at the root, falling about as fast as log(factor)."""
        allowed = min(self.loss(factor).tradeoff(limits.fpr).upper, 1 - 1e-16)
        low, mine, wanted = special.ndtri([limits.fpr, allowed, limits.tpr])
        return math.log(max(mine - low, 1e-300) / (wanted - low))


@dataclass
class _Search:
    """A safeguarded secant in log(factor): `open` is the largest factor not ruled out, `shut` the smallest that is."""

    close: float
    factor: float = 1.0
    open: float = 0.0
    shut: float = math.inf
    last: tuple[float, float] | None = None

    @property
    def done(self) -> bool:
        return self.shut <= self.open * (1 + self.close) or self.open >= WIDEST or self.shut <= 1 / WIDEST

    def note(self, ruled_out: bool, excess: float | None) -> None:
        """Take in what one factor showed and propose the next: just past the root, to close the bracket from there."""
        here = math.log(self.factor)
        if ruled_out:
            self.shut = min(self.shut, self.factor)
        else:
            self.open = max(self.open, self.factor)
        if excess is None:
            self.factor = self._inside(0.0)
            return
        slope = -1.0
        if self.last is not None and here != self.last[0]:
            slope = min(max((excess - self.last[1]) / (here - self.last[0]), -4.0), -0.25)
        self.last = (here, excess)
        step = -excess / slope + (-self.close / 3 if ruled_out else self.close / 3)
        self.factor = self._inside(self.factor * math.exp(min(max(step, -LONGEST), LONGEST)))

    def _inside(self, factor: float) -> float:
        """The proposal, or the middle of the bracket when it lies outside."""
        if self.open < factor < self.shut:
            return factor
        if self.open == 0.0:
            return self.shut / 2
        return self.open * 2 if math.isinf(self.shut) else math.sqrt(self.open * self.shut)


@lru_cache(maxsize=512)
def member(event: Event, factor: float, adjacency: Adjacency) -> PrivacyLoss:
    """The privacy loss of an event with its noise scaled; kept, as searches come back to the same factors."""
    return privacy_loss(event if factor == 1.0 else rescaled(event, factor), adjacency)
