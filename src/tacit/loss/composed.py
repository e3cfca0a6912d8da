"""The privacy loss of a composition: a lazy multiset of releases, read only when asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ..core import check
from ..core.interval import Interval
from ..core.privacy_loss import PrivacyLoss
from .closed import Direction, GaussianTotal, Never, Once, Single
from .lattice import Lattice
from .noise import GaussianNoise
from .pairs import Discrete, Location, Pair
from .quadrature import NotMet
from .saddle import Saddle

Counted = tuple[tuple[Pair, int], ...]


@dataclass(frozen=True)
class Release:
    """One release: its dominating pair when P holds the record (`remove`) and when Q holds it (`add`)."""

    remove: Pair
    add: Pair

    @classmethod
    def symmetric(cls, pair: Pair) -> Release:
        return cls(pair, pair)

    @classmethod
    def mirrored(cls, pair: Pair) -> Release:
        return cls(pair, pair.mirrored())


@dataclass(frozen=True)
class Composed(PrivacyLoss):
    """Releases with their counts. Both directions stay separate to the last step (Lebeda et al. 2024)."""

    releases: tuple[tuple[Release, int], ...] = ()

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        if not isinstance(other, Composed):
            return NotImplemented
        counts = dict(self.releases)
        for release, count in other.releases:
            counts[release] = counts.get(release, 0) + count
        return Composed(tuple(counts.items()))

    def __rmul__(self, times: int) -> Composed:
        times = check.whole("the number of repetitions", times, least=0)
        return Composed(tuple((release, times * count) for release, count in self.releases if times))

    def epsilon(self, delta: float) -> Interval:
        delta = check.delta(delta)
        first, *rest = self._directions
        found = first.epsilon(delta)
        for other in rest:
            found = _larger(found, other.epsilon(delta, found.lower))
        return found

    def delta(self, epsilon: float) -> Interval:
        epsilon = check.nonnegative("epsilon", epsilon)
        first, *rest = self._directions
        found = first.delta(epsilon)
        for other in rest:
            found = _larger(found, other.delta(epsilon))
        return found

    def advantage(self) -> Interval:
        return self.delta(0.0)

    def tradeoff(self, fpr: float) -> Interval:
        r"""max over directions of inf_K H_K(P, Q) + K fpr; K < 1 is read from the other direction.

        Reference: Dong, Roth and Su 2022, Proposition 2.12; H_K(P, Q) = 1 - K + K H_{1/K}(Q, P).
        """
        fpr = check.probability("fpr", fpr)
        ways = self._directions
        curves = [_smaller(way.tail(fpr), back.head(fpr)) for way, back in zip(ways, reversed(ways), strict=True)]
        best = curves[0] if len(curves) == 1 else _larger(*curves)
        return Interval(max(best.lower, fpr), max(best.upper, fpr))

    @cached_property
    def _directions(self) -> tuple[Direction, ...]:
        remove = tuple((release.remove, count) for release, count in self.releases)
        add = tuple((release.add, count) for release, count in self.releases)
        return (direction(remove),) if remove == add else (direction(remove), direction(add))


@dataclass(frozen=True)
class Fast:
    """The contour integral, and the lattice where its budget cannot be met."""

    saddle: Saddle
    lattice: Lattice

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta == 0 or self.lattice.largest <= known:
            return self.lattice.epsilon(delta, known)
        try:
            return self.saddle.epsilon(delta)
        except NotMet:
            below = known > 0 and self.saddle.at_most(known, delta)
            return Interval(0.0, known) if below else self.lattice.epsilon(delta, known)

    def delta(self, epsilon: float) -> Interval:
        if self.lattice.largest <= epsilon:
            return Interval(0.0, 0.0)
        try:
            return self.saddle.delta(epsilon)
        except NotMet:
            return self.lattice.delta(epsilon)

    def tail(self, fpr: float) -> Interval:
        return self.lattice.tail(fpr)

    def head(self, fpr: float) -> Interval:
        return self.lattice.head(fpr)


def direction(pairs: Counted) -> Direction:
    """The sharpest reader: closed form, contour, then lattice."""
    if any(pair.infinite == 1 for pair, _ in pairs):
        return Never()
    if all(mu(pair) is not None for pair, _ in pairs):
        return GaussianTotal(math.sqrt(math.fsum(count * (mu(pair) or 0.0) ** 2 for pair, count in pairs)))
    if len(pairs) == 1 and pairs[0][1] == 1:
        only = pairs[0][0]
        if isinstance(only, Discrete):
            return Once(only)
        if isinstance(only, Location):
            return Single(only)
    saddle = Saddle.of(pairs)
    return Lattice(pairs) if saddle is None else Fast(saddle, Lattice(pairs))


def mu(pair: Pair) -> float | None:
    """Shift over standard deviation of a plain Gaussian pair, None for any other."""
    if isinstance(pair, Location) and isinstance(pair.noise, GaussianNoise) and len(pair.p) == len(pair.q) == 1:
        return (pair.p[0][1] - pair.q[0][1]) / pair.noise.scale
    return None


def _larger(a: Interval, b: Interval) -> Interval:
    return Interval(max(a.lower, b.lower), max(a.upper, b.upper))


def _smaller(a: Interval, b: Interval) -> Interval:
    return Interval(min(a.lower, b.lower), min(a.upper, b.upper))
