r"""Exact tests of a claim: how likely are counts like these, at the worst rates that the claim allows?

Limits for two rates, each with half of the error, must both fail for a bound to be wrong: rarer than it need be.
Here both counts are judged together. A statistic S rises with the hits and falls with the alarms; the claim is ruled
out when

    sup { P_{p,q}[S >= s] : p <= T(q), q in Q } + gamma <= error,

s being what was seen and Q a confidence interval of q with error gamma (Berger and Boos 1994). S does not depend on
the claim, so claims that allow more are never ruled out sooner (docs/proofs/auditing.md, Theorem 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import Counts, check, clopper_pearson
from .estimators import Estimator, Limits
from .families import Curve, Family
from .frontier import pair_limit
from .search import COARSE, Search

Floats = NDArray[np.float64]
Limit = Callable[[Floats], Floats]
Hits = Callable[[Floats], Floats]
"""At each number of alarms, the fewest hits with S >= s (a real number)."""
CELLS, FINER = 16, 8
NUISANCE = 0.02
"""gamma as a share of the error."""
REACH, OUTSIDE = 8.0, 1e-14
"""Standard deviations (and 50 counts) about the mean that are summed, and more than the mass outside of them."""


def fewest_hits(counts: Counts) -> Hits:
    """S = Phi^-1(hits) - Phi^-1(alarms), as shares: the order of the Gaussian family."""
    share_in, share_out = _shares(counts)
    seen = float(special.ndtri(share_in) - special.ndtri(share_out))
    return lambda alarms: (counts.n_in + 1) * special.ndtr(seen + special.ndtri(_share(alarms, counts.n_out))) - 0.5


def unlikely(limit: Limit, counts: Counts, error: float) -> bool:
    """Whether S >= s has probability at most `error`, gamma included, at all rates that the claim allows.

    On a cell [q_j, q_{j+1}] the probability is at most that at (T(q_{j+1}), q_j), as it rises in p and falls in q. Wide
    cells come first; one that does not settle it is asked for its middle, then looked at more closely.
    """
    low, high = (float(end) for end in clopper_pearson(counts.false_positives, counts.n_out, 1 - NUISANCE * error))
    allowed = (1 - NUISANCE) * error - OUTSIDE
    edges = np.linspace(low, high, CELLS + 1)
    left, right = edges[:-1], edges[1:]
    unsettled = _cells(limit, counts, left, right) > allowed
    if not unsettled.any():
        return True
    left, right = left[unsettled], right[unsettled]
    middle = (left + right) / 2
    if _cells(limit, counts, middle, middle).max() > allowed:
        return False
    inner = np.linspace(left, right, FINER + 1)
    return bool(_cells(limit, counts, inner[:-1].ravel(), inner[1:].ravel()).max() <= allowed)


def _cells(limit: Limit, counts: Counts, left: Floats, right: Floats) -> Floats:
    """At most P[S >= s] on each cell."""
    n = counts.n_out
    p, q = np.minimum(limit(right), 1.0)[:, None], left[:, None]
    reach = REACH * math.sqrt(n * float(right.max()) * (1 - float(left.min()))) + 50
    first, last = max(0, int(n * left.min() - reach)), min(n, int(n * right.max() + reach))
    alarms = np.arange(first, last + 1, dtype=np.float64)
    fewest = np.ceil(fewest_hits(counts)(alarms) - 1e-7)
    weight = np.exp(_log_choose(n, alarms) + special.xlogy(alarms, q) + special.xlog1py(n - alarms, -q))
    return np.asarray((weight * _at_least(fewest, counts.n_in, p)).sum(axis=1))


@dataclass(frozen=True)
class Exact(Estimator):
    """(epsilon, delta) of any mechanism, by the same statistic as the family's, so that one error covers both."""

    delta: float
    method = "exact test"

    def read(self, counts: Counts, confidence: float) -> float:
        low, high = 0.0, 1.0
        if not self.ruled_out(low, counts, confidence):
            return 0.0
        while self.ruled_out(high, counts, confidence):
            low, high = high, 2 * high
        while high - low > COARSE:
            middle = (low + high) / 2
            low, high = (middle, high) if self.ruled_out(middle, counts, confidence) else (low, middle)
        return low

    def ruled_out(self, epsilon: float, counts: Counts, confidence: float) -> bool:
        """Whether (epsilon, delta) is ruled out."""
        return unlikely(lambda q: pair_limit(epsilon, self.delta, q), counts, _error(confidence))


@dataclass(frozen=True)
class ExactCurve(Family):
    """The claimed event's family: its smallest member whose rates do not make such counts too unlikely."""

    method = "exact test, trade-off curve"

    def read(self, counts: Counts, confidence: float) -> float:
        search = Search(self.near(counts, confidence), stride=0.005)
        return self.reading(lambda s: self.ruled_out(s, counts, confidence), search)

    def near(self, counts: Counts, confidence: float) -> float:
        """A factor to start from: what limits say, each at z/sqrt(2) where the joint test is at z."""
        each = float(special.ndtr(special.ndtri(confidence) / math.sqrt(2)))
        limits = Limits.of(counts, max(2 * each - 1, 0.01))
        found = Curve(self.event, self.adjacency, self.delta).factor(limits)
        return found if math.isfinite(found) else 1.0

    def ruled_out(self, factor: float, counts: Counts, confidence: float) -> bool:
        """Whether the member with its noise scaled by `factor` is ruled out."""
        loss = self.loss(factor)

        def limit(fpr: Floats) -> Floats:
            return np.array([loss.tradeoff(float(rate)).upper for rate in fpr])

        return unlikely(limit, counts, _error(confidence))


def _error(confidence: float) -> float:
    return 1 - check.probability("confidence", confidence, zero=False, one=False)


def _share(count: Floats, n: int) -> Floats:
    return np.asarray((count + 0.5) / (n + 1))


def _shares(counts: Counts) -> tuple[float, float]:
    return (counts.true_positives + 0.5) / (counts.n_in + 1), (counts.false_positives + 0.5) / (counts.n_out + 1)


def _at_least(fewest: Floats, n: int, p: Floats) -> Floats:
    """P[Bin(n, p) >= fewest]."""
    inside = special.betainc(np.clip(fewest, 1, n), n - np.clip(fewest, 1, n) + 1, p)
    return np.asarray(np.where(fewest <= 0, 1.0, np.where(fewest > n, 0.0, inside)))


def _log_choose(n: int, k: Floats) -> Floats:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))
