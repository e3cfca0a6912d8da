r"""Epsilon and delta of composed Gaussian location pairs by the contour integral: where to put it, and verified ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.interval import Interval
from .contour import Contour, Sum, contour, conversion
from .noise import Array, GaussianNoise
from .pairs import Location, Pair
from .quadrature import Nodes, NotMet

GAP = 1e-6
FLOOR = 1e-9
"""An answer counts as met when its gap is at most GAP relative to epsilon, or FLOOR absolutely."""


@dataclass(frozen=True)
class Saddle:
    """One direction: Gaussian location pairs with counts; plain Gaussians are summed into one."""

    pairs: tuple[tuple[Location, int], ...]
    gaussian: float = 0.0

    @classmethod
    def of(cls, counted: tuple[tuple[Pair, int], ...]) -> Saddle | None:
        """None where a pair is not a Gaussian location pair."""
        mixed: list[tuple[Location, int]] = []
        squares = 0.0
        for pair, count in counted:
            if not (isinstance(pair, Location) and isinstance(pair.noise, GaussianNoise)):
                return None
            if len(pair.p) == len(pair.q) == 1:
                squares += count * ((pair.p[0][1] - pair.q[0][1]) / pair.noise.scale) ** 2
            else:
                mixed.append((pair, count))
        return cls(tuple(mixed), math.sqrt(squares)) if mixed else None

    def epsilon(self, delta: float) -> Interval:
        """Raises NotMet when the error budget cannot be met."""
        log_delta = math.log(delta)
        bound = lambda total, t: (total.log_moments(t) + conversion(t) - log_delta) / t  # noqa: E731
        total, tilt, chernoff = self._placed(log_delta, bound)
        if chernoff <= 0:
            return Interval(0.0, 0.0)
        guess = self._guess(total, tilt, log_delta, chernoff)
        answer = _solved(contour(total, tilt, log_delta, guess), delta, guess)
        if answer is None or answer.upper - answer.lower > max(GAP * answer.upper, FLOOR):
            raise NotMet
        return answer

    def delta(self, epsilon: float) -> Interval:
        """Raises NotMet when the error budget cannot be met."""
        bound = lambda total, t: total.log_moments(t) + conversion(t) - t * epsilon  # noqa: E731
        total, tilt, chernoff = self._placed(-30.0, bound)
        answer = contour(total, tilt, min(chernoff, 0.0) - 2.0, epsilon).delta(epsilon)
        if answer.upper - answer.lower > GAP * answer.upper:
            raise NotMet
        return answer

    def _placed(self, log_delta: float, bound: Callable[[Sum, Array], Array]) -> tuple[Sum, float, float]:
        """Nodes, and the tilt at which a Chernoff bound is least, with that bound."""
        cap = max(_cap(pair, log_delta) for pair, _ in self.pairs)
        for _ in range(4):
            total = Sum(tuple((pair, Nodes.fit(pair, count, cap), count) for pair, count in self.pairs), self.gaussian)
            tilts = np.geomspace(1e-2, min(cap, total.largest_tilt), 24)
            values = bound(total, tilts)
            best = int(values.argmin())
            if best < tilts.size - 2:
                break
            cap *= 3
        else:
            raise NotMet
        fine = np.geomspace(tilts[max(best - 1, 0)], tilts[best + 1], 9)
        values = bound(total, fine)
        best = int(values.argmin())
        return total, float(fine[best]), float(values[best])

    def _guess(self, total: Sum, tilt: float, log_delta: float, chernoff: float) -> float:
        """Leading order at the saddle point: delta is about M(t) e^{-t epsilon}/(t (1 + t) sqrt(2 pi) spread)."""
        spread = self.gaussian**2 + sum(count * nodes.line(tilt).variance for _, nodes, count in total.parts)
        drop = max(0.5 * math.log(2 * math.pi * spread) + math.log(tilt) + math.log1p(tilt) + float(conversion(np.array([tilt]))[0]), 0.0)
        return max(chernoff - drop / tilt, 0.0)


def _cap(pair: Location, log_delta: float) -> float:
    """A tilt beyond the useful ones: there the moved part alone outweighs 1/delta."""
    reach = max(abs(place) for _, place in (*pair.p, *pair.q))
    ratio = pair.noise.scale / reach
    moved = max(weight for weight, place in (*pair.p, *pair.q) if place)
    return ratio * math.sqrt(-2 * log_delta + 20) + 2 * ratio**2 * math.log(1 / moved) + 3


def _solved(line: Contour, delta: float, guess: float) -> Interval | None:
    """Newton's method on the sum, then two ends that are verified by evaluation."""
    epsilon = guess
    for _ in range(40):
        value, slope = line.sums(epsilon)
        if not (slope < 0 and value > 0):
            return None
        move = math.log(value / delta) * value / slope
        epsilon -= max(min(move, 1.0 + abs(epsilon)), -1.0 - abs(epsilon))
        if abs(move) <= 1e-14 * (1e-3 + abs(epsilon)):
            break
    if epsilon <= 0:
        at_zero = line.delta(0.0)
        return Interval(0.0, 0.0) if at_zero.upper <= delta else None
    found = line.delta(epsilon)
    margin = 1.1 * max(found.upper - delta, delta - found.lower, 0.0) / -line.sums(epsilon)[1] + 2e-16 * epsilon
    for _ in range(6):
        low, high = max(epsilon - margin, 0.0), epsilon + margin
        if line.delta(high).upper <= delta and (low == 0 or line.delta(low).lower > delta):
            return Interval(low, high)
        margin *= 2
    return None
