"""Where a monotone excess becomes 0: the search behind every calibration."""

from __future__ import annotations

import math
from collections.abc import Callable

Excess = Callable[[float], float]
"""log of what a value costs over what it may cost."""
Doubt = Callable[[], float]
"""The relative gap of the last reading."""
FINE = 1e-9
"""How near to its target a search ends, relatively, where readings are quick."""
WIDEST = math.log(64)
"""The longest step of the search, in log scale."""
LOOSEST = 0.02
"""No search ends farther from its target than this, however wide readings are: noise would be far too large."""


def root(
    excess: Excess,
    start: float,
    *,
    better: int,
    least: float,
    most: float,
    tolerance: float = FINE,
    slope: float = math.nan,
    doubt: Doubt | None = None,
    near: float = 0.0,
    bad: float = math.nan,
) -> float:
    """Where a monotone excess becomes 0, from the side where it is at most 0; beyond `least` or `most`: 0, infinity.

    Values grow `better` upwards (1) or downwards (-1). The secant method in log scale, kept inside what is known, aims
    at half the tolerance on the good side, so that its last step lands there. The first step goes by the given slope.
    What is asked for is met by upper ends, which may be off by the gap of a reading: no search is finer than that, nor
    finer than `near` in log scale, by the slope. `bad` is the log of a value that is known to be above 0.
    """
    x, good = math.log(start), math.nan
    before = math.nan, math.nan
    for step in range(200):
        y = excess(math.exp(x))
        if y <= 0:
            good = x
        else:
            bad = x
        close = tolerance if doubt is None else max(tolerance, doubt())
        between = max(close / 2, near)
        close = max(close, min(near * abs(slope), LOOSEST)) if slope * better < 0 else close
        if -close <= y <= 0 or (abs(good - bad) <= between and math.isfinite(good)):
            break
        if math.isfinite(before[0]):
            slope = (y - before[1]) / (x - before[0]) if x != before[0] else math.nan
        before = x, y
        ahead = x - (y + close / 2) / (slope if slope * better < 0 else -better)
        if not math.isfinite(ahead):
            ahead = x + (better if y > 0 else -better) * math.log(4)
        ahead = min(max(ahead, x - WIDEST), x + WIDEST)
        if math.isfinite(good + bad) and (step % 8 == 7 or not min(good, bad) < ahead < max(good, bad)):
            ahead = (good + bad) / 2
        if not math.log(least) <= ahead <= math.log(most):
            return 0.0 if ahead < 0 else math.inf
        x = ahead
    return math.exp(good)
