r"""Directions whose delta(epsilon) has a closed form, read with a running error bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from ..core.interval import Interval
from .noise import Array
from .pairs import Discrete, Location

EPS = float(np.finfo(float).eps)


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
class GaussianTotal:
    r"""A Gaussian mechanism with mu = sensitivity / standard deviation; Gaussians compose to mu^2 = sum mu_i^2.

    delta(epsilon) = Phi(-a) - e^epsilon Phi(-b), a = epsilon/mu - mu/2, b = epsilon/mu + mu/2;
    e^epsilon Phi(-b) = e^{-a^2/2} erfcx(b/sqrt 2)/2, as epsilon = (b^2 - a^2)/2: nothing overflows.
    Reference: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 3.3.
    """

    mu: float

    def delta(self, epsilon: float) -> Interval:
        if self.mu == 0:
            return Interval(0.0, 0.0)
        a, b = epsilon / self.mu - self.mu / 2, epsilon / self.mu + self.mu / 2
        scale = math.exp(-a * a / 2) / 2
        second = scale * float(erfcx(b / math.sqrt(2)))
        if a > 0:
            first = scale * float(erfcx(a / math.sqrt(2)))
            first_error = (16 + 2 * a * b) * EPS * first
        else:
            first = float(ndtr(-a))
            first_error = (16 + 2 * b) * EPS * first
        error = first_error + (16 + 2 * b * b + epsilon) * EPS * second + 1e-320
        return Interval(max(first - second - error, 0.0), min(max(first - second + error, 0.0), 1.0))

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta == 0 and self.mu > 0:
            return Interval(math.inf, math.inf)
        return invert(self.delta, delta, start=self.mu * (self.mu + 4) + 1)

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
class Once:
    """A single discrete pair, summed outcome by outcome."""

    pair: Discrete

    def delta(self, epsilon: float) -> Interval:
        terms = [p - math.exp(min(epsilon, 700.0)) * q for p, q in self.pair.atoms]
        value = math.fsum(term for term in terms if term > 0)
        error = 8 * EPS * math.fsum(p for (p, _), term in zip(self.pair.atoms, terms, strict=True) if term > -EPS)
        error = min(error, value + error) if value > 0 else 0.0
        return Interval(max(value - error, 0.0), min(value + error, 1.0))

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta < self.pair.infinite:
            return Interval(math.inf, math.inf)
        largest = max([loss for loss, _, _ in self.pair.losses()], default=0.0)
        if delta == self.pair.infinite:
            return Interval(max(largest, 0.0) * (1 - 4 * EPS), max(largest, 0.0) * (1 + 4 * EPS))
        return invert(self.delta, delta, start=max(largest, 0.0) + 1)

    def tail(self, fpr: float) -> Interval:
        return tail_of(*self._profile(), fpr)

    def head(self, fpr: float) -> Interval:
        return head_of(*self._profile(), fpr)

    def _profile(self) -> tuple[Array, Array, Array]:
        kinks = [0.0] + [loss for loss, _, _ in self.pair.losses() if loss > 0]
        ends = [self.delta(kink) for kink in kinks]
        return np.array(kinks), np.array([d.lower for d in ends]), np.array([d.upper for d in ends])


@dataclass(frozen=True)
class Single:
    r"""A single location pair: the best test is a threshold x, and an error in x counts only to second order.

    delta(epsilon) = P(X > x) - e^epsilon Q(X > x), where the loss at x is epsilon.
    """

    pair: Location

    def delta(self, epsilon: float) -> Interval:
        masses = self.pair.masses(np.array([epsilon]))
        p, q = float(masses[0][1]), float(masses[1][1]) * math.exp(min(epsilon, 700.0))
        place = float(np.abs(self.pair.position(np.array([epsilon])))[0]) / self.pair.noise.scale
        error = EPS * (64 + abs(epsilon) + 4 * min(place, 40.0) ** 2) * (p + q)
        return Interval(min(max(p - q - error, 0.0), 1.0), min(max(p - q + error, 0.0), 1.0))

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        top = self.pair.largest if delta == 0 else math.inf
        if delta == 0:
            return Interval(max(top, 0.0) * (1 - 8 * EPS), max(top, 0.0) * (1 + 8 * EPS))
        return invert(self.delta, delta, start=1.0)

    def tail(self, fpr: float) -> Interval:
        return tail_of(*self._profile, fpr, between=True)

    def head(self, fpr: float) -> Interval:
        return head_of(*self._profile, fpr, between=True)

    @cached_property
    def _profile(self) -> tuple[Array, Array, Array]:
        epsilons = np.linspace(0.0, max(self.pair.reach(-40.0)[1], 1e-9), 4001)
        p, q = (np.cumsum(mass[::-1])[::-1][1:] for mass in self.pair.masses(epsilons))
        q = q * np.exp(epsilons)
        error = 4096 * EPS * (p + q)
        return epsilons, np.clip(p - q - error, 0.0, 1.0), np.clip(p - q + error, 0.0, 1.0)


def tail_of(epsilons: Array, lower: Array, upper: Array, fpr: float, *, between: bool = False) -> Interval:
    """inf of delta + e^epsilon fpr over epsilons; `between` them delta is linear in e^epsilon, or only convex."""
    lines = np.exp(np.minimum(epsilons, 700.0)) * fpr
    least = (lower[1:] + lines[:-1]).min() if between else (lower + lines).min()
    return Interval(min(float(least), 1.0), min(float((upper + lines).min()), 1.0))


def head_of(epsilons: Array, lower: Array, upper: Array, fpr: float, *, between: bool = False) -> Interval:
    """inf of 1 - e^-epsilon (1 - delta - fpr) over epsilons, in the same two cases."""
    shrink = np.exp(-epsilons)
    free_low, free_high = np.maximum(1 - lower - fpr, 0.0), np.maximum(1 - upper - fpr, 0.0)
    most = (shrink[:-1] * free_low[1:]).max() if between else (shrink * free_low).max()
    return Interval(1 - float(most), 1 - float((shrink * free_high).max()))


def invert(delta_at: Callable[[float], Interval], delta: float, *, start: float) -> Interval:
    """Both ends of epsilon by bisection on certified ends of delta; each end is verified by its own evaluation."""
    return Interval(
        _cross(lambda e: delta_at(e).lower, delta, start)[0],
        _cross(lambda e: delta_at(e).upper, delta, start)[1],
    )


def _cross(value: Callable[[float], float], delta: float, start: float) -> tuple[float, float]:
    """The last epsilon seen with value above `delta` and the first one at or below: Illinois on log value."""
    if value(0.0) <= delta:
        return 0.0, 0.0
    low, high, above, below = 0.0, start, value(0.0), value(start)
    while below > delta:
        low, high, above = high, 2 * high, below
        if high > 1e16:
            return low, math.inf
        below = value(high)
    log: Callable[[float], float] = lambda number: math.log(max(number, 1e-320) / delta)  # noqa: E731
    y_low, y_high, side = log(above), log(below), 0
    for step in range(200):
        if high - low <= 2e-15 * high:
            break
        middle = (low + high) / 2 if step % 3 == 2 or y_high == 0 else (low * y_high - high * y_low) / (y_high - y_low)
        if not low < middle < high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
        found = value(middle)
        if found > delta:
            low, y_low, y_high, side = middle, log(found), y_high / 2 if side > 0 else y_high, 1
        else:
            high, y_high, y_low, side = middle, log(found), y_low / 2 if side < 0 else y_low, -1
    return low, high
