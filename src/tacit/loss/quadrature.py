r"""Moments of one Gaussian location pair on a vertical line of the complex plane, with certified errors.

For P = sum_j w_j N(c_j, s^2), Q = sum_j v_j N(d_j, s^2) write r_p, r_q for their ratios to N(0, s^2) and phi for its density:

    M(z) = E_P e^{z L} = Int phi(x) r_p(x)^{1+z} r_q(x)^{-z} dx,   z = t + iu.

The trapezoid rule of step h is off by at most 2 N / (e^{2 pi a/h} - 1), where N bounds the integral of |integrand| on every
line |Im x| <= a (docs/proofs/accounting.md, Lemma 5). With m_p, m_q the posterior mean shifts and theta = a max|c|/s^2 < pi/2,

    |integrand(x + ib)| <= phi r_p^{1+t} r_q^{-t} e^{a^2/2s^2} e^{|u| a (m_p + m_q)/(s^2 cos theta)} (1 - a^2 E_q c^2/2 s^4)^{-t},

whose factors are monotone, so that a sum over cells of their larger ends bounds N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .noise import Array
from .pairs import Location, Parts

Complex = NDArray[np.complex128]
EPS = float(np.finfo(float).eps)
ANGLE = 1.1
"""Largest theta used."""
STRIPS = (0.12, 0.3, 0.55, 0.8, 1.0)
"""Half-widths of the strips tried, as shares of the largest."""
SHARE = 1e-21
"""Tilted mass that may be left out of the sums on either side."""


@dataclass(frozen=True)
class Mixture:
    """One side at given places: log r, posterior mean and mean square of the shift, and for two parts their odds."""

    log_ratio: Array
    mean: Array
    square: Array
    odds: Array | None
    largest: float

    @classmethod
    def at(cls, parts: Parts, x: Array, scale: float) -> Mixture:
        largest = max(abs(place) for _, place in parts)
        if len(parts) == 1:
            place = parts[0][1]
            return cls(place * (x - place / 2) / scale**2, np.full_like(x, largest), np.full_like(x, place**2), None, largest)
        if len(parts) == 2 and parts[0][1] == 0.0:
            return cls._two(parts[1][0], parts[1][1], x, scale)
        places = np.array([place for _, place in parts])[:, None]
        weights = np.array([weight for weight, _ in parts])[:, None]
        exponents = places * (x - places / 2) / scale**2
        top = exponents.max(axis=0)
        terms = weights * np.exp(exponents - top)
        total = terms.sum(axis=0)
        moment = lambda power: np.asarray((terms * np.abs(places) ** power).sum(axis=0) / total)  # noqa: E731
        return cls(top + np.log(total), moment(1), moment(2), None, largest)

    @classmethod
    def _two(cls, weight: float, place: float, x: Array, scale: float) -> Mixture:
        """log(1 - w + w e^y) by log1p, so that small rates keep their digits."""
        y = place * (x - place / 2) / scale**2
        log_ratio = np.where(y < 700.0, np.log1p(weight * np.expm1(np.minimum(y, 700.0))), y + math.log(weight))
        mean = np.exp(math.log(weight) + y - log_ratio)
        odds = np.exp(np.minimum(y + math.log(weight / (1 - weight)), 700.0))
        return cls(log_ratio, abs(place) * mean, place**2 * mean, odds, abs(place))

    def angle(self, turn: float) -> Array:
        """A bound of |arg r(x + ib)| over |b| <= a, turn = a/s^2, at every node; it rises with the mean shift."""
        theta = turn * self.largest
        if self.odds is None:
            return turn * self.mean / math.cos(min(theta, ANGLE)) if theta <= ANGLE else np.full_like(self.mean, theta)
        free = np.arctan2(self.odds * math.sin(theta), 1 + self.odds * math.cos(theta))
        return np.where(self.odds < -math.cos(theta), np.arcsin(np.minimum(self.odds, 1.0)), free)

    def dip(self, turn: float) -> Array:
        """A bound of -log |r(x + ib)| / r(x) over |b| <= a on every cell between nodes."""
        theta = turn * self.largest
        if self.odds is None:
            return _most(-np.log(np.maximum(1 - turn**2 * self.square / 2, 1e-300)))
        with np.errstate(divide="ignore"):
            ends = -0.5 * np.log1p(-2 * (1 - math.cos(theta)) * self.odds / (1 + self.odds) ** 2)
        inside = (self.odds[:-1] - 1) * (self.odds[1:] - 1) < 0
        return np.where(inside, -math.log(max(math.cos(theta / 2), 1e-300)), _most(ends))

    @property
    def steepest(self) -> float:
        """Largest theta for which `angle` and `dip` are useful."""
        return 2.8 if self.odds is not None else ANGLE


@dataclass(frozen=True)
class Nodes:
    """Equispaced places with everything the integrand needs there."""

    scale: float
    step: float
    x: Array
    base: Array
    loss: Array
    p: Mixture
    q: Mixture

    @classmethod
    def of(cls, pair: Location, low: float, high: float, step: float) -> Nodes:
        scale = pair.noise.scale
        x = low + step * np.arange(math.ceil((high - low) / step) + 1)
        p, q = Mixture.at(pair.p, x, scale), Mixture.at(pair.q, x, scale)
        base = p.log_ratio - x * x / (2 * scale**2) + math.log(step / (scale * math.sqrt(2 * math.pi)))
        return cls(scale, step, x, base, p.log_ratio - q.log_ratio, p, q)

    @property
    def largest_tilt(self) -> float:
        """The tilt at which the mass may come within eight deviations of the last node."""
        room = float(self.x[-1]) - 8 * self.scale - self.p.largest
        return room / (self.p.largest + float(self.q.mean[-1]))

    def log_moments(self, tilts: Array) -> Array:
        """log M(t) for real t > 0, up to the errors bounded below."""
        exponents = self.base + tilts[:, None] * self.loss
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))

    def line(self, tilt: float) -> Line:
        """This pair on the vertical line through `tilt`."""
        log_m = float(self.log_moments(np.array([tilt]))[0])
        weights = np.exp(self.base + tilt * self.loss - log_m)
        left, right = np.cumsum(weights), np.cumsum(weights[::-1])
        first = int(np.searchsorted(left, SHARE))
        last = self.x.size - int(np.searchsorted(right, SHARE))
        keep = slice(first, max(last, first + 2))
        dropped = float((left[first - 1] if first else 0.0) + (right[self.x.size - last - 1] if last < self.x.size else 0.0))
        return Line(self, tilt, log_m, weights, keep, dropped)


@dataclass(frozen=True)
class Line:
    """phi(u) = M(t + iu)/M(t) of one pair: values, and bounds of all that is not exact in them."""

    nodes: Nodes
    tilt: float
    log_m: float
    weights: Array
    keep: slice
    dropped: float

    @property
    def size(self) -> int:
        """How many nodes the sums run over."""
        return self.keep.stop - self.keep.start

    @property
    def support(self) -> tuple[float, float]:
        """Places between which all but a 1e-7th of the tilted mass lies."""
        inside = np.flatnonzero(self.weights > 1e-9 * self.weights.max())
        x = self.nodes.x
        return float(x[max(inside[0] - 1, 0)]), float(x[min(inside[-1] + 1, x.size - 1)])

    @property
    def mean(self) -> float:
        return float(self.weights @ self.nodes.loss)

    @property
    def variance(self) -> float:
        return float(self.weights @ (self.nodes.loss - self.mean) ** 2)

    def values(self, u: Array) -> Complex:
        """phi at equispaced u = 0, D, 2D, ..."""
        waves = np.exp(1j * np.outer(u, self.nodes.loss[self.keep]))
        return np.asarray(waves @ self.weights[self.keep])

    def rounding(self, u: Array) -> Array:
        """Relative to M(t): exponents and phases each carry a rounding of their own size."""
        n = self.nodes
        size = np.abs(n.x) ** 2 / (2 * n.scale**2) + (1 + self.tilt) * np.abs(n.p.log_ratio) + self.tilt * np.abs(n.q.log_ratio)
        phase = float(self.weights @ np.abs(n.loss))
        return np.asarray(4 * EPS * (8 + float(self.weights @ size) + math.sqrt(n.x.size) + u * phase))

    def error(self, u: Array) -> Array:
        """|computed phi - true phi| without rounding: cut nodes, cut tails and the trapezoid rule, rising with u."""
        levels = float(u[-1]) * np.array([0.0, 0.15, 0.3, 0.5, 0.75, 1.0]) if u.size > 1 else np.zeros(1)
        left, right = self.tails
        if math.isinf(left + right):
            return np.full(u.shape, math.inf)
        n = self.nodes
        theta = min(side.steepest / side.largest for side in (n.p, n.q) if side.largest)
        most = min(theta, 2 * math.pi / n.step) * n.scale**2
        bounds = np.min([self._strip(levels, share * most) for share in STRIPS], axis=0)
        index = np.minimum(np.searchsorted(levels, u * (1 - 1e-12), side="left"), levels.size - 1)
        return np.asarray(np.maximum.accumulate(bounds)[index] + 2 * (left + right) + self.dropped)

    @cached_property
    def tails(self) -> tuple[float, float]:
        """Tilted mass beyond the first and last node, as integral plus dropped nodes (G/rate + h G on either side)."""
        n, t = self.nodes, self.tilt
        density = self.weights[[0, -1]] / n.step
        slope_left = (-n.x[0]) / n.scale**2
        slope_right = (n.x[-1] - (1 + t) * n.p.largest - t * float(n.q.mean[-1])) / n.scale**2
        if min(slope_left, slope_right) <= 0:
            return math.inf, math.inf
        return (
            float(density[0]) * (1 / slope_left + n.step),
            float(density[1]) * (1 / slope_right + n.step),
        )

    def _strip(self, levels: Array, a: float) -> Array:
        """2 N/(e^{2 pi a/h} - 1) from the strip |Im x| <= a, at several u."""
        n, t = self.nodes, self.tilt
        turn = a / n.scale**2
        dip = t * n.q.dip(turn) if n.q.largest else np.zeros(n.x.size - 1)
        angle = n.p.angle(turn)[1:] + n.q.angle(turn)[:-1]
        most = turn * (n.p.largest + n.q.largest)
        cells = np.append(self._log_cells + dip, math.log(sum(self.tails) + 1e-300) + float(dip.max()))
        exponents = cells + levels[:, None] * np.append(angle, most)
        top = exponents.max(axis=1)
        log_n = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + a * a / (2 * n.scale**2)
        exponent = 2 * math.pi * a / n.step
        return np.exp(np.minimum(math.log(2) + log_n - exponent - math.log1p(-math.exp(-exponent)), 700.0))

    @cached_property
    def _log_cells(self) -> Array:
        """log of an upper bound of the tilted mass of each cell between nodes: each factor at its larger end."""
        n, t = self.nodes, self.tilt
        bell = -(n.x**2) / (2 * n.scale**2)
        crest = np.where((n.x[:-1] < 0) & (n.x[1:] > 0), 0.0, np.maximum(bell[:-1], bell[1:]))
        rising = (1 + t) * n.p.log_ratio[1:] - t * n.q.log_ratio[1:]
        return np.asarray(crest + rising + math.log(n.step / (n.scale * math.sqrt(2 * math.pi))) - self.log_m)


def _most(values: Array) -> Array:
    """The larger end of every cell."""
    return np.maximum(values[1:], values[:-1])
