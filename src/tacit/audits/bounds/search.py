"""Searching for the epsilon, or the factor of a family's noise, that fits; what is ruled out the test alone decides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

CLOSE = 1e-5
COARSE = 1e-3
"""Relative widths to which a factor is found; the side that is ruled out is reported."""
WIDEST = 2.0**12
"""The largest factor by which a family's noise is rescaled, either way."""
LONGEST = math.log(2.0)
"""One step of the search; small steps keep away from members with next to no noise, which are costly to account."""


def largest(ruled_out: Callable[[float], bool]) -> float:
    """The largest epsilon found that is ruled out, 0 when none is: doubled, then halved to within a thousandth."""
    low, high = 0.0, 1.0
    if not ruled_out(low):
        return 0.0
    while ruled_out(high):
        low, high = high, 2 * high
    while high - low > COARSE:
        middle = (low + high) / 2
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


@dataclass
class Search:
    """`open` is the largest factor not ruled out, `shut` the smallest that is; `factor` is to be tried next.

    From the start the steps double until both are known, then the bracket is halved.
    """

    factor: float = 1.0
    close: float = COARSE
    stride: float = LONGEST
    open: float = 0.0
    shut: float = math.inf

    @property
    def done(self) -> bool:
        return self.shut <= self.open * (1 + self.close) or self.open >= WIDEST or self.shut <= 1 / WIDEST

    def note(self, ruled_out: bool) -> None:
        """Take in what one factor showed and propose the next."""
        if ruled_out:
            self.shut = min(self.shut, self.factor)
        else:
            self.open = max(self.open, self.factor)
        self.factor = self._next(ruled_out)

    def _next(self, ruled_out: bool) -> float:
        if self.open > 0.0 and math.isfinite(self.shut):
            return math.sqrt(self.open * self.shut)
        self.stride = min(2 * self.stride, LONGEST)
        return self.factor * math.exp(-self.stride if ruled_out else self.stride)


@dataclass
class Secant(Search):
    """Led by `excess(factor)`, which is 0 at the root and falls about as fast as log(factor)."""

    def __init__(self, excess: Callable[[float], float]) -> None:
        super().__init__(close=CLOSE)
        self.excess = excess
        self.last: tuple[float, float] | None = None

    def _next(self, ruled_out: bool) -> float:
        """The next factor: just past the estimated root, or the middle of the bracket if that lies outside."""
        here, excess, slope = math.log(self.factor), self.excess(self.factor), -1.0
        if self.last is not None and here != self.last[0]:
            slope = min(max((excess - self.last[1]) / (here - self.last[0]), -4.0), -0.25)
        self.last = (here, excess)
        step = -excess / slope + (-self.close / 3 if ruled_out else self.close / 3)
        factor = self.factor * math.exp(min(max(step, -LONGEST), LONGEST))
        return factor if self.open < factor < self.shut else super()._next(ruled_out)
