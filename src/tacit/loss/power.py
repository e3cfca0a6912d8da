r"""The largest power of a test at a false-positive rate f, from delta(epsilon) at a few places.

    tail = inf over epsilon >= 0 of delta(epsilon) + e^epsilon f
    head = inf over epsilon >= 0 of 1 - e^-epsilon (1 - delta(epsilon) - f)

The first is convex in e^epsilon, the second in e^-epsilon: delta is convex in e^epsilon, and K delta(log 1/K) is its
perspective. So three places around the least value show that it is least, and bound
how far the minimum may lie below them.
Proof: docs/proofs/accounting.md, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from ..core.interval import Interval
from .noise import EPS
from .quadrature import NotMet

Profile = Callable[[float], tuple[Interval, float]]
"""For an epsilon: certified ends of delta, and its derivative in epsilon, which need not be certain."""
SHARES = 0.003, 0.03, 0.3
"""Distances of the places beside the least value, in units of delta over its derivative."""
CLOSE = 1e-3
"""How near to the place of the least value a search ends, in the same units: the value is then off by its square."""
TURNS = 60
FARTHEST = 600.0
"""An epsilon beyond which no place is looked for."""
ROOM = 1.001
"""What rounding may do to a ratio of distances."""


def tail(read: Profile, fpr: float) -> Interval:
    """Ends of the infimum of delta(epsilon) + e^epsilon fpr over epsilon >= 0. Raises NotMet where there are none."""

    def ahead(epsilon: float) -> tuple[float, float]:
        """The log of Q(L > epsilon) over fpr: the infimum is where it is 0."""
        found, slope = read(epsilon)
        return (math.log(-slope / fpr) - epsilon if slope < 0 else -math.inf), _length(found, slope)

    def value(epsilon: float) -> Interval:
        found = read(epsilon)[0]
        return _rounded(found.lower + math.exp(epsilon) * fpr, found.upper + math.exp(epsilon) * fpr)

    return _least(value, ahead, 1)


def head(read: Profile, fpr: float) -> Interval:
    """Ends of the infimum of 1 - e^-epsilon (1 - delta(epsilon) - fpr) over epsilon >= 0. Raises NotMet as `tail`."""

    def ahead(epsilon: float) -> tuple[float, float]:
        """The log of P(L > epsilon) over 1 - fpr."""
        found, slope = read(epsilon)
        beyond = found.upper - slope
        return (math.log(beyond / (1 - fpr)) if beyond > 0 else -math.inf), _length(found, slope)

    def value(epsilon: float) -> Interval:
        found, rest, shrink = read(epsilon)[0], -math.expm1(-epsilon), math.exp(-epsilon)
        return _rounded(rest + shrink * (found.lower + fpr), rest + shrink * (found.upper + fpr))

    return _least(value, ahead, -1)


def _length(found: Interval, slope: float) -> float:
    return found.upper / -slope if slope < 0 < found.upper else 1.0


def _rounded(low: float, high: float) -> Interval:
    return Interval(low * (1 - 8 * EPS), max(high, low) * (1 + 8 * EPS))


def _least(value: Callable[[float], Interval], ahead: Callable[[float], tuple[float, float]], sign: int) -> Interval:
    """The upper end at the best place that could be read, and the best of the lower ends that places around it show."""
    places = list(_places(ahead))
    if not places:
        raise NotMet
    upper = min(1.0, *(value(place).upper for place, _ in places))
    place, length = places[-1]
    lower = max(_below(value, place, share * length, sign) for share in SHARES)
    return Interval(min(lower, upper), upper)


def _places(ahead: Callable[[float], tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Epsilons on the way to where a falling function is 0, and the length over which delta falls there.

    The way ends where nothing can be read. Once there are values on both sides it goes by false position, and the end
    that stays counts half (the Illinois method).
    """
    low, high, above, below, epsilon, rising = 0.0, math.inf, math.inf, -math.inf, 0.0, True
    for _ in range(TURNS):
        try:
            found, length = ahead(epsilon)
        except NotMet:
            return
        yield epsilon, length
        if found > 0:
            low, above, below = epsilon, found, below / (2 if rising else 1)
        else:
            high, below, above = epsilon, found, above / (1 if rising else 2)
        rising = found > 0
        if high == 0.0 or high - low <= CLOSE * length or abs(found) <= CLOSE:
            return
        if high == math.inf:
            epsilon = min(low + above * length, 2 * low + 1.0)  # the function falls about as fast as log delta
        else:
            share = above / (above - below) if math.isfinite(above - below) else 0.5
            epsilon = low + min(max(share, 0.01), 0.99) * (high - low)
        if epsilon > FARTHEST:
            return


def _below(value: Callable[[float], Interval], place: float, away: float, sign: int) -> float:
    r"""A lower end of a function convex in x = e^{sign epsilon}, from three places; 0 where they show none.

    Beyond an outer place that is certainly no lower than the middle one, nothing is lower than it. Between the middle
    and one outer place the function lies above the line through the middle and the other one.
    """
    first = max(place - away, 0.0)
    middle = place if first < place else place + away
    last = middle + away
    if not first < middle < last:
        return 0.0
    try:
        one, two, three = (value(epsilon) for epsilon in (first, middle, last))
    except NotMet:
        return 0.0
    if three.lower < two.upper or (first > 0 and one.lower < two.upper):
        return 0.0
    ratio = _ratio((first, middle, last), sign)
    left = two.lower - ROOM * ratio * max(three.upper - two.lower, 0.0)
    right = two.lower - ROOM / ratio * max(one.upper - two.lower, 0.0)
    return max(min(left, right), 0.0)


def _ratio(places: Sequence[float], sign: int) -> float:
    """|x_2 - x_1| over |x_3 - x_2|."""
    first, middle, last = places
    return math.exp(sign * (first - middle)) * math.expm1(sign * (middle - first)) / math.expm1(sign * (last - middle))
