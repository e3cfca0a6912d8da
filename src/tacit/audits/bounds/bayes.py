r"""What somebody who started from a prior would believe about epsilon: information beside a bound, never a verdict.

The rates p and q have independent Jeffreys priors, so given the counts they are Beta distributed. Epsilon at delta is
the least for which (p, q) lies in the region of (epsilon, delta)-DP tests, in both directions.

Reference: Zanella-Beguelin et al. 2023, Bayesian estimation of differential privacy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ...core import Counts, check
from .frontier import pair_limit

CELLS = 2000
CLOSE = 1e-6


def credible(counts: Counts, delta: float, confidence: float) -> tuple[float, float]:
    """The equal-tailed interval that holds epsilon at `delta` with posterior probability `confidence`."""
    tail = (1 - check.probability("confidence", confidence, zero=False, one=False)) / 2
    hits = stats.beta(counts.true_positives + 0.5, counts.n_in - counts.true_positives + 0.5)
    alarms = stats.beta(counts.false_positives + 0.5, counts.n_out - counts.false_positives + 0.5)
    rate: NDArray[np.float64] = alarms.ppf((np.arange(CELLS) + 0.5) / CELLS)  # cells of equal posterior mass

    def below(epsilon: float) -> float:
        """The posterior probability of at most this epsilon."""
        high, low = pair_limit(epsilon, delta, rate), 1 - pair_limit(epsilon, delta, 1 - rate)
        return float(np.mean(np.maximum(hits.cdf(high) - hits.cdf(low), 0.0)))

    return _quantile(below, tail), _quantile(below, 1 - tail)


def _quantile(below: Callable[[float], float], level: float) -> float:
    if below(0.0) >= level:
        return 0.0
    low, high = 0.0, 1.0
    while below(high) < level and high < 64:
        low, high = high, 2 * high
    while high - low > CLOSE * max(high, 1.0):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < level else (low, middle)
    return (low + high) / 2
