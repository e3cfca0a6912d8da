r"""Exact tests of a claim: how likely are counts like these, at the worst rates that the claim allows?

Limits for two rates, each with half of the error, must both fail for a bound to be wrong: rarer than it need be.
Here both counts are judged together. A statistic S rises with the hits and falls with the alarms; the claim is ruled
out when

    sup { P_{p,q}[S >= s] : p <= T(q), q in Q } + gamma <= error,

s being what was seen and Q a confidence interval of q with error gamma (Berger and Boos 1994). S does not depend on
the claim, so claims that allow more are never ruled out sooner. A claim must fall by every outcome with fewer alarms,
too, so that better guesses never show less (docs/proofs/auditing.md, Theorem 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from ...core import Counts, check, lower_proportion, upper_proportion
from .estimators import Estimator, Limits
from .families import Curve, Family
from .frontier import pair_limit
from .search import Search, largest

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Limit = Callable[[Floats], Floats]
CELLS, FINER = 16, 8
NUISANCE = 0.02
"""gamma as a share of the error."""
REACH, OUTSIDE = 8.0, 1e-14
"""Standard deviations (and 50 counts) about the mean that are summed, and more than the mass outside of them."""


def unlikely(limit: Limit, counts: Counts, error: float) -> bool:
    """Whether S >= s has probability at most `error`, gamma included, at all rates that the claim allows.

    A rate q below the interval Q of the alarms seen lies in that of fewer alarms. There s is what the most such alarms
    would have given, so that the test covers all outcomes with fewer alarms. On a cell [q_j, q_{j+1}] the probability
    is at most that at (T(q_{j+1}), q_j), as it rises in p and falls in q. Wide cells come first; one that does not
    settle it is asked for its middle, then looked at more closely.
    """
    test = _Test(limit, counts, NUISANCE * error / 2, order(counts.n_in, counts.n_out, error))
    allowed = (1 - NUISANCE) * error - OUTSIDE
    edges = test.edges()
    left, right = edges[:-1], edges[1:]
    unsettled = test.most(left, right) > allowed
    if not unsettled.any():
        return True
    left, right = left[unsettled], right[unsettled]
    middle = (left + right) / 2
    if test.most(middle, middle).max() > allowed:
        return False
    inner = np.linspace(left, right, FINER + 1)
    return bool(test.most(inner[:-1].ravel(), inner[1:].ravel()).max() <= allowed)


@dataclass(frozen=True, eq=False)
class _Test:
    """P[S >= s] at the rates that a claim allows; `tail` is the error of Q on each side."""

    limit: Limit
    counts: Counts
    tail: float
    order: Order

    def edges(self) -> Floats:
        """Cells of Q, and below it cells that grow as they matter less, down to 0."""
        alarms, n = self.counts.false_positives, self.counts.n_out
        step, fewer = max(1, math.isqrt(alarms) // 3), [alarms]
        while fewer[-1] > 0:
            fewer, step = [*fewer, max(fewer[-1] - step, fewer[-1] // 2)], 2 * step
        below = lower_proportion(fewer[::-1], n, 1 - self.tail)
        inside = np.linspace(below[-1], float(upper_proportion(alarms, n, 1 - self.tail)), CELLS + 1)
        return np.concatenate((below[:-1], inside))

    def most(self, left: Floats, right: Floats) -> Floats:
        """At most P[S >= s] on each cell, summed over the alarms that are likely at its left end."""
        n, n_in = self.counts.n_out, self.counts.n_in
        p, q = np.minimum(self.limit(right), 1.0)[:, None], left[:, None]
        reach = math.ceil(REACH * math.sqrt(n * float((left * (1 - left)).max())) + 50)
        alarms = np.floor(n * q).astype(np.int64) + np.arange(-reach, reach + 1)
        inside = (alarms >= 0) & (alarms <= n)
        alarms = np.clip(alarms, 0, n)
        fewest = self.order.fewest_hits(self.seen(right)[:, None], alarms)
        weight = np.exp(_log_choose(n, alarms) + special.xlogy(alarms, q) + special.xlog1py(n - alarms, -q))
        return np.asarray((np.where(inside, weight, 0.0) * _at_least(fewest, n_in, p)).sum(axis=1))

    def seen(self, rate: Floats) -> Floats:
        """s: what was seen, or what the most alarms would have given whose interval Q still holds `rate`."""
        most = np.asarray(stats.binom.isf(self.tail * (1 - 1e-9), self.counts.n_out, rate)).astype(np.int64)
        alarms = np.minimum(most, self.counts.false_positives)
        return self.order(np.full(alarms.shape, self.counts.true_positives), alarms)


@dataclass(frozen=True, eq=False)
class Order:
    r"""S = z_h - z_a - sqrt(d_h^2 + d_a^2): how far apart the shares of hits and alarms certainly are.

    z are normal quantiles of the shares (half a count added), d their distances to the one-sided limits; together they
    make limits of a difference (Zou and Donner 2008). S rises in the hits and falls in the alarms, as each d grows no
    faster than its z.
    """

    hits: Side
    alarms: Side

    def __call__(self, hits: Whole, alarms: Whole) -> Floats:
        apart = self.hits.quantile[hits] - self.alarms.quantile[alarms]
        return np.asarray(apart - np.hypot(self.hits.reach[hits], self.alarms.reach[alarms]))

    def fewest_hits(self, least: Floats, alarms: Whole) -> Whole:
        """The fewest hits with S >= least at each number of alarms; one more than there are runs when none will do."""
        n = self.hits.quantile.size - 1
        low, high = np.zeros(alarms.shape, dtype=np.int64), np.full(alarms.shape, n + 1)
        for _ in range(n.bit_length() + 1):
            middle = (low + high) // 2
            enough = self(np.minimum(middle, n), alarms) >= least - 1e-9
            low, high = np.where(enough | (low == high), low, middle + 1), np.where(enough, middle, high)
        return high


@dataclass(frozen=True, eq=False)
class Side:
    """Normal quantiles of the shares 0/n, ..., n/n, and how far from them their limits lie."""

    quantile: Floats
    reach: Floats

    @classmethod
    def of(cls, n: int, limit: Callable[[Whole, int], Floats]) -> Side:
        count = np.arange(n + 1)
        quantile = special.ndtri((count + 0.5) / (n + 1))
        return cls(quantile, np.abs(quantile - special.ndtri(limit(count, n))))


@lru_cache(maxsize=16)
def order(n_in: int, n_out: int, error: float) -> Order:
    """The order of outcomes of so many runs, whose limits have the error of the test."""
    low, high = partial(lower_proportion, confidence=1 - error), partial(upper_proportion, confidence=1 - error)
    return Order(Side.of(n_in, low), Side.of(n_out, high))


@dataclass(frozen=True)
class Exact(Estimator):
    """Exact test of (epsilon, delta) for any mechanism, by the statistic of `ExactCurve`: one error covers both."""

    delta: float
    method = "exact test"

    def read(self, counts: Counts, confidence: float) -> float:
        return largest(lambda epsilon: self.ruled_out(epsilon, counts, confidence))

    def ruled_out(self, epsilon: float, counts: Counts, confidence: float) -> bool:
        """Whether (epsilon, delta) is ruled out."""
        return unlikely(lambda q: pair_limit(epsilon, self.delta, q), counts, _error(confidence))


@dataclass(frozen=True)
class ExactCurve(Family):
    """Exact test within the claimed event's family: the smallest member under which the counts are not too unlikely."""

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


def _at_least(fewest: Whole, n: int, p: Floats) -> Floats:
    """P[Bin(n, p) >= fewest]."""
    inside = special.betainc(np.clip(fewest, 1, n), n - np.clip(fewest, 1, n) + 1, p)
    return np.asarray(np.where(fewest <= 0, 1.0, np.where(fewest > n, 0.0, inside)))


def _log_choose(n: int, k: Whole) -> Floats:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))
