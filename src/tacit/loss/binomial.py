r"""Both ends of a tail of the binomial distribution, P(Bin(n, p) >= k), with all their digits.

The first term of the tail by Stirling's series and deviances, where nothing cancels (Loader 2000, Fast and accurate
computation of binomial probabilities): with D(x, M) = x log(x/M) + M - x and s(x) = log x! - log(sqrt(2 pi x) (x/e)^x),

    P(Bin(n, p) = k) = sqrt(n/(2 pi k (n - k))) e^{s(n) - s(k) - s(n - k) - D(k, n p) - D(n - k, n (1 - p))}.

The others by their ratios, which fall: what is left out is at most a geometric series. Differences of log n! would lose
the digits of n log n: for 6.5 million records a tail of 0.449 was 5e-6 of itself too small, by a library's function.
Reference: docs/proofs/rounding.md, Lemma 8.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from .noise import EPS

CHUNK = 4096
"""Terms that are made at once."""
MOST = 1 << 21
"""Terms of a tail that are added up; beyond, it is bounded by a geometric series."""
EXACT = 16
"""From this number on Stirling's series has four terms that matter."""
FAINT = 1e-300
"""A first term below this counts as 0 from below, and as this from above."""


def at_least(k: int, n: int, p: float) -> tuple[float, float]:
    """P(Bin(n, p) >= k) from below and from above, for 0 < p < 1."""
    if k <= 0 or k > n:
        return (1.0, 1.0) if k <= 0 else (0.0, 0.0)
    return _side(k, n, p, 1) if k > n * p else _other(_side(k - 1, n, p, -1))


def at_most(k: int, n: int, p: float) -> tuple[float, float]:
    """P(Bin(n, p) <= k) from below and from above, for 0 < p < 1."""
    if k < 0 or k >= n:
        return (0.0, 0.0) if k < 0 else (1.0, 1.0)
    return _side(k, n, p, -1) if k < n * p else _other(_side(k + 1, n, p, 1))


def _other(ends: tuple[float, float]) -> tuple[float, float]:
    """Both ends of what is missing to 1."""
    low, high = ends
    return max((1 - high) * (1 - EPS), 0.0), min((1 - low) * (1 + EPS), 1.0)


def _side(k: int, n: int, p: float, way: int) -> tuple[float, float]:
    """The chance of k and all beyond it, upwards or downwards, away from the mean."""
    if n * p < FAINT:
        return (0.0, FAINT) if way > 0 else (1 - EPS, 1.0)  # one at least of so few, or any number at most
    log_first = _log_term(k, n, p)
    off = EPS * (64 + 16 * abs(k - n * p) + 16 * abs(log_first))
    first = math.exp(log_first)
    low, high, terms = _ratios(k, n, p, way)
    off += 8 * EPS * terms
    if first < FAINT:
        return 0.0, FAINT * high * (1 + off)
    return first * low * (1 - off), min(first * high * (1 + off), 1.0)


def _ratios(k: int, n: int, p: float, way: int) -> tuple[float, float, int]:
    """The sum of all terms over the first one from both sides, and how many were added."""
    term, total, done = 1.0, 1.0, 0
    odds = p / (1 - p)
    while done < MOST:
        j = np.arange(done, done + CHUNK, dtype=np.float64)
        with np.errstate(under="ignore", divide="ignore", invalid="ignore"):
            steps = (n - k - j) / (k + 1 + j) * odds if way > 0 else (k - j) / (n - k + 1 + j) / odds
            terms = term * np.cumprod(np.maximum(steps, 0.0))
        total, term, done = total + float(terms.sum()), float(terms[-1]), done + CHUNK
        if term <= EPS * total:
            break
    ratio = min(max(float(steps[-1]), 0.0), 1 - EPS)  # ratios fall, so the rest is below a geometric series
    return total, total + term * ratio / (1 - ratio), done


def _log_term(k: int, n: int, p: float) -> float:
    """log P(Bin(n, p) = k)."""
    if k in (0, n):
        return n * (math.log1p(-p) if k == 0 else math.log(p))
    away = float(k - n * Fraction(p))  # exact: near rate 1 the rounding of n p would be large beside n (1 - p)
    stirling = _stirling(n) - _stirling(k) - _stirling(n - k)
    roots = 0.5 * (math.log(n) - math.log(2 * math.pi) - math.log(k) - math.log(n - k))
    return stirling + roots - _deviance(n * p, away) - _deviance(n * (1 - p), -away)


def _stirling(n: int) -> float:
    """log n! - log(sqrt(2 pi n) (n/e)^n)."""
    if n < EXACT:
        return math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / n**2) / n**2) / n**2) / n**2) / n


def _deviance(mean: float, away: float) -> float:
    """x log(x/M) + M - x for x = M + away."""
    u = away / mean
    return mean * ((1 + u) * math.log1p(u) - u)
