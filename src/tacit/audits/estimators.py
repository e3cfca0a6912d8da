r"""From counts to epsilon. Every estimator here reads the same two limits, so that one joint event pays for all.

A fixed threshold turns runs into counts: `true_positives` of `n_in` runs with the record, `false_positives` of `n_out`
without. Clopper and Pearson limits, each with half of the error, hold together with the stated confidence:

    TPR >= tpr  and  FPR <= fpr.                                                                            (*)

Everything below is a deterministic consequence of (*), so reading several bounds from it costs no further error.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..core import Adjacency, Counts, Event, PrivacyLoss, check, lower_proportion, upper_proportion
from ..core.events import family, rescaled
from ..loss import privacy_loss

Floats = NDArray[np.float64]
CLOSE = 1e-5
"""Relative width to which the rescaling factor is found; the side that is ruled out is reported."""
WIDEST = 2.0**12
"""The largest factor by which a family's noise is rescaled, either way."""
LONGEST = math.log(2.0)
"""One step of the search; small steps keep away from members with next to no noise, which are costly to account."""
ENOUGH = 30.0
"""No audit needs to tell larger epsilons apart: the search for less noise ends there."""


@dataclass(frozen=True)
class Limits:
    """A lower limit of the true-positive rate and an upper limit of the false-positive rate that hold together."""

    tpr: float
    fpr: float

    @classmethod
    def of(cls, counts: Counts, confidence: float) -> Limits:
        tpr, fpr = both_limits(counts.true_positives, counts.false_positives, counts.n_in, counts.n_out, confidence)
        return cls(float(tpr), float(fpr))


def both_limits(
    true_positives: ArrayLike, false_positives: ArrayLike, n_in: int, n_out: int, confidence: float
) -> tuple[Floats, Floats]:
    """The limits of (*), for one or many counts."""
    check.probability("confidence", confidence, zero=False, one=False)
    each = (1 + confidence) / 2
    return lower_proportion(true_positives, n_in, each), upper_proportion(false_positives, n_out, each)


