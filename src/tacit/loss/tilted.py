r"""A composition by its real moments, and on one vertical line through a tilt: where it is large, how fast it decays.

M(z) = prod_l M_l(z)^{n_l}, each M_l over quadrature nodes. Outcomes so unlikely that all of them together are a small
share of delta are cut from every M_l.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri_exp

from .cached import cached
from .decay import FEW, Layers, shifted
from .noise import Array
from .pairs import Location
from .quadrature import Line, Nodes

SHARE = 1e-9
"""Mass that may be cut from all steps together, relative to delta."""
REST = 30.0
"""Mass below e^-REST may be cut from all steps together on the left; it adds at most this share of delta."""
FINE, FINEST = np.geomspace(10**-0.8, 10**0.8, 17), np.geomspace(0.8, 1.25, 15)
"""Tilts tried around one, and around that where digits are few."""
SUDDEN = 6.0
"""A rise from one tilt to the next that no parabola has: from there on large losses count that did not before."""
LEAST, MOST = 1e-2, 1e9
Bounding = Callable[[Array, Array], Array]
PERIOD = 6.0
"""Period of a coarse sum, in units of the spread."""
COARSE = 2 * math.pi / PERIOD * np.append(np.arange(1.0, 9.0), np.geomspace(9.0, 1e6, 7))
"""Frequencies of a coarse sum, the last ones bounds of what lies between them, in units of one over the spread."""


class Moments(Protocol):
    """A composed measure by its real moments."""

    def log_moments(self, tilts: Array) -> Array: ...


@dataclass(frozen=True)
class Sum:
    """Pairs with counts, on quadrature nodes: real moments of the composition without what was cut."""

    parts: tuple[tuple[Nodes, int], ...]
    gaussian: float
    cut: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[Location, int]], gaussian: float, log_delta: float) -> Sum:
        """Places from where P's mass is below e^-REST to where it is below SHARE delta, for all steps."""
        log_cut = math.log(SHARE / len(pairs)) + log_delta
        nodes = tuple((_cut(pair, count * len(pairs), log_cut - math.log(count)), count) for pair, count in pairs)
        return cls(nodes, gaussian, SHARE * math.exp(log_delta))

    def log_moments(self, tilts: Array) -> Array:
        """log E_P e^{t L} of the composition."""
        (nodes, count), *others = self.parts
        total = count * nodes.log_moments(tilts)
        for nodes, count in others:
            total += count * nodes.log_moments(tilts)
        return total + self.gaussian**2 / 2 * tilts * (tilts + 1) if self.gaussian else total

    @cached
    def variance(self) -> float:
        """Of the loss, to leading order: where a search for tilts starts."""
        total = self.gaussian**2
        for nodes, count in self.parts:
            inverse = nodes.pair.noise.scale**-2
            for parts in (nodes.pair.p, nodes.pair.q):
                twice = math.fsum([v * w * math.expm1(min(c * d * inverse, 5.0)) for v, c in parts for w, d in parts])
                total += count * math.log1p(twice)
        return total

    def at(self, tilt: float) -> Tilted:
        """This composition on the vertical line through `tilt`."""
        return Tilted(tuple((nodes.line(tilt), count) for nodes, count in self.parts), self.gaussian, tilt)

    def trusted(self, tilt: float) -> bool:
        """Whether `log_moments` is right to 1e-3 there: Chernoff constants carry a margin of 1e-2."""
        t, zero = np.array([tilt]), np.zeros(1)
        doubts = [float(nodes.log_error(t, zero)[0] - nodes.log_moments(t)[0]) for nodes, _ in self.parts]
        return all(math.log(count) + doubt < -7 for doubt, (_, count) in zip(doubts, self.parts, strict=True))


