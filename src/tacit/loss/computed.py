"""Pairs that are computed by numerics: tables of many outcomes, brackets between two pairs, and several ways at once.

Pairs with formulas of their own are in `pairs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .noise import Array
from .pairs import Pair


@dataclass(frozen=True, eq=False)
class Tabulated(Pair):
    """Many outcomes, given by rising losses with their P and Q masses; equal only to itself.

    `plain` is a pair without numerics that dominates it, too, if one is known.
    """

    losses: Array
    p: Array
    q: Array
    tells_all: float = 0.0
    mirror_tells_all: float = 0.0
    plain: Pair | None = None
    off: float = 0.0
    """How far off masses may be, relatively."""

    @property
    def infinite(self) -> float:
        return self.tells_all

    @property
    def doubt(self) -> float:
        return self.off

    def mirrored(self) -> Tabulated:
        back = -self.losses[::-1], self.q[::-1], self.p[::-1]
        plain = None if self.plain is None else self.plain.mirrored()
        return Tabulated(*back, self.mirror_tells_all, self.tells_all, plain, self.off)

    def masses(self, losses: Array) -> tuple[Array, Array]:
        cells = np.searchsorted(losses, self.losses, side="left")
        count = losses.size + 1
        p, q = (np.bincount(cells, mass, count).astype(np.float64) for mass in (self.p, self.q))
        return p, q

    def reach(self, log_mass: float) -> tuple[float, float]:
        if not self.p.size:
            return 0.0, 0.0
        allowed = math.exp(log_mass)
        first = int(np.searchsorted(np.cumsum(self.p), allowed, side="right"))
        last = self.p.size - 1 - int(np.searchsorted(np.cumsum(self.p[::-1]), allowed, side="right"))
        return float(self.losses[min(first, self.p.size - 1)]), float(self.losses[max(last, 0)])


@dataclass(frozen=True)
class Weighted(Pair):
    """A mixture of pairs with public weights, in which the observer learns which pair was drawn."""

    parts: tuple[tuple[float, Pair], ...]

    def mirrored(self) -> Weighted:
        return Weighted(tuple((weight, pair.mirrored()) for weight, pair in self.parts))

    @property
    def largest(self) -> float:
        return max(pair.largest for _, pair in self.parts)

    def renyi(self, tilts: Array) -> Array | None:
        """The largest of the parts': divergences are quasi-convex (van Erven and Harremoes 2014, Theorem 13)."""
        found = [pair.renyi(tilts) for _, pair in self.parts]
        return None if any(curve is None for curve in found) else np.asarray(np.max(np.array(found), axis=0))

    @property
    def infinite(self) -> float:
        return sum(weight * pair.infinite for weight, pair in self.parts)

    @property
    def doubt(self) -> float:
        return max(pair.doubt for _, pair in self.parts)

    def masses(self, losses: Array) -> tuple[Array, Array]:
        p, q = np.zeros(losses.size + 1), np.zeros(losses.size + 1)
        for weight, pair in self.parts:
            mine, others = pair.masses(losses)
            p, q = p + weight * mine, q + weight * others
        return p, q

    def reach(self, log_mass: float) -> tuple[float, float]:
        ends = [pair.reach(log_mass) for _, pair in self.parts]
        return min(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True)
class Bracketed(Pair):
    """A pair that is only known to be dominated by `above` and to dominate `below`."""

    above: Pair
    below: Pair

    @property
    def leveled(self) -> bool:
        return self.above.leveled or self.below.leveled

    @property
    def doubt(self) -> float:
        return max(self.above.doubt, self.below.doubt)

    def level(self, delta: float) -> Bracketed:
        return Bracketed(self.above.level(delta), self.below.level(delta)) if self.leveled else self

    @property
    def upper(self) -> Pair:
        return self.above

    @property
    def lower(self) -> Pair:
        return self.below

    @property
    def infinite(self) -> float:
        return self.above.infinite

    @property
    def largest(self) -> float:
        return self.above.largest

    def mirrored(self) -> Bracketed:
        return Bracketed(self.above.mirrored(), self.below.mirrored())

    def masses(self, losses: Array) -> tuple[Array, Array]:
        return self.above.masses(losses)

    def reach(self, log_mass: float) -> tuple[float, float]:
        return self.above.reach(log_mass)


@dataclass(frozen=True, eq=False)
class Levels(Pair):
    """One pair computed in several ways: (the least delta that a way is good for, how to compute it), falling.

    Each way is right on its own. `plain` is a pair without numerics that dominates all of them, if one is known; else
    `supremum` is a bound of the largest loss from below.
    """

    ways: tuple[tuple[float, Callable[[], Pair]], ...]
    plain: Pair | None = None
    back: bool = False
    supremum: float = 0.0

    def level(self, delta: float) -> Pair:
        make = next(make for least, make in self.ways if delta >= least)
        return make().mirrored() if self.back else make()

    @property
    def leveled(self) -> bool:
        return True

    @property
    def _usual(self) -> Pair:
        return self.level(1e-8)

    @property
    def infinite(self) -> float:
        return 0.0 if self.plain is None else self.plain.infinite

    @property
    def largest(self) -> float:
        return self.supremum if self.plain is None else self.plain.largest

    def mirrored(self) -> Levels:
        return Levels(self.ways, None if self.plain is None else self.plain.mirrored(), not self.back, self.supremum)

    def masses(self, losses: Array) -> tuple[Array, Array]:
        return self._usual.masses(losses)

    def reach(self, log_mass: float) -> tuple[float, float]:
        return self._usual.reach(log_mass)
