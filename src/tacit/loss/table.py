r"""A single pair that is given by a table of outcomes, read outcome by outcome.

delta(epsilon) = P(L = infinity) + sum over outcomes with L > epsilon of p - e^epsilon q: sums from above are made once,
so that an evaluation is one search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.interval import Interval
from .cached import cached
from .closed import ends, head_of, invert, tail_of
from .computed import Tabulated
from .noise import EPS, Array

CLOSE = 1e-14
"""Losses that are apart by less than this, over one plus their size, are not told apart."""


@dataclass(frozen=True, eq=False)
class _Side:
    """One table, with its sums from above."""

    pair: Tabulated

    @cached
    def _sums(self) -> tuple[Array, Array]:
        p, q = (np.append(np.cumsum(mass[::-1])[::-1], 0.0) for mass in (self.pair.p, self.pair.q))
        return p, q

    def parts(self, epsilon: float) -> tuple[float, float, float]:
        """P(E), e^epsilon Q(E) of the outcomes beyond epsilon, and a bound of the error of their difference."""
        above, over = self._sums
        at, near = np.searchsorted(
            self.pair.losses, [epsilon, epsilon - CLOSE * (1 + abs(epsilon))], side="right"
        ).tolist()
        scale = math.exp(min(epsilon, 700.0))
        first, second = float(above[near]), scale * float(over[near])
        share = self.pair.off + EPS * (self.pair.p.size + 16 + epsilon)
        error = share * (first + second) + 4 * CLOSE * (1 + epsilon) * float(above[near] - above[at])
        told = self.pair.tells_all
        return first + told, second, 1.01 * error + 16 * EPS * told

    @property
    def largest(self) -> float:
        """The supremum of the loss, from above; a table that was computed from a pair has no larger one than that.

        Losses of a table are logarithms of masses, and so off by what those are off.
        """
        plain = self.pair.plain
        if plain is not None and plain.infinite == 0 and math.isfinite(plain.largest):
            return max(plain.largest, 0.0)
        if self.pair.tells_all > 0:
            return math.inf
        return max(float(self.pair.losses[-1]) + 2 * self.pair.off, 0.0) if self.pair.losses.size else 0.0

    @property
    def reached(self) -> float:
        """The supremum of the loss, from below."""
        if self.pair.tells_all > 0:
            return math.inf
        return max(float(self.pair.losses[-1]) - 2 * self.pair.off, 0.0) if self.pair.losses.size else 0.0

    def epsilon(self, delta: float) -> Interval:
        if self.pair.tells_all * (1 - 16 * EPS - self.pair.off) > delta and math.isinf(self.largest):
            return Interval(math.inf, math.inf)
        if self.pair.tells_all * (1 + 16 * EPS + self.pair.off) >= delta:
            return Interval(0.0, self.largest * (1 + 8 * EPS))
        found = invert(self.parts, delta, start=1.0)
        if math.isinf(self.largest):
            return found
        largest = self.largest * (1 + 8 * EPS)
        return Interval(min(found.lower, largest), min(found.upper, largest))


@dataclass(frozen=True, eq=False)
class Table:
    """Certified ends for one direction of a release: `above` is a table that dominates it, `below` one it dominates."""

    above: Tabulated
    below: Tabulated
    tight: bool = True

    @cached
    def _sides(self) -> tuple[_Side, _Side]:
        above = _Side(self.above)
        return above, above if self.below is self.above else _Side(self.below)

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        above, below = self._sides
        if delta == 0:
            lower, upper = below.reached, above.largest
            return Interval(min(lower * (1 - 8 * EPS), upper), upper * (1 + 8 * EPS))
        if known == math.inf or (known > 0 and ends(*above.parts(known)).upper <= delta):
            return Interval(0.0, known)
        most = above.epsilon(delta)
        if not self.tight:
            return Interval(0.0, most.upper)
        least = most if below is above else below.epsilon(delta)
        return Interval(min(least.lower, most.upper), most.upper)

    def delta(self, epsilon: float) -> Interval:
        above, below = self._sides
        upper = ends(*above.parts(epsilon)).upper
        return Interval(min(ends(*below.parts(epsilon)).lower, upper) if self.tight else 0.0, upper)

    def tail(self, fpr: float) -> Interval:
        return tail_of(*self._profile, fpr, between=True)

    def head(self, fpr: float) -> Interval:
        return head_of(*self._profile, fpr, between=True)

    @cached
    def _profile(self) -> tuple[Array, Array, Array]:
        largest = max(float(self.above.losses[-1]), 1e-9) if self.above.losses.size else 1e-9
        epsilons = np.linspace(0.0, min(largest, 600.0), 1001)
        found = [self.delta(float(epsilon)) for epsilon in epsilons]
        return epsilons, np.array([item.lower for item in found]), np.array([item.upper for item in found])
