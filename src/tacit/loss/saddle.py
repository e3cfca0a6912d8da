"""Epsilon and delta of composed Gaussian location pairs by the contour integral: its place, and verified ends."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.interval import Interval
from .contour import Contour, Sum, contour, conversion
from .jumps import jump_contour
from .noise import Array, GaussianNoise
from .pairs import Location, Pair
from .quadrature import NotMet

GAP = 1e-6
FLOOR = 1e-9
"""An answer counts as met when its gap is at most GAP relative to epsilon, or FLOOR absolutely."""
ENOUGH = 4e-4
"""A relative gap that the lattice would not beat."""
TILTS = np.geomspace(1e-3, 1e9, 41)
FINE = np.geomspace(TILTS[0] / TILTS[1], TILTS[1] / TILTS[0], 13)
"""Tilts tried, and around the best of them."""
Bounding = Callable[[Sum, Array], Array]


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

    def epsilon(self, delta: float, known: float = 0.0) -> Interval:
        """Smallest epsilon with delta(epsilon) <= delta, or [0, known] where it is at most `known`.

        Raises NotMet when the error budget cannot be met.
        """
        log_delta = math.log(delta)
        total = Sum.of(self.pairs, self.gaussian, log_delta)
        if known > 0 and _at_most(total, known, log_delta):
            return Interval(0.0, known)
        tilt, least = _best(total, lambda total, t: (total.log_moments(t) + conversion(t) - log_delta) / t)
        if least * tilt <= -0.01 and total.trusted(tilt):
            return Interval(0.0, 0.0)
        guess, best = max(self._guess(total, tilt, least), known), Interval(0.0, math.inf)
        for start in (tilt, None):
            try:
                best = _sharper(best, _searched(total, start, delta, guess))
            except NotMet:
                continue
            if best.upper - best.lower <= max(GAP * best.upper, FLOOR):
                return best
            guess = best.upper
        if not best.upper - best.lower <= ENOUGH * min(best.upper, 1e9):
            raise NotMet
        return best

    def delta(self, epsilon: float) -> Interval:
        """Raises NotMet when the error budget cannot be met."""
        log_delta = -30.0
        for _ in range(4):
            total = Sum.of(self.pairs, self.gaussian, log_delta)
            tilt, log_bound = _best(total, _chernoff(epsilon))
            found = contour(total, tilt, max(log_delta, log_bound - 8.0), epsilon).delta(epsilon)
            low, high = (min(max(end, 0.0), 1.0) for end in found)
            if high - low <= GAP * high:
                return Interval(low, high)
            log_delta = math.log(low) if low > 0.5 * high else max(min(log_bound, log_delta) - 8.0, -650.0)
        raise NotMet

    def _guess(self, total: Sum, tilt: float, chernoff: float) -> float:
        """Leading order at the saddle point: delta is about M(t) e^{-t epsilon}/(t (1 + t) sqrt(2 pi) spread)."""
        spread = self.gaussian**2 + sum(count * nodes.line(tilt).variance for nodes, count in total.parts)
        factor = math.log(tilt * (1 + tilt)) + 0.5 * math.log(2 * math.pi * spread)
        drop = factor + float(conversion(np.array([tilt]))[0])
        return max(chernoff - max(drop, 0.0) / tilt, 0.0)


def _at_most(total: Sum, epsilon: float, log_delta: float) -> bool:
    """Whether delta(epsilon) <= delta is easily shown."""
    try:
        tilt, log_bound = _best(total, _chernoff(epsilon))
        if log_bound <= log_delta - 0.01 and total.trusted(tilt):
            return True
        return contour(total, tilt, log_delta, epsilon, coarse=True).delta(epsilon)[1] <= math.exp(log_delta)
    except NotMet:
        return False


def _chernoff(epsilon: float) -> Bounding:
    """log of the bound c(t) M(t) e^{-t epsilon} of delta(epsilon)."""
    return lambda total, t: total.log_moments(t) + conversion(t) - t * epsilon


def _best(total: Sum, bound: Bounding) -> tuple[float, float]:
    """The tilt at which a bound is least, on a grid and then on a finer one."""
    best = int(bound(total, TILTS).argmin())
    fine = TILTS[best] * FINE
    values = bound(total, fine)
    best = int(values.argmin())
    return float(fine[best]), float(values[best])


def _searched(total: Sum, tilt: float | None, delta: float, guess: float) -> Interval:
    """Move guess and contour to each other until the gap is met; without a tilt by the contour of large losses."""
    best = Interval(0.0, math.inf)
    for _ in range(4 if tilt else 5):
        log_delta = math.log(delta)
        line = contour(total, tilt, log_delta, guess) if tilt else jump_contour(total, log_delta, guess)
        before, guess = guess, _root(line, delta, guess)
        if not tilt:
            guess = max(guess, 0.45 * before)
        best = _sharper(best, _verified(line, delta, guess))
        width = best.upper - best.lower
        if width <= max(GAP * min(best.upper, 1e300), FLOOR):
            return best
        if abs(guess - before) <= 1e-3 * guess:
            break
        tilt = tilt and _best(total, _chernoff(guess))[0]
    if math.isinf(best.upper):
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
        if abs(move) <= 1e-8 * epsilon:
            return max(epsilon - move, 0.0)
        epsilon -= move
        if not low < epsilon < high:
            epsilon = (low + high) / 2 if math.isfinite(high) else 2 * low + 1e-3
            if high < 1e-12:
                epsilon = 0.0
    return epsilon


def _verified(line: Contour, delta: float, epsilon: float) -> Interval | None:
    """Two ends around the root, each shown to be one by evaluating delta there."""
    total, slope = line.sums(epsilon)
    low, high = line.ends(epsilon, total)
    if epsilon == 0.0 and high <= delta:
        return Interval(0.0, 0.0)
    if slope >= 0:
        return None
    margin = 1.1 * max(high - delta, delta - low, 0.0) / -slope + 2e-16 * epsilon
    for _ in range(4 if margin < math.inf else 0):
        low, high = max(epsilon - margin, 0.0), epsilon + margin
        if line.delta(high)[1] <= delta and (low == 0 or line.delta(low)[0] > delta):
            return Interval(low, high)
        margin *= 2
    return None
