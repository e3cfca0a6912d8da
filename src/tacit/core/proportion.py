"""Exact confidence limits for a proportion (Clopper and Pearson 1934), vectorised."""

from __future__ import annotations

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
