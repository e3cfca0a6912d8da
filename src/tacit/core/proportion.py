"""Exact confidence limits for a proportion (Clopper and Pearson 1934), vectorised."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from . import check

Floats = NDArray[np.float64]


def lower_proportion(successes: ArrayLike, n: ArrayLike, confidence: float) -> Floats:
    """One-sided lower limit: P[limit <= p] >= confidence for every p."""
    k, n = np.asarray(successes, float), np.asarray(n, float)
    error = 1 - check.probability("confidence", confidence)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, error), 0.0)


def upper_proportion(successes: ArrayLike, n: ArrayLike, confidence: float) -> Floats:
    """One-sided upper limit: P[p <= limit] >= confidence for every p; above 0 by construction."""
    k, n = np.asarray(successes, float), np.asarray(n, float)
    error = 1 - check.probability("confidence", confidence)
    return np.where(k < n, special.betainccinv(k + 1, np.maximum(n - k, 1), error), 1.0)


def clopper_pearson(successes: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Two-sided limits, half of the error on each side."""
    each = (1 + check.probability("confidence", confidence)) / 2
    return lower_proportion(successes, n, each), upper_proportion(successes, n, each)


def fewer_limits(sure: ArrayLike, able: ArrayLike, n: int, fewer: float, confidence: float) -> tuple[Floats, Floats]:
    """Limits of a proportion when n rows count as only n / `fewer` independent ones: lower from `sure` successes, upper
    from `able`.

    A fraction of a success does not count for the lower limit, nor a fraction of a failure for the upper one: the upper
    limit is one minus the lower limit of failures. With 4 of 5 records, each there ten times, the upper limit was 0.99,
    which true rates between 0.990 and 0.995 exceed more often than one time in 40.
    Reference: Korn and Graubard 1998 (limits for a smaller number of rows), rounded to the safe side.
    """
    hits, misses = (np.floor(np.asarray(part, float) / fewer) for part in (sure, n - np.asarray(able, float)))
    worth = n / fewer
    return lower_proportion(hits, worth, confidence), upper_proportion(worth - misses, worth, confidence)


GRID, SAFETY = 401, 0.99
"""Points at which the unknown common rate is tried, and the part of the error that is used, for what lies between."""


def difference_limit(first: tuple[int, int], second: tuple[int, int], confidence: float) -> float:
    r"""Exact one-sided lower limit for p1 - p2 from (successes, n) of two independent samples.

    The smallest d with sup_{p2} P[X1/n1 - X2/n2 >= what was seen | p1 = p2 + d] > 1 - confidence: an unconditional test
    turned round (Santner and Snell 1980; Chan and Zhang 1999). It needs far fewer observations than the difference of
    two Clopper and Pearson limits: 4 of 4 against 0 of 4 shows a difference at 99.5 %.
    """
    return _limit(first, second, 1 - check.probability("confidence", confidence, one=False))


@functools.lru_cache(maxsize=4096)
def _limit(first: tuple[int, int], second: tuple[int, int], error: float) -> float:
    """The limit at an error; kept, because the same few counts come back for many records."""
    low, high = -1.0, first[0] / first[1] - second[0] / second[1]
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if difference_chance(first, second, middle) > error else (middle, high)
    return low


def difference_chance(first: tuple[int, int], second: tuple[int, int], gap: float = 0.0) -> float:
    """At most P[a difference as large as this | p1 <= p2 + gap]: the p-value that `difference_limit` turns round."""
    (hits, n), (others, m) = first, second
    x = np.arange(n + 1)
    reach = np.floor(m * (x / n - (hits / n - others / m)) + 1e-9).astype(int)  # X2 must be at most this, by X1
    p2 = np.linspace(max(0.0, -gap), min(1.0, 1.0 - gap), GRID)[:, None]
    p1 = np.clip(p2 + gap, 0.0, 1.0)
    ways = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    mass = np.exp(ways + special.xlogy(x, p1) + special.xlog1py(n - x, -p1))
    inside = np.where(reach >= m, 1.0, special.bdtr(np.clip(reach, 0, m), m, p2))
    return float((mass * np.where(reach < 0, 0.0, inside)).sum(axis=1).max()) / SAFETY
