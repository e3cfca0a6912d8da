r"""Directions whose delta(epsilon) has a closed form, read with a running error bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from ..core.interval import Interval
from .bounded import Huge
from .cached import cached
from .noise import Array, GaussianNoise
from .pairs import LOSS, Discrete, Location
from .tails import log_tail

EPS = float(np.finfo(float).eps)
ATOM = 16 * EPS
"""How far off the probability of one of few outcomes may be, relatively, and so the loss of one."""
JUMP = 256 * EPS
"""How far off the loss of an outcome of positive probability may be, over its parts."""
STEEP, FAINT = 300.0, 1e-290
"""An epsilon beyond which, or a tail of Q below which, tails are read by their logarithms."""
LEAST = 1e-320
"""Instead of 0 for a probability that numbers do not hold."""
FAR = 1e16
"""An epsilon beyond which nobody looks."""
Parts = Callable[[float], tuple[float, float, float]]
"""For an epsilon: P(E), e^epsilon Q(E) of the best event E, and a bound of the error of their difference, delta."""


def ends(first: float, second: float, error: float) -> Interval:
    """first - second within its error, as a probability."""
    return Interval(*(min(max(first - second + move, 0.0), 1.0) for move in (-error, error)))


class Direction(Protocol):
    """One direction of a composed loss, read by certified intervals."""

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        """Smallest epsilon with delta(epsilon) <= delta; where it is at most `known`, that is all one needs to know."""

    def delta(self, epsilon: float) -> Interval: ...

    def tail(self, fpr: float) -> Interval:
        """inf over epsilon >= 0 of delta(epsilon) + e^epsilon fpr."""

    def head(self, fpr: float) -> Interval:
        """inf over epsilon >= 0 of 1 - e^-epsilon (1 - delta(epsilon) - fpr): what this way says of its mirror."""


@dataclass(frozen=True)
class Never:
    """No protection at all: delta is 1 everywhere."""

    def delta(self, epsilon: float) -> Interval:
        return Interval(1.0, 1.0)

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        return Interval(math.inf, math.inf)

    def tail(self, fpr: float) -> Interval:
        return Interval(1.0, 1.0)

    def head(self, fpr: float) -> Interval:
        return Interval(1.0, 1.0)


@dataclass(frozen=True)
class Unknown:
    """Nothing is proven: the upper end of a pair tells all, and the lower end does not."""

    def delta(self, epsilon: float) -> Interval:
        return Interval(0.0, 1.0)

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        return Interval(0.0, math.inf)

    def tail(self, fpr: float) -> Interval:
        return Interval(fpr, 1.0)

    def head(self, fpr: float) -> Interval:
        return Interval(fpr, 1.0)


@dataclass(frozen=True)
class GaussianTotal:
    r"""A Gaussian mechanism with mu = sensitivity / standard deviation; Gaussians compose to mu^2 = sum mu_i^2.

    delta(epsilon) = Phi(-a) - e^epsilon Phi(-b), a = epsilon/mu - mu/2, b = epsilon/mu + mu/2;
    e^epsilon Phi(-b) = e^{-a^2/2} erfcx(b/sqrt 2)/2, as epsilon = (b^2 - a^2)/2: nothing overflows.
    Reference: Balle and Wang 2018; Dong, Roth and Su 2022, Gaussian differential privacy.
    """

    mu: float

    def delta(self, epsilon: float) -> Interval:
        return ends(*self.parts(epsilon)) if self.mu else Interval(0.0, 0.0)

    def parts(self, epsilon: float) -> tuple[float, float, float]:
        a, b = epsilon / self.mu - self.mu / 2, epsilon / self.mu + self.mu / 2
        scale = math.exp(-a * a / 2) / 2
        second = scale * float(erfcx(b / math.sqrt(2)))
        if a > 0:
            first = scale * float(erfcx(a / math.sqrt(2)))
            first_error = (16 + 2 * (1 + a) * b) * EPS * first
        else:
            first = float(ndtr(-a))
            first_error = (16 + 2 * b) * EPS * first
        return first, second, first_error + (16 + 2 * b * b + epsilon) * EPS * second + 1e-320

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta == 0 and self.mu > 0:
            return Interval(math.inf, math.inf)
        if self.mu == 0:
            return Interval(0.0, 0.0)
        found = invert(self.parts, delta, start=self.mu * (self.mu + 4) + 1)
        most = (self.mu**2 / 2 + self.mu * math.sqrt(-2 * math.log(delta))) * (1 + 1e-12)  # P(L > most) <= delta
        return found if found.upper < math.inf else Interval(min(found.lower, most), most)

    def tail(self, fpr: float) -> Interval:
        return self._power(fpr)

    def head(self, fpr: float) -> Interval:
        return self._power(fpr)

    def _power(self, fpr: float) -> Interval:
        """Phi(Phi^{-1}(fpr) + mu), for all fpr: the infimum over both signs of epsilon."""
        if fpr <= 0 or fpr >= 1:
            return Interval(fpr, fpr)
        power = float(ndtr(float(ndtri(fpr)) + self.mu))
        error = 64 * EPS * (1 + self.mu**2 + float(ndtri(fpr)) ** 2)
        return Interval(max(power * (1 - error), 0.0), min(power * (1 + error), 1.0))


@dataclass(frozen=True)
class Between:
    """A loss that is at least what one reader says, and at most what another one does."""

    below: Direction
    above: Direction

    def delta(self, epsilon: float) -> Interval:
        return _between(self.below.delta(epsilon), self.above.delta(epsilon))

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        above = self.above.epsilon(delta, known)
        return above if above.upper <= known else _between(self.below.epsilon(delta), above)

    def tail(self, fpr: float) -> Interval:
        return _between(self.below.tail(fpr), self.above.tail(fpr))

    def head(self, fpr: float) -> Interval:
        return _between(self.below.head(fpr), self.above.head(fpr))


def _between(below: Interval, above: Interval) -> Interval:
    return Interval(min(below.lower, above.upper), above.upper)


@dataclass(frozen=True)
class Once:
    """A single discrete pair, summed outcome by outcome."""

    pair: Discrete

    def delta(self, epsilon: float) -> Interval:
        return ends(*self.parts(epsilon))

    def parts(self, epsilon: float) -> tuple[float, float, float]:
        scaled = [(p, math.exp(min(epsilon, 700.0)) * q) for p, q in self.pair.atoms]
        value = math.fsum(p - q for p, q in scaled if p > q)
        second = math.fsum(q for p, q in scaled if p > q)
        near = math.fsum(p for p, q in scaled if p > q * (1 - 2 * ATOM))  # an outcome beside epsilon may be beyond it
        return value + second, second, ATOM * near

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        told = Fraction(self.pair.infinite) if self.pair.told is None else self.pair.told[0]
        asked = Fraction(repr(float(delta)))
        if asked < told:
            return Interval(math.inf, math.inf)
        largest = max([loss for loss, _, _ in self.pair.losses()], default=0.0)
        low, high = (max(max(largest, 0.0) * (1 + sign * 4 * EPS) + sign * ATOM, 0.0) for sign in (-1, 1))
        if asked == told:
            return Interval(low, high)
        found = invert(self.parts, delta, start=high + 1)
        return Interval(min(found.lower, high), min(found.upper, high))

    def tail(self, fpr: float) -> Interval:
        profile = self._profile()
        return tail_of(*profile, fpr, beyond=float(profile[1][-1]))

    def head(self, fpr: float) -> Interval:
        profile = self._profile()
        return head_of(*profile, fpr, beyond=float(profile[1][-1]))

    def _profile(self) -> tuple[Array, Array, Array]:
        kinks = [0.0] + [loss for loss, _, _ in self.pair.losses() if loss > 0]
        found = [self.delta(kink) for kink in kinks]
        return np.array(kinks), np.array([d.lower for d in found]), np.array([d.upper for d in found])


@dataclass(frozen=True)
class OneHuge:
    r"""One (epsilon, delta)-DP release of huge epsilon: delta + (1 - delta)(1 - e^{x - epsilon}) at x <= epsilon."""

    pair: Huge

    def delta(self, epsilon: float) -> Interval:
        value = self.pair.delta + (1 - self.pair.delta) * -math.expm1(min(epsilon - self.pair.epsilon, 0.0))
        return Interval(value * (1 - 16 * EPS), min(value * (1 + 16 * EPS), 1.0))

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        left = (delta - self.pair.delta) / (1 - self.pair.delta)
        if left < 0:
            return Interval(math.inf, math.inf)
        found = self.pair.epsilon + math.log1p(-left)
        return Interval(found * (1 - 16 * EPS), found * (1 + 16 * EPS))

    def tail(self, fpr: float) -> Interval:
        return Interval(self.pair.delta if fpr == 0 else 1 - 8 * EPS, self.pair.delta if fpr == 0 else 1.0)

    def head(self, fpr: float) -> Interval:
        return Interval(1 - 8 * EPS, 1.0)


@dataclass(frozen=True)
class Single:
    r"""A single location pair: the best test is a threshold x, and an error in x counts only to second order.

    delta(epsilon) = P(X > x) - e^epsilon Q(X > x), where the loss at x is epsilon.
    """

    pair: Location

    def delta(self, epsilon: float) -> Interval:
        return ends(*self.parts(epsilon))

    def parts(self, epsilon: float) -> tuple[float, float, float]:
        x, p, q = self.pair.beyond(epsilon)
        if (epsilon > STEEP or q < FAINT) and x < math.inf:
            return self._far(epsilon, x)
        place, q = abs(x) / self.pair.noise.scale, q * math.exp(min(epsilon, 700.0))
        parts = len(self.pair.p) + len(self.pair.q)
        error = EPS * (256 + parts + abs(epsilon) + 4 * min(place, 40.0) ** 2) * (p + q)
        return p, q, error + self._beside(epsilon, p) + LEAST

    def _beside(self, epsilon: float, beyond: float) -> float:
        """What outcomes of a loss of about epsilon may add: rounding decides whether they are beyond it."""
        if not self.pair.noise.atoms:
            return 0.0
        room = JUMP * (1 + abs(epsilon) + self._steep)
        return 2 * room * max(self.pair.beyond(epsilon - room)[1] - beyond, 0.0)

    @cached
    def _steep(self) -> float:
        """How much the loss changes over the places of its parts and one more."""
        places, s = [place for _, place in (*self.pair.p, *self.pair.q)], self.pair.noise.scale
        apart = max(places) - min(places) + 1.0
        return 2 * apart * (apart / s**2 if isinstance(self.pair.noise, GaussianNoise) else 1 / s)

    def _far(self, epsilon: float, x: float) -> tuple[float, float, float]:
        """`parts` where e^epsilon or the tail of Q is no number: by logarithms of tails beyond x."""
        noise, sums, off = self.pair.noise, [], 0.0
        for parts, rise in ((self.pair.p, 0.0), (self.pair.q, epsilon)):
            sizes = []
            for weight, place in parts:
                log, doubt = log_tail(noise, x - place)
                sizes.append(math.exp(min(math.log(weight) + log + rise, 0.0)) if weight > 0 else 0.0)
                off = max(off, doubt)
            sums.append(math.fsum(sizes))
        first, second = sums
        place = max(abs(place - x) / noise.scale for _, place in (*self.pair.p, *self.pair.q))
        error = (EPS * (64 + epsilon + 4 * place**2 + 4 * self._steep) + off) * (first + second)
        return first, second, error + self._beside(epsilon, first) + LEAST

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        top = self.pair.largest if delta == 0 else math.inf
        if delta == 0:
            return Interval(max(top * (1 - 8 * EPS) - LOSS, 0.0), max(top, 0.0) * (1 + 8 * EPS) + LOSS)
        if known == math.inf or (known > 0 and ends(*self.parts(known)).upper <= delta):
            return Interval(0.0, known)
        return invert(self.parts, delta, start=1.0)

    def tail(self, fpr: float) -> Interval:
        return tail_of(*self._profile, fpr, between=True)

    def head(self, fpr: float) -> Interval:
        return head_of(*self._profile, fpr, between=True)

    @cached
    def _profile(self) -> tuple[Array, Array, Array]:
        epsilons = np.linspace(0.0, max(self.pair.reach(-40.0)[1], 1e-9), 4001)
        p, q = (np.cumsum(mass[::-1])[::-1][1:] for mass in self.pair.masses(epsilons))
        q = q * np.exp(epsilons)
        error = 4096 * EPS * (p + q)
        return epsilons, np.clip(p - q - error, 0.0, 1.0), np.clip(p - q + error, 0.0, 1.0)


def tail_of(
    epsilons: Array, lower: Array, upper: Array, fpr: float, *, between: bool = False, beyond: float = 0.0
) -> Interval:
    """inf of delta + e^epsilon fpr over epsilons; `between` them delta is linear in e^epsilon, or only convex.

    Past the last of them delta is at least `beyond`.
    """
    lines = np.exp(np.minimum(epsilons, 700.0)) * fpr
    least = (lower[1:] + lines[:-1]).min() if between else (lower + lines).min()
    least = min(float(least), beyond + float(lines[-1]), 1.0)
    return Interval(least, min(float((upper + lines).min()), 1.0))


def head_of(
    epsilons: Array, lower: Array, upper: Array, fpr: float, *, between: bool = False, beyond: float = 0.0
) -> Interval:
    """inf of 1 - e^-epsilon (1 - delta - fpr) over epsilons, in the same cases."""
    shrink = np.exp(-epsilons)
    free_low, free_high = np.maximum(1 - lower - fpr, 0.0), np.maximum(1 - upper - fpr, 0.0)
    most = (shrink[:-1] * free_low[1:]).max() if between else (shrink * free_low).max()
    most = max(float(most), float(shrink[-1]) * max(1 - beyond - fpr, 0.0))
    return Interval(1 - most, 1 - float((shrink * free_high).max()))


def invert(parts: Parts, delta: float, *, start: float) -> Interval:
    """Both ends of epsilon, moved away from the root of delta until their own evaluation shows them."""
    root, move = _root(parts, delta, start)
    low, high, away = min(root, FAR), root, move
    while low > 0 and ends(*parts(low)).lower <= delta:
        low, away = max(low - away, 0.0), 3 * away
    while high < math.inf and ends(*parts(high)).upper > delta:
        high, move = high + move, 3 * move
    return Interval(low, high)


def _root(parts: Parts, delta: float, start: float) -> tuple[float, float]:
    """Newton's method on log delta, kept inside a bracket, until rounding hides the rest; and how much that may be.

    The derivative of delta is -second.
    """
    low, high, epsilon = 0.0, math.inf, 0.0
    for _ in range(200):
        first, second, error = parts(epsilon)
        value = first - second
        if value > delta:
            low = epsilon
        else:
            high = epsilon
        if high == 0.0 or low > FAR:
            return (0.0 if high == 0.0 else math.inf), 1e-18
        move = math.log(value / delta) * value / second if value > 0 and second > 0 else math.inf
        if abs(value - delta) <= error or abs(move) <= EPS * epsilon or high - low <= 2 * EPS * low:
            return epsilon, 1.1 * error / max(second, 1e-300) + 2 * EPS * epsilon + 1e-18
        ahead = epsilon + move
        if not low < ahead < min(high, 2 * FAR):
            ahead = (low + high) / 2 if high < math.inf else max(2 * low, start)
        epsilon = ahead
    return epsilon, 1e-15 * epsilon + 1e-18
