r"""Random allocation, k of t, of a release with two outcomes: exact, both ends.

Let a release show "high" or "low" with ratios r_1 > r_0 of P to Q, or, rarely, an outcome that only P or only Q has.
The pair of the whole is the mean over all k-subsets S of prod_{i in S} P_i prod_{i not in S} Q_i against Q^t, whatever
the mechanism (docs/proofs/accounting.md, Theorem 5). With j high outcomes, m that only Q has and none that only P has,

    R(j, m) = sum_i C(j, i) C(t - j - m, k - i)/C(t, k) r_1^i r_0^{k - i},

and the counts are multinomial under Q^t. Whoever shows an outcome that only P has tells all: 1 - (1 - p)^k.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp

from .computed import Bracketed, Tabulated
from .noise import EPS, Array
from .pairs import Discrete, Pair

MOST = 4_000_000
"""Terms of all sums together."""
FEW = 6
"""Outcomes that only Q has are counted up to this number, or to t where they are likely and t is small."""
NEGLIGIBLE = 1e-40
LEAST = 1e-300
"""Instead of a mass that numbers do not hold: of P from above, of Q from below."""


@lru_cache(maxsize=64)
def allocated_exactly(pair: Pair, times: int, steps: int) -> Bracketed | None:
    """The pair of k of t releases; None where the release has other outcomes, or the sums are too long."""
    if not isinstance(pair, Discrete):
        return None
    finite = sorted((p / q, p, q) for p, q in pair.atoms if p > 0 and q > 0)
    if len(finite) != 2:
        return None
    only_p, only_q = (math.fsum(item[side] for item in pair.atoms if item[1 - side] == 0) for side in (0, 1))
    zeros, beyond = _zeros(only_q, steps)
    if (zeros + 1) * (steps + 1) * (times + 1) > MOST:
        return None
    logs_q, logs_r = zip(*(_counts(finite, only_q, times, steps, m) for m in range(zeros + 1)), strict=True)
    log_q, log_r = np.concatenate(logs_q), np.concatenate(logs_r)
    told = -math.expm1(times * math.log1p(-only_p)) if only_p < 1 else 1.0
    return _bracket(log_q, log_r, told, beyond, 64 * EPS * (1 + steps * math.log(steps + 2)))


def _zeros(only_q: float, steps: int) -> tuple[int, float]:
    """How many outcomes that only Q has are counted, and a bound of the chance of more: C(t, m + 1) q^{m + 1}."""
    if only_q == 0:
        return 0, 0.0
    beyond = 1.0
    for m in range(FEW + 1):
        beyond = math.exp(min(_log_choose(steps, m + 1) + (m + 1) * math.log(only_q), 0.0)) if m < steps else 0.0
        if beyond < NEGLIGIBLE:
            return m, beyond * 1.01
    return (steps, 0.0) if steps <= 64 else (FEW, beyond * 1.01)


def _counts(
    finite: list[tuple[float, float, float]], only_q: float, times: int, steps: int, m: int
) -> tuple[Array, Array]:
    """log Q and log R for 0 to t - m high outcomes."""
    (low, _, q_low), (high, _, q_high) = finite
    left = steps - m
    j = np.arange(left + 1, dtype=np.float64)
    log_q = gammaln(steps + 1) - gammaln(j + 1) - gammaln(left - j + 1) - gammaln(m + 1)
    log_q = log_q + j * math.log(q_high) + (left - j) * math.log(q_low) + (m * math.log(only_q) if m else 0.0)
    i = np.arange(times + 1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        terms = _choose(j[:, None], i) + _choose(left - j[:, None], times - i)
    terms = terms + i * math.log(high) + (times - i) * math.log(low)
    with np.errstate(divide="ignore"):
        log_r = np.asarray(logsumexp(terms, axis=1)) - _log_choose(steps, times)
    return log_q, log_r


def _choose(n: Array, k: Array) -> Array:
    """log C(n, k), minus infinity where k exceeds n."""
    inside = k <= n
    away = np.where(inside, n - k, 0.0)
    return np.where(inside, gammaln(n + 1) - gammaln(k + 1) - gammaln(away + 1), -np.inf)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _bracket(log_q: Array, log_r: Array, told: float, beyond: float, off: float) -> Bracketed:
    """The table from above, where what was not counted tells all, and from below, where it is left out."""
    with np.errstate(under="ignore"):
        none = np.isneginf(log_r)
        only = float(np.exp(log_q[none]).sum())
        order = np.flatnonzero(~none)[np.argsort(log_r[~none])]
        losses, q = log_r[order], np.exp(log_q[order])
        p = np.exp(log_q[order] + losses)
    above = Tabulated(
        losses,
        np.maximum(p, LEAST),
        q,
        min(told * (1 + 1e-12) + beyond, 1.0),
        min(only * (1 + off) + beyond, 1.0),
        None,
        off,
    )
    below = Tabulated(losses, p, np.maximum(q, LEAST), told * (1 - 1e-12), only * (1 - off), None, off)
    return Bracketed(above, below)
