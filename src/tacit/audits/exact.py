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
CELLS = 128
NUISANCE = 0.02
"""gamma as a share of the error."""
REACH = 10.0
"""Standard deviations about the mean that are summed; the mass outside is below 1e-20."""


def fewest_hits(counts: Counts) -> Hits:
    """S = Phi^-1(hits) - Phi^-1(alarms), as shares: the order of the Gaussian family."""
    share_in, share_out = _shares(counts)
    seen = float(special.ndtri(share_in) - special.ndtri(share_out))
    return lambda alarms: (counts.n_in + 1) * special.ndtr(seen + special.ndtri(_share(alarms, counts.n_out))) - 0.5


def chance(limit: Limit, counts: Counts, error: float) -> float:
    """At least the largest probability of S >= s under rates that the claim allows, gamma included.

    On a cell [q_j, q_{j+1}] the probability is at most that at (T(q_{j+1}), q_j), as it rises in p and falls in q.
    """
    low, high = (float(end) for end in clopper_pearson(counts.false_positives, counts.n_out, 1 - NUISANCE * error))
    edges = np.linspace(low, high, CELLS + 1)
    p, q = np.minimum(limit(edges[1:]), 1.0)[:, None], edges[:-1, None]
    n = counts.n_out
    reach = REACH * np.sqrt(n * high * (1 - low)) + 50
    alarms = np.arange(max(0, int(n * low - reach)), min(n, int(n * high + reach)) + 1, dtype=np.float64)
    fewest = np.ceil(fewest_hits(counts)(alarms) - 1e-7)
    weight = np.exp(_log_choose(n, alarms) + special.xlogy(alarms, q) + special.xlog1py(n - alarms, -q))
    return float((weight * _at_least(fewest, counts.n_in, p)).sum(axis=1).max()) + NUISANCE * error + 1e-15


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
        error = _error(confidence)
        return chance(lambda q: pair_limit(epsilon, self.delta, q), counts, error) <= error


@dataclass(frozen=True)
class ExactCurve(Family):
    """The claimed event's family: its smallest member whose rates do not make such counts too unlikely."""

    method = "exact test, trade-off curve"

    def read(self, counts: Counts, confidence: float) -> float:
        near = Curve(self.event, self.adjacency, self.delta).factor(_near(counts, confidence))
        search = Search(near, stride=0.005) if math.isfinite(near) else Search()
        return self.reading(lambda s: self.ruled_out(s, counts, confidence), search)

    def ruled_out(self, factor: float, counts: Counts, confidence: float) -> bool:
        """Whether the member with its noise scaled by `factor` is ruled out."""
        error, loss = _error(confidence), self.loss(factor)

        def limit(fpr: Floats) -> Floats:
            return np.array([loss.tradeoff(float(rate)).upper for rate in fpr])

        return chance(limit, counts, error) <= error


def _near(counts: Counts, confidence: float) -> Limits:
    """Limits whose reading is close to the exact one: each at z/sqrt(2) where the joint test is at z."""
    each = float(special.ndtr(special.ndtri(confidence) / math.sqrt(2)))
    return Limits.of(counts, max(2 * each - 1, 0.01))


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
