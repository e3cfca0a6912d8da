"""Epsilon and delta of composed Gaussian location pairs by the contour integral: its place, and verified ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.interval import Interval
from .contour import Contour, Sum, contour, conversion
from .noise import Array, GaussianNoise
from .pairs import Location, Pair
from .quadrature import Nodes, NotMet, useful_tilt

GAP = 1e-6
FLOOR = 1e-9
"""An answer counts as met when its gap is at most GAP relative to epsilon, or FLOOR absolutely."""
ENOUGH = 4e-4
"""A relative gap that the lattice would not beat."""
RETREATS = (1.0, 0.8, 0.6)
"""Shares of the best tilt tried when moments explode just beyond it."""
Bounding = Callable[[Sum, Array], Array]
RATIOS = np.geomspace(1e-3, 1.0, 26)
"""Tilts tried, as shares of the largest."""


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
            if not (isinstance(pair, Location) and type(pair.noise) is GaussianNoise):
                return None
            if len(pair.p) == len(pair.q) == 1:
                squares += count * ((pair.p[0][1] - pair.q[0][1]) / pair.noise.scale) ** 2
            else:
                mixed.append((pair, count))
        return cls(tuple(mixed), math.sqrt(squares)) if mixed else None

    def epsilon(self, delta: float) -> Interval:
        """Raises NotMet when the error budget cannot be met."""
        log_delta = math.log(delta)
        bound: Bounding = lambda total, t: (total.log_moments(t) + conversion(t) - log_delta) / t  # noqa: E731
        total, tilt, least = self._placed(log_delta, bound)
        if least * tilt <= -0.01 and total.trusted(tilt):
            return Interval(0.0, 0.0)
        start = self._guess(total, tilt, least)
        gentle = total.steps > 30 or all(nodes.scale > 2.5 for _, nodes, _ in total.parts)
        for retreat in RETREATS if gentle else RETREATS[:1]:
            try:
                return _searched(total, retreat * tilt, retreat, delta, start)
            except NotMet:
                continue
        raise NotMet

    def delta(self, epsilon: float) -> Interval:
        """Raises NotMet when the error budget cannot be met."""
        total, tilt, log_bound = self._placed(-30.0, _chernoff(epsilon))
        log_delta = min(log_bound, 0.0) - 2.0
        for retreat in (1.0, 1.0, 0.8, 0.6):
            try:
                answer = contour(total, retreat * tilt, log_delta, epsilon).delta(epsilon)
            except NotMet:
                continue
            if answer.upper - answer.lower <= GAP * answer.upper:
                return answer
            log_delta = math.log(max(answer.lower, answer.upper / 1e6, 1e-290))
        raise NotMet

    def at_most(self, epsilon: float, delta: float) -> bool:
        """Whether a Chernoff bound already shows delta(epsilon) <= delta."""
        try:
            total, tilt, log_bound = self._placed(math.log(delta), _chernoff(epsilon))
        except NotMet:
            return False
        return log_bound + 0.01 <= math.log(delta) and total.trusted(tilt)

    def _placed(self, log_delta: float, bound: Bounding) -> tuple[Sum, float, float]:
        """Nodes, and the tilt at which a Chernoff bound is least, with that bound."""
        cap = max(useful_tilt(pair, log_delta) for pair, _ in self.pairs)
        for _ in range(4):
            parts = tuple((pair, Nodes.fit(pair, count, cap), count) for pair, count in self.pairs)
            total = Sum(parts, self.gaussian, cap)
            tilt, value = _best(total, bound)
            if tilt < 0.7 * cap:
                return total, tilt, value
            cap *= 4
        raise NotMet

    def _guess(self, total: Sum, tilt: float, chernoff: float) -> float:
        """Leading order at the saddle point: delta is about M(t) e^{-t epsilon}/(t (1 + t) sqrt(2 pi) spread)."""
        spread = self.gaussian**2 + sum(count * nodes.line(tilt).variance for _, nodes, count in total.parts)
        if not 0 < spread < math.inf:
            raise NotMet
        factor = math.log(tilt * (1 + tilt)) + 0.5 * math.log(2 * math.pi * spread)
        drop = factor + float(conversion(np.array([tilt]))[0])
        return max(chernoff - max(drop, 0.0) / tilt, 0.0)


def _chernoff(epsilon: float) -> Bounding:
    """log of the bound c(t) M(t) e^{-t epsilon} of delta(epsilon)."""
    return lambda total, t: total.log_moments(t) + conversion(t) - t * epsilon


def _best(total: Sum, bound: Bounding) -> tuple[float, float]:
    """The tilt at which a bound is least, on a grid and then on a finer one."""
    tilts = total.cap * RATIOS
    best = int(bound(total, tilts).argmin())
    fine = np.exp(np.linspace(math.log(tilts[max(best - 1, 0)]), math.log(tilts[min(best + 1, tilts.size - 1)]), 9))
    values = bound(total, fine)
    best = int(values.argmin())
    return float(fine[best]), float(values[best])


def _searched(total: Sum, tilt: float, retreat: float, delta: float, guess: float) -> Interval:
    """Move guess and contour to each other until the gap is met; `retreat` keeps away from where moments explode."""
    best = Interval(0.0, math.inf)
    for _ in range(4):
        line = contour(total, tilt, math.log(delta), guess)
        before, guess = guess, _root(line, delta, guess)
        best = _sharper(best, _verified(line, delta, guess))
        width = best.upper - best.lower
        if width <= max(GAP * best.upper, FLOOR):
            return best
        if abs(guess - before) <= 1e-3 * guess:
            break
        tilt = retreat * _best(total, _chernoff(guess))[0]
    if not best.upper - best.lower <= ENOUGH * min(best.upper, 1e9):
        raise NotMet
    return best


def _sharper(a: Interval, b: Interval | None) -> Interval:
    return a if b is None or a.upper - a.lower <= b.upper - b.lower else b


def _root(line: Contour, delta: float, guess: float) -> float:
    """Newton's method on the log of the sum, kept inside a bracket; 0 where the sum is below `delta` from the start."""
    low, high, epsilon = 0.0, math.inf, guess
    for _ in range(60):
        value, slope = line.sums(epsilon)
        if value > delta:
            low = epsilon
        else:
            high = epsilon
        if epsilon == 0.0 and value <= delta:
            return 0.0
        move = math.log(value / delta) * value / slope if value > 0 and slope < 0 else math.inf
        if abs(move) <= 1e-14 * (1e-3 + epsilon):
            return max(epsilon - move, 0.0)
        epsilon -= move
        if not low < epsilon < high:
            epsilon = (low + high) / 2 if math.isfinite(high) else 2 * low + 1e-3
            if high < 1e-12:
                epsilon = 0.0
    return epsilon


def _verified(line: Contour, delta: float, epsilon: float) -> Interval | None:
    """Two ends around the root, each shown to be one by evaluating delta there."""
    found = line.delta(epsilon)
    if epsilon == 0.0 and found.upper <= delta:
        return Interval(0.0, 0.0)
    slope = line.sums(epsilon)[1]
    if slope >= 0:
        return None
    margin = 1.1 * max(found.upper - delta, delta - found.lower, 0.0) / -slope + 2e-16 * epsilon
    for _ in range(4):
        low, high = max(epsilon - margin, 0.0), epsilon + margin
        if line.delta(high).upper <= delta and (low == 0 or line.delta(low).lower > delta):
            return Interval(low, high)
        margin *= 2
    return None