@dataclass(frozen=True)
class Tilted:
    """phi(u) = M(t + iu)/M(t) of a composition, by its parts."""

    parts: tuple[tuple[Line, int], ...]
    gaussian: float
    tilt: float

    @cached
    def log_m(self) -> float:
        total = math.fsum([count * line.log_m for line, count in self.parts])
        return total + self.gaussian**2 * self.tilt * (self.tilt + 1) / 2

    @cached
    def spread(self) -> float:
        """The standard deviation of the loss."""
        return math.sqrt(math.fsum([count * line.variance for line, count in self.parts]) + self.gaussian**2)

    @property
    def trusted(self) -> bool:
        """Whether M(t) is right to 1e-4: what is shown by it carries a margin of 1e-2."""
        t, zero = np.array([self.tilt]), np.zeros(1)
        for line, count in self.parts:
            most = -10 - math.log(count)
            if line.quick_error((), zero) > most and line.log_error(t, zero) > most:
                return False
        return True

    @cached
    def layers(self) -> list[Layers]:
        return [Layers.below(line) for line, _ in self.parts]

    def log_phi(self, u: Array, *, sharp: bool = False) -> Array:
        """A bound of log |phi| at each u and beyond, by layers, and if `sharp` by shifted lines where steps are few."""
        bounds = []
        for (line, count), layer in zip(self.parts, self.layers, strict=True):
            bound = layer.log_bound(u)
            if sharp and count <= FEW:
                bound = np.minimum(bound, shifted(line, u))
            bounds.append(count * bound)
        total = bounds[0] if len(bounds) == 1 else np.sum(bounds, axis=0)
        return total - (self.gaussian * u) ** 2 / 2 if self.gaussian else total

    def log_peak(self) -> float:
        r"""log of a bound of delta(y) e^{ty}/M(t) for all y, from |phi| alone: trapezoid sums of any step D are above.

        Decreasing g: sum_{k > K} D g(kD) <= Int_{KD} g, here from bounds that hold at each u and beyond.
        """
        kernel, near, far = self._kernel
        sums = 1 / (self.tilt * (1 + self.tilt)) + 2 * float(np.add.reduce(kernel[:near]))
        return math.log(sums / (PERIOD * self.spread) + far)

    @property
    def coarse_range(self) -> tuple[float, float]:
        """A frequency, and a bound of what all beyond it add to a sum over others, relative to M(t) e^{-ty}."""
        _, near, far = self._kernel
        return float(COARSE[near - 1]) / self.spread, 1.01 * far

    @cached
    def _kernel(self) -> tuple[Array, int, float]:
        """Bounds of the integrand's size at frequencies, how many of them a coarse sum has, and a bound of the rest."""
        u, near, t = COARSE / self.spread, 8, self.tilt
        log_phi = self.log_phi(u)
        kernel = np.exp(log_phi) / np.sqrt((t * t + u * u) * ((1 + t) ** 2 + u * u))
        far = float(kernel[near - 1 : -1] @ (u[near:] - u[near - 1 : -1])) + math.exp(log_phi[-1]) / float(u[-1])
        return kernel, near, far / math.pi


def _cut(pair: Location, count: int, log_mass: float) -> Nodes:
    r"""The left end lies where r_p <= 1 <= r_q, so a step there has a loss below 0 and helps nobody."""
    s, parts = pair.noise.scale, [(weight, place) for weight, place in pair.p if weight > 0]
    farthest = max([abs(place) for _, place in pair.q])
    low = -max(s * math.sqrt(2 * (REST + math.log(count))), farthest)
    tails = ndtri_exp([min(log_mass - math.log(len(parts) * weight), -0.7) for weight, _ in parts]).tolist()
    high = max([place - s * tail for tail, (_, place) in zip(tails, parts, strict=True)])
    return Nodes.between(pair, low, high)


def conversion(tilts: Array) -> Array:
    """log of t^t/(1+t)^{1+t}: delta(y) <= c(t) M(t) e^{-t y}. Canonne, Kamath and Steinke 2020, Proposition 12."""
    return np.asarray(tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts))


def chernoff(epsilon: float) -> Bounding:
    """log of the bound c(t) M(t) e^{-t epsilon} of delta(epsilon), from tilts and log M."""
    return lambda tilts, log_m: log_m + conversion(tilts) - tilts * epsilon


def best_tilt(total: Moments, bound: Bounding, start: float, *, sharp: bool = False) -> float:
    """The tilt at which a bound is least; the bounds fall, then rise, so the grid follows them from `start` on."""
    for _ in range(16):
        tilts = min(max(start, LEAST), MOST) * FINE
        values = bound(tilts, total.log_moments(tilts))
        best = int(values.argmin())
        start = float(tilts[best])
        if 0 < best < FINE.size - 1:
            start = _vertex(tilts[best - 1 : best + 2].tolist(), values[best - 1 : best + 2].tolist())
            break
    if sharp:
        tilts = start * FINEST
        start = float(tilts[bound(tilts, total.log_moments(tilts)).argmin()])
    return start


def _vertex(tilts: list[float], values: list[float]) -> float:
    """Where a parabola through three values is least; the middle one, the least, where they rise too fast for one."""
    left, middle, right = tilts
    rise = values[2] - values[1]
    before, after = (values[0] - values[1]) * (right - middle), rise * (middle - left)
    if not (before + after > 0 and rise < SUDDEN):
        return middle
    return middle + (before * (right - middle) - after * (middle - left)) / (2 * (before + after))


def one_conversion(tilt: float) -> float:
    """The conversion's bound at one tilt."""
    return tilt * math.log(tilt) - (1 + tilt) * math.log1p(tilt)
