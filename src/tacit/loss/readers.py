"""Which method reads one direction of a composition: closed form, contour, lattice, and plain theorems behind them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..core.errors import TacitError
from ..core.interval import Interval
from .closed import Direction, GaussianTotal, Never, Once, OneHuge, Single, Unknown
from .lattice import Lattice
from .noise import GaussianNoise
from .pairs import Discrete, Huge, Location, Pair
from .plain import Counted, delta_at_most, epsilon_at_most
from .quadrature import NotMet
from .saddle import Saddle

FAILED = (NotMet, ArithmeticError, ValueError)
"""How a method says that its numbers do not hold this loss."""
MODEST = 100.0
"""An epsilon above this, or from a lattice alone, is compared with what the plain theorems give."""


@dataclass(frozen=True)
class Fast:
    """The contour integral, and the lattice where its budget cannot be met."""

    saddle: Saddle
    lattice: Lattice

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta == 0 or (known > 0 and self.lattice.largest <= known):
            return self.lattice.epsilon(delta, known)
        try:
            return self.saddle.epsilon(delta, known)
        except FAILED:
            return self.lattice.epsilon(delta, known)

    def delta(self, epsilon: float) -> Interval:
        if self.lattice.largest <= epsilon:
            return Interval(0.0, 0.0)
        try:
            return self.saddle.delta(epsilon)
        except FAILED:
            return self.lattice.delta(epsilon)

    def tail(self, fpr: float) -> Interval:
        return self.lattice.tail(fpr)

    def head(self, fpr: float) -> Interval:
        return self.lattice.head(fpr)


@dataclass(frozen=True)
class Sure:
    """A reader with the plain theorems behind it: what it cannot answer they bound from above."""

    reader: Direction
    pairs: Counted

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        found = _read(lambda: self.reader.epsilon(delta, known))
        quick = found.upper <= MODEST and not isinstance(self.reader, Lattice)
        if quick or found.lower == math.inf:
            return found
        most = epsilon_at_most(self.pairs, delta)
        return found if found.upper <= most else Interval(min(found.lower, most), max(most, known))

    def delta(self, epsilon: float) -> Interval:
        found = _read(lambda: self.reader.delta(epsilon))
        if found.upper < 1:
            return found
        most = delta_at_most(self.pairs, epsilon)
        return Interval(min(found.lower, most), min(found.upper, most))

    def tail(self, fpr: float) -> Interval:
        return _power(lambda: self.reader.tail(fpr), fpr)

    def head(self, fpr: float) -> Interval:
        return _power(lambda: self.reader.head(fpr), fpr)


def _read(read: Callable[[], Interval]) -> Interval:
    try:
        return read()
    except FAILED as error:
        if isinstance(error, TacitError):
            raise
        return Interval(0.0, math.inf)


def _power(read: Callable[[], Interval], fpr: float) -> Interval:
    found = _read(read)
    return Interval(min(found.lower, 1.0), min(found.upper, 1.0))


def direction(pairs: Counted) -> Direction:
    """The sharpest reader: closed form, contour, then lattice."""
    if any(pair.infinite >= 1 for pair, _ in pairs):
        return Never() if any(pair.lower.infinite >= 1 for pair, _ in pairs) else Sure(Unknown(), pairs)
    if all(mu(pair) is not None for pair, _ in pairs):
        return GaussianTotal(math.sqrt(math.fsum(count * (mu(pair) or 0.0) ** 2 for pair, count in pairs)))
    if len(pairs) == 1 and pairs[0][1] == 1:
        only = pairs[0][0]
        if isinstance(only, Discrete):
            return Once(only)
        if isinstance(only, Location):
            return Sure(Single(only), pairs)
        if isinstance(only, Huge):
            return OneHuge(only)
    saddle = Saddle.of(pairs)
    return Sure(Lattice(pairs) if saddle is None else Fast(saddle, Lattice(pairs)), pairs)


def mu(pair: Pair) -> float | None:
    """Shift over standard deviation of a plain Gaussian pair, None for any other."""
    if isinstance(pair, Location) and type(pair.noise) is GaussianNoise and len(pair.p) == len(pair.q) == 1:
        return (pair.p[0][1] - pair.q[0][1]) / pair.noise.scale
    return None
