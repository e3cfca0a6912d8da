r"""How much noise: the least that keeps epsilon, verified on the event that is really drawn, and how far it reaches."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from scipy.special import ndtri

from ..core import Adjacency, BadInput, Event, check
from ..core.events import BoundedRange, DiscreteGaussian, Repeat
from ..loss import calibrate, privacy_loss

FINEST = 1e-7
"""How far above the least noise multiplier, relative to it, a search may end."""
LARGEST = 1 - 1e-9
"""A delta above this is calibrated as this: nearer to 1, no digits are left of what it leaves."""
WIDEST, FAINTEST = 1e12, 1e-300
"""An epsilon above the first is calibrated as this one; a delta below the second has too few digits."""


def written(number: float) -> Fraction:
    """A number as it is written, which is how a ledger adds numbers up: 0.1 is one tenth."""
    return Fraction(repr(float(number)))


def part(epsilon: float, count: int) -> float:
    """The largest float of which `count` are at most epsilon, both as numbers and as they are written.

    Otherwise a charge of all that remains could be refused: three thirds of 1.1 are 1.1000000000000001 as written.
    """
    found = float(Fraction(epsilon) / count)
    while count * Fraction(found) > Fraction(epsilon) or count * written(found) > written(epsilon):
        found = math.nextafter(found, 0.0)
    return found


def pure_multiplier(epsilon: float, change: float) -> float:
    """The least number z of floating point with change/z <= epsilon, by fractions."""
    exact = Fraction(change) / Fraction(epsilon)
    found = float(exact)
    return found if Fraction(found) >= exact else math.nextafter(found, math.inf)


@lru_cache(maxsize=1024)
def gaussian_multiplier(epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """The least noise multiplier of a Gaussian that is (epsilon, delta)-DP."""
    if delta < FAINTEST:
        raise BadInput(f"delta must be at least {FAINTEST:g} for Gaussian noise.", fix="Use laplace, which needs none.")
    return calibrate(epsilon=min(epsilon, WIDEST), delta=min(delta, LARGEST), adjacency=adjacency).noise_multiplier


@lru_cache(maxsize=1024)
def discrete_gaussian_multiplier(epsilon: float, delta: float, sensitivity: int, adjacency: Adjacency) -> float:
    """The least noise multiplier of a discrete Gaussian, verified on its own event."""

    def fits(multiplier: float) -> bool:
        return cost(DiscreteGaussian(multiplier, sensitivity), min(delta, LARGEST), adjacency) <= min(epsilon, WIDEST)

    return _least(fits, gaussian_multiplier(epsilon, delta, adjacency))


@lru_cache(maxsize=1024)
def round_epsilon(epsilon: float, delta: float, rounds: int, adjacency: Adjacency) -> float:
    """The largest epsilon of each of several rounds of bounded range that compose to (epsilon, delta)."""
    plain = part(epsilon, rounds)
    if delta == 0 or rounds == 1:
        return plain

    def fits(inverse: float) -> bool:
        return cost(Repeat(BoundedRange(1 / inverse), rounds), delta, adjacency) <= epsilon

    if not fits(1 / plain):  # epsilon is below the rounding of losses that are computed
        return plain
    return max(1 / _least(fits, 1 / plain), plain)


def cost(event: Event, delta: float, adjacency: Adjacency) -> float:
    """The proven epsilon of an event."""
    return privacy_loss(event, adjacency).epsilon(delta).upper


def classic_noise_multiplier(epsilon: float, delta: float) -> float:
    r"""sqrt(2 log(1.25/delta))/epsilon, for teaching: proven for epsilon < 1 alone, and always more than is needed.

    Reference: Dwork and Roth 2014, Theorem A.1.
    """
    epsilon = check.positive("epsilon", epsilon)
    check.probability("delta", delta, zero=False, one=False)
    if epsilon >= 1:
        raise BadInput(
            f"The classic rule is proven for epsilon below 1, got {epsilon!r}.",
            fix="Use calibrate, which has no limit.",
        )
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def each_failure(confidence: float, count: int) -> float:
    """Failure probability of each of `count` independent errors, so that all keep their bound with this confidence."""
    check.probability("confidence", confidence, zero=False, one=False)
    return -math.expm1(math.log(confidence) / max(count, 1))


def laplace_reach(scale: Fraction, failure: float) -> int:
    """The least m with P(|X| > m) = 2 r^{m+1}/(1 + r) <= failure, r = e^{-1/scale}, for discrete Laplace X."""
    b = float(scale)
    log_share = math.log(2) - math.log1p(math.exp(-1 / b)) - math.log(failure)
    return max(math.ceil(b * log_share * (1 + 1e-12)) - 1, 0)


def normal_reach(deviation: float, failure: float) -> float:
    """The x with P(|N(0, deviation^2)| > x) = failure."""
    return -float(ndtri(failure / 2)) * deviation * (1 + 1e-12)


def _least(fits: object, start: float) -> float:
    """The least number, to a relative FINEST, from which on `fits` holds; the one returned was verified."""
    assert callable(fits)
    low, high = start / 1.02, start
    while not fits(high):
        low, high = high, high * 1.02
    ratio = 1.5
    while fits(low):  # in steps that grow down to 1: epsilon may be 1e-100, and the delta allow far more
        low, high = max(low / ratio, 1.0) if low > 1 else low / 1.5, low
        ratio = min(ratio**2, 1e6)
    while high / low > 1 + FINEST:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