def ratio_epsilon(tpr: ArrayLike, fpr: ArrayLike, delta: float) -> Floats:
    r"""max(ln((TPR - delta) / FPR), ln((1 - FPR - delta) / (1 - TPR)), 0): both directions of the definition.

    Reference: Kairouz, Oh and Viswanath 2015, Theorem 2.1 (the region of (epsilon, delta)-DP tests).
    """
    tpr, fpr = np.asarray(tpr, float), np.asarray(fpr, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        forward = np.log(np.maximum(tpr - delta, 0.0)) - np.log(fpr)
        backward = np.log(np.maximum(1 - fpr - delta, 0.0)) - np.log1p(-tpr)
    return np.asarray(np.maximum(np.fmax(forward, backward), 0.0))


class Estimator(ABC):
    """A way to read epsilon at `delta` from limits."""

    method: str
    delta: float

    @abstractmethod
    def epsilon(self, limits: Limits) -> float:
        """The largest epsilon that the limits rule out from below."""

    @property
    def assumes(self) -> str | None:
        """The family of mechanisms the reading stays in; None when it is true of any mechanism."""
        return None

    def read(self, counts: Counts, confidence: float) -> float:
        """Epsilon from counts."""
        return self.epsilon(Limits.of(counts, confidence))

    def attainable(self, counts: Counts, confidence: float) -> float:
        """What it would have said, had every guess been right."""
        return self.read(Counts(counts.n_in, 0, counts.n_in, counts.n_out), confidence)


@dataclass(frozen=True)
class ClopperPearson(Estimator):
    """(epsilon, delta) of any mechanism at all (Jagielski et al. 2020, section 3; Tramer et al. 2022)."""

    delta: float
    method = "clopper-pearson"

    def epsilon(self, limits: Limits) -> float:
        return float(ratio_epsilon(limits.tpr, limits.fpr, self.delta))


@dataclass(frozen=True)
class Curve(Estimator):
    r"""Epsilon of the member of the claimed event's family whose trade-off curve passes through the limits.

    T_s(fpr) is the largest true-positive rate under the event with its noise scaled by s; it falls in s. On (*),
    tpr <= TPR <= T_s(FPR) <= T_s(fpr) for the true s, so every s with T_s(fpr) < tpr is ruled out, and so is every
    larger one. The bound is epsilon at the smallest s ruled out; it exceeds the claim exactly when the claimed curve
    itself (s = 1) is violated. Certified upper ends decide what is ruled out, lower ends what is reported.
    Past epsilon 30 the search ends: what is reported is then smaller than it could be, and still true.

    Reference: docs/proofs/auditing.md, Theorem 2; Nasr et al. 2023, section 4, for the Gaussian family.
    """

    event: Event
    adjacency: Adjacency
    delta: float
    method = "trade-off curve"

    @property
    def assumes(self) -> str:
        return family(self.event)

    def epsilon(self, limits: Limits) -> float:
        factor = self.ruled_out(limits)
        if math.isinf(factor):
            return 0.0
        found = self.loss(factor).epsilon(self.delta).lower
        if not self.violated(1.0, limits):
            return found
        return max(found, math.nextafter(self.loss(1.0).epsilon(self.delta).upper, math.inf))

    def loss(self, factor: float) -> PrivacyLoss:
        """The privacy loss of the member with its noise scaled by `factor`."""
        return _member(self.event, factor, self.adjacency)

    def violated(self, factor: float, limits: Limits) -> bool:
        """Whether the limits lie above the certified curve of that member."""
        return self.loss(factor).tradeoff(limits.fpr).upper < limits.tpr

    def ruled_out(self, limits: Limits) -> float:
        """The smallest factor found that is ruled out, within `CLOSE` of the root; infinite when none is."""
        if limits.tpr <= limits.fpr:
            return math.inf
        if rescaled(self.event, 2.0) == self.event:  # no noise to scale: the family has one member
            return 1.0 if self.violated(1.0, limits) else math.inf
        search = _Search()
        while not search.done:
            factor = search.factor
            search.note(self.violated(factor, limits), self._excess(factor, limits))
            if search.shut == factor and self.loss(factor).epsilon(self.delta).lower > ENOUGH:
                break
        return search.shut

    def _excess(self, factor: float, limits: Limits) -> float:
        """log of the member's normal reading over the limits': 0 at the root, falling about as fast as log(factor)."""
        allowed = min(self.loss(factor).tradeoff(limits.fpr).upper, 1 - 1e-16)
        low, mine, wanted = special.ndtri([limits.fpr, allowed, limits.tpr])
        return math.log(max(mine - low, 1e-300) / (wanted - low))


@dataclass
class _Search:
    """A safeguarded secant in log(factor): `open` is the largest factor not ruled out, `shut` the smallest that is."""

    factor: float = 1.0
    open: float = 0.0
    shut: float = math.inf
    last: tuple[float, float] | None = None

    @property
    def done(self) -> bool:
        return self.shut <= self.open * (1 + CLOSE) or self.open >= WIDEST or self.shut <= 1 / WIDEST

    def note(self, ruled_out: bool, excess: float) -> None:
        """Take in what one factor showed and propose the next: just past the root, to close the bracket from there."""
        here = math.log(self.factor)
        if ruled_out:
            self.shut = min(self.shut, self.factor)
        else:
            self.open = max(self.open, self.factor)
        slope = -1.0
        if self.last is not None and here != self.last[0]:
            slope = min(max((excess - self.last[1]) / (here - self.last[0]), -4.0), -0.25)
        self.last = (here, excess)
        step = -excess / slope + (-CLOSE / 3 if ruled_out else CLOSE / 3)
        self.factor = self._inside(self.factor * math.exp(min(max(step, -LONGEST), LONGEST)))

    def _inside(self, factor: float) -> float:
        """The proposal, or the middle of the bracket when it lies outside."""
        if self.open < factor < self.shut:
            return factor
        if self.open == 0.0:
            return self.shut / 2
        return self.open * 2 if math.isinf(self.shut) else math.sqrt(self.open * self.shut)


@lru_cache(maxsize=512)
def _member(event: Event, factor: float, adjacency: Adjacency) -> PrivacyLoss:
    return privacy_loss(event if factor == 1.0 else rescaled(event, factor), adjacency)


def estimator(method: str, *, delta: float, adjacency: Adjacency, event: Event | None) -> Estimator | None:
    """The estimator of a stored bound, by its method's name; None when it is not one of these."""
    if method == ClopperPearson.method:
        return ClopperPearson(delta)
    if method == Curve.method and event is not None:
        return Curve(event, adjacency, delta)
    return None
