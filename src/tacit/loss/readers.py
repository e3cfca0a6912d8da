"""Which method reads one direction of a composition: closed form, contour, lattice, and plain theorems behind them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.errors import TacitError
from ..core.interval import Interval
from .bounded import Huge
from .cached import cached
from .closed import Between, Direction, GaussianTotal, Never, Once, OneHuge, Single, Unknown
from .computed import Tabulated
from .lattice import SIZES, Lattice
from .noise import Array, GaussianNoise
from .pairs import Discrete, Location, Pair
from .plain import Counted, delta_at_most, epsilon_at_most
from .quadrature import NotMet
from .saddle import GAP, Saddle, Wide
from .table import Table
from .window import EPS, TOLD

FAILED = (NotMet, ArithmeticError, ValueError)
"""How a method says that its numbers do not hold this loss."""
MODEST = 100.0
"""An epsilon above this, or from a lattice with a wide gap, is compared with what the plain theorems give."""
SMALL = 1e-2
"""A gap below which Renyi divergences could not help much; nor where a lattice without lower end, which looks at the
same moments, has an epsilon of at most 1."""
APART = 0.01
"""Ends of a true-positive rate that are apart by more than this share of its distance from guessing are sharpened."""
Power = Callable[[float], Interval]
WIDE = 1.05
"""Ends that are apart by more than this factor are read in another way, too, where there is one."""


@dataclass(frozen=True)
class Fast:
    """The contour integral, and the lattice where its budget cannot be met."""

    saddle: Saddle
    lattice: Lattice

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta == 0 or self.saddle.steep or (known > 0 and self.lattice.largest <= known):
            return self.lattice.epsilon(delta, known)
        try:
            return self.saddle.epsilon(delta, known)
        except FAILED as error:
            found = error.found if isinstance(error, Wide) else Interval(0.0, math.inf)
        return _both(found, _read(lambda: self.lattice.epsilon(delta, known)))

    def delta(self, epsilon: float) -> Interval:
        if self.lattice.largest <= epsilon:
            return Interval(0.0, 0.0)
        try:
            return self.saddle.delta(epsilon)
        except FAILED as error:
            found = error.found if isinstance(error, Wide) else Interval(0.0, 1.0)
        return _both(found, self.lattice.delta(epsilon))

    def deltas(self, epsilons: Array) -> Array:
        """Upper ends of delta at many rising epsilons."""
        inside = epsilons < self.lattice.largest
        found = np.zeros(epsilons.shape)
        try:
            found[inside] = self.saddle.deltas(epsilons[inside])
        except FAILED:
            found[inside] = self.lattice.deltas(epsilons[inside])
        return found

    def tail(self, fpr: float) -> Interval:
        return self._power(self.lattice.tail, self.saddle.tail, fpr)

    def head(self, fpr: float) -> Interval:
        return self._power(self.lattice.head, self.saddle.head, fpr)

    def _power(self, coarse: Power, sharp: Power, fpr: float) -> Interval:
        """From the lattice, whose profile serves all rates, and where its ends are far apart from contours, too."""
        found = _power(lambda: coarse(fpr))
        if found.upper - found.lower <= APART * (found.upper - fpr) or not 0 < fpr < 1:
            return found
        try:
            return _both(found, sharp(fpr))
        except FAILED:
            return found


@dataclass(frozen=True)
class Sure:
    """A reader with the plain theorems behind it: what it cannot answer they bound from above."""

    reader: Direction
    pairs: Counted

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        found = _read(lambda: self.reader.epsilon(delta, known))
        if found.lower == math.inf or found.upper <= known:
            return found
        coarse = isinstance(self.reader, Lattice | Table)
        if not coarse and (found.upper <= MODEST or found.gap <= GAP):
            return found
        small = found.gap <= SMALL or (isinstance(self.reader, Lattice) and not self.reader.tight and found.upper <= 1)
        most = epsilon_at_most(self.pairs, delta, moments=found.upper > MODEST or not small)
        return found if found.upper <= most else Interval(min(found.lower, most), max(most, known))

    def delta(self, epsilon: float) -> Interval:
        found = _read(lambda: self.reader.delta(epsilon))
        if found.upper < 1:
            return found
        most = delta_at_most(self.pairs, epsilon)
        return Interval(min(found.lower, most), min(found.upper, most))

    def tail(self, fpr: float) -> Interval:
        return _power(lambda: self.reader.tail(fpr))

    def head(self, fpr: float) -> Interval:
        return _power(lambda: self.reader.head(fpr))


@dataclass(frozen=True)
class Levelled:
    """Pairs that are computed in several ways: the way for the delta in question has a reader of its own.

    What tells nothing is left out, and where only the upper end is wanted, what tells all with probability c and else
    nothing is taken from delta: delta(epsilon) = c + (1 - c) delta'(epsilon).
    """

    pairs: Counted
    tight: bool

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        if delta == 0:
            return self._whole.epsilon(0.0, known)
        found = self._read(delta, delta, known)
        for size in SIZES:  # a way that is meant for smaller deltas may be sharper
            if size < delta and 0 < found.lower < found.upper / WIDE:
                other = self._read(delta, size, known)
                lower = max(found.lower, other.lower)
                found = Interval(lower, max(min(found.upper, other.upper), lower))
        most = self._whole.largest
        return found if found.upper <= most else Interval(min(found.lower, most), most)

    def _read(self, delta: float, size: float, known: float) -> Interval:
        """Epsilon from the ways for deltas of this size."""
        told, rest = 0.0, []
        for pair, count in self.pairs:
            chosen = pair.level(size)
            chance = None if self.tight else _blunt(chosen)
            if chance is None:
                rest.append((chosen, count))
            else:
                told += count * chance
        left = (delta - told * (1 + TOLD + EPS * len(self.pairs))) * (1 - 1e-12) if told else delta  # 1 - c <= 1
        if left < 0 or not rest:
            return Interval(0.0, math.inf if left < 0 else 0.0)
        return direction(tuple(rest), tight=self.tight).epsilon(left, known)

    def delta(self, epsilon: float) -> Interval:
        return self._whole.delta(epsilon)

    def deltas(self, epsilons: Array) -> Array:
        """Upper ends of delta at many epsilons."""
        return self._whole.deltas(epsilons)

    def tail(self, fpr: float) -> Interval:
        return self._whole.tail(fpr)

    def head(self, fpr: float) -> Interval:
        return self._whole.head(fpr)

    @cached
    def _whole(self) -> Lattice:
        return Lattice(self.pairs, tight=self.tight)


def _blunt(pair: Pair) -> float | None:
    """The chance to tell all of a pair that else tells nothing; None for any other pair."""
    if not isinstance(pair, Discrete) or any(p > 0 and q > 0 and p != q for p, q in pair.atoms):
        return None
    return pair.infinite


def deltas_at_most(way: Direction, epsilons: Array) -> Array:
    """Upper ends of delta at many rising epsilons; in few passes where there is no closed form."""
    reader = way.reader if isinstance(way, Sure) else way
    try:
        if isinstance(reader, Fast | Lattice | Levelled):
            return reader.deltas(epsilons)
    except FAILED:
        pass
    return np.array([way.delta(float(epsilon)).upper for epsilon in epsilons])


def heads_and_tails(way: Direction, fprs: Array) -> tuple[Array, Array]:
    """Upper ends of `head` and of `tail` at many rates; in one pass where a lattice is what answers."""
    reader = way.reader if isinstance(way, Sure) else way
    if isinstance(reader, Fast | Levelled):
        reader = reader.lattice if isinstance(reader, Fast) else reader._whole
    try:
        if isinstance(reader, Lattice):
            return reader.heads_and_tails(fprs)
    except FAILED as error:
        if isinstance(error, TacitError):
            raise
    heads, tails = ([read(float(fpr)).upper for fpr in fprs] for read in (way.head, way.tail))
    return np.array(heads), np.array(tails)


def _read(read: Callable[[], Interval]) -> Interval:
    try:
        return read()
    except FAILED as error:
        if isinstance(error, TacitError):
            raise
        return Interval(0.0, math.inf)


def _both(one: Interval, other: Interval) -> Interval:
    """What two certified readings of one number say together."""
    return Interval(max(one.lower, other.lower), min(one.upper, other.upper))


def _power(read: Callable[[], Interval]) -> Interval:
    found = _read(read)
    return Interval(min(found.lower, 1.0), min(found.upper, 1.0))


def direction(pairs: Counted, *, tight: bool = True, gap: float | None = GAP) -> Direction:
    """The sharpest reader: closed form, contour, then lattice; lower ends only where the pairs are `tight`.

    A larger `gap` lets the contour end its search sooner, and without one there is no contour.
    """
    if not all(_gaussian(pair) for pair, _ in pairs) and (way := _bracketed(pairs, tight, gap)):
        return way
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
        if isinstance(only.upper, Tabulated) and isinstance(only.lower, Tabulated):
            return Sure(Table(only.upper, only.lower, tight), pairs)
    saddle = None if gap is None else Saddle.of(pairs, gap)
    lattice = Lattice(pairs, tight=tight)
    return Sure(lattice if saddle is None else Fast(saddle, lattice), pairs)


def _bracketed(pairs: Counted, tight: bool, gap: float | None) -> Direction | None:
    """The reader of pairs that tell all, or whose ends are pairs of their own."""
    if any(pair.leveled for pair, _ in pairs):
        return Sure(Levelled(pairs, tight), pairs)
    if any(pair.infinite >= 1 for pair, _ in pairs):
        return Never() if any(pair.lower.infinite >= 1 for pair, _ in pairs) else Sure(Unknown(), pairs)
    if any(pair.upper is not pair.lower for pair, _ in pairs) and all(_gaussian(pair.upper) for pair, _ in pairs):
        above = tuple((pair.upper, count) for pair, count in pairs)
        below = tuple((pair.lower, count) for pair, count in pairs if _gaussian(pair.lower))  # what else is there helps
        return Between(direction(below, gap=gap), direction(above, gap=gap))
    return None


def _gaussian(pair: Pair) -> bool:
    """Whether it is Gaussian noise, alone or on a sample."""
    return isinstance(pair, Location) and type(pair.noise) is GaussianNoise


def mu(pair: Pair) -> float | None:
    """Shift over standard deviation of a plain Gaussian pair, None for any other."""
    if isinstance(pair, Location) and type(pair.noise) is GaussianNoise and len(pair.p) == len(pair.q) == 1:
        return (pair.p[0][1] - pair.q[0][1]) / pair.noise.scale
    return None
