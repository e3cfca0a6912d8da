r"""Skellam noise: the difference of two Poisson numbers, which stays Skellam when many parties each add a share of it.

X = Poisson(v/2) - Poisson(v/2) has variance v and P(k) = e^{-v} I_|k|(v). It is log-concave, so of all moves up to s
the whole one is worst, and

    delta(epsilon) = \sum_k max(P(k - s) - e^epsilon P(k), 0)

is summed here; the noise is charged as the (epsilon, delta) that was proven in this way.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive, pdtr

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import ApproximateDP
from .charging import Offer, Random, Terms
from .exact import Bounds, Uniform, exp_bounds
from .inputs import wholes
from .scales import each_failure

Floats = NDArray[np.float64]
LARGEST = 2**14
"""Largest variance: beyond, Gaussian noise is as good and quicker."""
SLACK = 1e-9
"""How far, relative to it, a sum of Bessel functions may be off (they keep 1e-12)."""
CLOSE = 2.0**-40


def skellam(
    value: int,
    *,
    sensitivity: int,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release a whole number with Skellam noise of the least variance that is (epsilon, delta)-DP.

    Guarantee: `ApproximateDP(epsilon, delta)`, drawn exactly and charged before the draw.
    Caller ensures: one record moves `value` by at most `sensitivity`, a whole number.
    Edge cases: variances above 2^14 are refused: use gaussian.
    Error: the value is within `error`, with probability `confidence`.
    Reference: Agarwal, Kairouz and Liu 2021 (the mechanism); docs/proofs/accounting.md, Lemma 3 (the worst move).
    """
    terms = Terms(ledger, key, rng, adjacency)
    moved = check.whole("sensitivity", sensitivity) * int(terms.neighbours.sensitivity)
    if (delta := check.delta(delta)) == 0:
        raise BadInput("Skellam noise needs a delta above 0.", fix="Use laplace, which is pure.")
    if not isinstance(value, int | np.integer):
        raise BadInput("Skellam noise is for one whole number.", fix="Use laplace or gaussian.")
    variance = least_variance(check.positive("epsilon", epsilon), float(delta), moved)
    reach = _reach(variance, each_failure(confidence, 1))
    event = ApproximateDP(epsilon, delta)
    offer = Offer("skellam", event, terms.neighbours, float(reach), confidence, asked=(int(moved),))

    def draw(chance: Source) -> int:
        more, less = (int(poisson(variance / 2, 1, chance)[0]) for _ in range(2))
        return int(wholes(int(value))) + more - less

    return offer.drawn(draw, terms)


def profile(variance: Fraction, epsilon: float, moved: int) -> float:
    """An upper end of delta(epsilon): every sum is enlarged by more than its terms can be off."""
    v, epsilon = float(variance), min(epsilon, 700.0)  # delta never rises with epsilon, and e^700 is still a number
    k = np.arange(-_far(v) - moved, _far(v) + moved + 1)
    here, there = ive(np.abs(k), v), ive(np.abs(k - moved), v)
    above = there - math.exp(epsilon) * here
    some = above > -SLACK * there
    return float(np.maximum(above[some], 0).sum()) + SLACK * float(there[some].sum()) + 1e-300


@lru_cache(maxsize=1024)
def least_variance(epsilon: float, delta: float, moved: int) -> Fraction:
    """The least multiple of 1/64 from which on delta(epsilon) <= delta, verified."""
    low, high = 0, 64
    while moved <= LARGEST and profile(Fraction(high, 64), epsilon, moved) > delta:
        low, high = high, 2 * high
        if high > 64 * LARGEST:
            break
    if max(moved, high / 64) > LARGEST:  # a move of more than 128 deviations is never hidden
        raise BadInput("The variance would be above 2^14.", fix="Use gaussian, which has no limit.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if profile(Fraction(middle, 64), epsilon, moved) <= delta else (middle, high)
    return Fraction(high, 64)


def poisson(mean: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    """Independent Poisson numbers: how many P(N <= k) are at most a uniform number, exactly."""
    table = _table(mean)
    words = source.words(count)
    uniform = words.astype(np.float64) * 2.0**-64
    found = np.searchsorted(table, uniform, side="right").astype(np.int64)
    near = np.abs(table[np.clip(found, 0, table.size - 1)] - uniform)
    below = np.abs(uniform - table[np.clip(found - 1, 0, table.size - 1)])
    for i in np.flatnonzero((near <= CLOSE) | (below <= CLOSE)).tolist():
        found[i] = _exactly(mean, int(found[i]), Uniform(int(words[i]), 64, source))
    return found


def _exactly(mean: Fraction, near: int, uniform: Uniform) -> int:
    """The least k with U < P(N <= k), looked for around `near`."""
    while near > 0 and uniform.below(_below(mean, near - 1)):
        near -= 1
    while not uniform.below(_below(mean, near)):
        near += 1
    return near


def _below(mean: Fraction, k: int) -> Bounds:
    r"""Bounds of P(N <= k) = e^{-m} \sum_{j <= k} m^j/j!: the sum in fixed point, rounded down and up."""

    def bounds(bits: int) -> tuple[int, int]:
        more = bits + 2 * int(mean) + 2 * k.bit_length() + 16
        low = high = total_low = total_high = 1 << more
        for j in range(1, k + 1):
            low = low * mean.numerator // (mean.denominator * j)
            high = -(-high * mean.numerator // (mean.denominator * j))
            total_low, total_high = total_low + low, total_high + high
        least, most = exp_bounds(mean, more)
        shift = 2 * more - bits
        return total_low * least >> shift, (total_high * most >> shift) + 1

    return bounds


@lru_cache(maxsize=64)
def _table(mean: Fraction) -> Floats:
    m = float(mean)
    return np.asarray(pdtr(np.arange(int(m + 12 * math.sqrt(m) + 60)), m))


def _far(variance: float) -> int:
    return int(40 * math.sqrt(variance) + 200)


def _reach(variance: Fraction, failure: float) -> int:
    """The least m with P(|X| > m) <= failure."""
    v = float(variance)
    mass = ive(np.arange(_far(v)), v)
    beyond = 2 * (np.cumsum(mass[::-1])[::-1] - mass) * (1 + SLACK)  # P(|X| > m) at place m
    return int(np.flatnonzero(beyond <= failure)[0])
