r"""Random allocation, k of t, of a release with few outcomes: exact, both ends.

Let a release show outcome a with the ratio r_a of P to Q, or, rarely, an outcome that only P or only Q has. The pair
of the whole is the mean over all k-subsets S of prod_{i in S} P_i prod_{i not in S} Q_i against Q^t, whatever the
mechanism (docs/proofs/accounting.md, Theorem 5). With j_a outcomes of each kind, m that only Q has and none that only P
has,

    R(j, m) = sum_i prod_a C(j_a, i_a) r_a^{i_a} / C(t, k),   over all i_a that sum to k,

and the counts are multinomial under Q^t. Whoever shows an outcome that only P has tells all: 1 - (1 - p)^k.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from .computed import Bracketed, Tabulated
from .noise import EPS, Array
from .pairs import Discrete, Pair

MOST = {2: 4_000_000, 3: 600_000, 4: 300_000}
"""Terms of all sums together, by the number of outcomes."""
FEW = 6
"""Outcomes that only Q has are counted up to this number, or to t where they are likely and t is small."""
NEGLIGIBLE = 1e-40
LEAST = 1e-300
"""Instead of a mass that numbers do not hold: of P from above, of Q from below."""


@lru_cache(maxsize=64)
def allocated_exactly(pair: Pair, times: int, steps: int) -> Bracketed | None:
    """The pair of k of t releases; None where the release has too many outcomes, or the sums are too long."""
    if not isinstance(pair, Discrete):
        return None
    finite = sorted((p / q, p, q) for p, q in pair.atoms if p > 0 and q > 0)
    kinds = len(finite)
    if kinds not in MOST:
        return None
    only_p, only_q = (math.fsum(item[side] for item in pair.atoms if item[1 - side] == 0) for side in (0, 1))
    zeros, beyond = _zeros(only_q, steps)
    if (zeros + 1) * _ways(steps, kinds) * _ways(times, kinds) > MOST[kinds]:
        return None
    logs_q, logs_r = zip(*(_counts(finite, only_q, times, steps, m) for m in range(zeros + 1)), strict=True)
    log_q, log_r = np.concatenate(logs_q), np.concatenate(logs_r)
    told = -math.expm1(times * math.log1p(-only_p)) if only_p < 1 else 1.0
    return _bracket(log_q, log_r, told, beyond, 32 * kinds * EPS * (1 + steps * math.log(steps + 2)))


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
    """log Q and log R for all numbers of outcomes that sum to t - m."""
    logs = gammaln(np.arange(steps + 1) + 1.0)
    ratios, q = np.log([item[0] for item in finite]), np.log([item[2] for item in finite])
    counts, chosen = _sums(steps - m, len(finite)), _sums(times, len(finite))
    log_q = logs[steps] - logs[m] - logs[counts].sum(axis=1) + counts @ q + (m * math.log(only_q) if m else 0.0)
    terms = np.broadcast_to(chosen @ ratios, (len(counts), len(chosen))).copy()
    for some, taken in zip(counts.T, chosen.T, strict=True):
        left = some[:, None] - taken
        terms += np.where(left >= 0, logs[some][:, None] - logs[taken] - logs[np.maximum(left, 0)], -np.inf)
    with np.errstate(divide="ignore"):
        log_r = np.asarray(logsumexp(terms, axis=1)) - _log_choose(steps, times)
    return np.asarray(log_q), log_r


def _sums(total: int, kinds: int) -> NDArray[np.int64]:
    """All rows of `kinds` whole numbers from 0 on that sum to `total`."""
    if kinds == 2:
        first = np.arange(total + 1)
        return np.stack((first, total - first), axis=1)
    rows = [np.insert(_sums(total - first, kinds - 1), 0, first, axis=1) for first in range(total + 1)]
    return np.concatenate(rows)


def _ways(total: int, kinds: int) -> int:
    """How many rows `_sums` has."""
    return math.comb(total + kinds - 1, kinds - 1)


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
