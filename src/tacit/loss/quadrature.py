r"""Moments of one Gaussian location pair on a vertical line of the complex plane, with certified errors.

For P = sum_j w_j N(c_j, s^2), Q = sum_j v_j N(d_j, s^2) write r_p, r_q for their ratios to N(0, s^2), of density phi:

    M(z) = E_P e^{z L} = Int phi(x) r_p(x)^{1+z} r_q(x)^{-z} dx,   z = t + iu.

The trapezoid rule of step h is off by at most 2 N / (e^{2 pi a/h} - 1), where N bounds the integral of |integrand| over
every line |Im x| <= a. There, for |b| <= a,

    |integrand(x + ib)| <= phi r_p^{1+t} r_q^{-t} e^{a^2/2s^2} e^{|u| (|arg r_p| + |arg r_q|)} (|r_q(x + ib)|/r_q)^{-t},

whose factors are bounded cell by cell (`Mixture.angle`, `Mixture.dip`). Proof: docs/proofs/accounting.md, Lemma 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .mixture import Mixture
from .noise import Array, Complex
from .pairs import Location

EPS = float(np.finfo(float).eps)
STRIPS = (0.02, 0.06, 0.15, 0.35, 0.65, 1.0)
"""Half-widths of the strips tried, as shares of the largest."""
LEVELS = np.array([0.0, 0.25, 0.6, 1.0])
"""Frequencies at which the strips are evaluated, as shares of the largest."""
SHARE = 1e-21
"""Tilted mass that may be left out of the sums on either side."""


class NotMet(Exception):
    """The error budget cannot be met at reasonable cost; another method must answer."""


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
        x = low + step * np.arange(math.ceil((high - low) / step) + 1, dtype=np.float64)
        p, q = Mixture.at(pair.p, x, scale), Mixture.at(pair.q, x, scale)
        base = p.log_ratio - x * x / (2 * scale**2) + math.log(step / (scale * math.sqrt(2 * math.pi)))
        return cls(scale, step, x, base, p.log_ratio - q.log_ratio, p, q)

    @classmethod
    def fit(cls, pair: Location, count: int, cap: float) -> Nodes:
        """Fine and far enough for real tilts up to `cap` and `count` steps.

        With theta = a/s^2 the strip bound has exponent 2 pi a/h - a^2/2s^2, which must exceed 40 + log count.
        """
        s, need = pair.noise.scale, 40 + math.log(count)
        theta = min(_steepest(pair), math.sqrt(2 * need) / s)
        step = 2 * math.pi * theta * s * s / (need + (theta * s) ** 2 / 2)
        return cls.between(pair, -(9.5 if pair.q == ((1.0, 0.0),) else 20.0) * s, _right_end(pair, cap), step)

    @classmethod
    def between(cls, pair: Location, low: float, high: float, step: float) -> Nodes:
        """Refuses to become too many."""
        if (high - low) / step > 20_000:
            raise NotMet
        return cls.of(pair, low, high, step)

    @property
    def steepest(self) -> float:
        """Largest a/s^2 of a strip on which the integrand is analytic and bounded well."""
        return min(side.steepest / side.largest for side in (self.p, self.q) if side.largest)

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
        dropped = float(left[first - 1]) * (first > 0) + float(right[self.x.size - last - 1]) * (last < self.x.size)
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
        return int(self.keep.stop - self.keep.start)

    def core(self, share: float) -> tuple[float, float, float]:
        """Places around all weights above `share` of the largest, and log of the tilted mass outside of them."""
        inside = np.flatnonzero(self.weights > share * self.weights.max())
        first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, self.nodes.x.size - 1)
        outside = np.concatenate([self.log_cells[:first], self.log_cells[last:], self.log_tails])
        return float(self.nodes.x[first]), float(self.nodes.x[last]), float(np.logaddexp.reduce(outside))

    @property
    def mean(self) -> float:
        return float(self.weights @ self.nodes.loss)

    @property
    def variance(self) -> float:
        return float(self.weights @ (self.nodes.loss - self.mean) ** 2)

    def refined(self, pair: Location, count: int, top: float) -> Line:
        """This line on nodes that are good for frequencies up to `top`, by the same exponent with its u-term."""
        n, s = self.nodes, self.nodes.scale
        need = 30 + math.log(count)
        log_weights = n.base + self.tilt * n.loss - self.log_m
        step, low = 0.0, float(n.x[0])
        for share in STRIPS[1:]:
            theta = min(share * _steepest(pair), math.sqrt(2 * need) / s)
            grown = log_weights + top * (n.p.angle(theta) + n.q.angle(theta))
            found = 2 * math.pi * theta * s * s / (need + max(float(grown.max()), 0.0) + (theta * s) ** 2 / 2)
            if found > step:
                step, low = found, -s * math.sqrt(2 * (60 + top * theta * n.q.largest))
        low = min(low, float(n.x[0])) if n.q.largest else float(n.x[0])
        return Nodes.between(pair, low, _right_end(pair, 1.01 * self.tilt), step).line(self.tilt)

    def values(self, u: Array) -> Complex:
        """phi at equispaced u = 0, D, 2D, ...: e^{i(u + v)L} = e^{iuL} e^{ivL} makes it one matrix product."""
        loss, weights = self.nodes.loss[self.keep], self.weights[self.keep]
        inner = math.isqrt(u.size) + 1
        coarse, fine = u[::inner], u[:inner]
        grid = (weights * np.exp(1j * np.outer(coarse, loss))) @ np.exp(1j * np.outer(loss, fine))
        return np.asarray(grid.ravel()[: u.size])

    def rounding(self, u: Array) -> Array:
        """Relative to M(t): exponents and phases each carry a rounding of their own size."""
        n = self.nodes
        size = n.x**2 / (2 * n.scale**2) + (1 + self.tilt) * np.abs(n.p.log_ratio) + self.tilt * np.abs(n.q.log_ratio)
        phase = float(self.weights @ np.abs(n.loss))
        return np.asarray(4 * EPS * (8 + float(self.weights @ size) + math.sqrt(n.x.size) + u * phase))

    def error(self, u: Array) -> Array:
        """|computed phi - true phi| without rounding: cut nodes, cut tails and the trapezoid rule, rising with u."""
        levels = float(u[-1]) * LEVELS if u.size > 1 else np.zeros(1)
        strips = STRIPS if u.size > 1 else STRIPS[-2:]
        log_left, log_right = self.log_tails
        if math.isinf(max(log_left, log_right)):
            return np.full(u.shape, math.inf)
        n = self.nodes
        most = min(n.steepest, 2 * math.pi / n.step) * n.scale**2
        bounds = self._strip(levels, strips[-1] * most)
        for share in strips[-2::-1]:
            narrower = self._strip(levels, share * most)
            if np.all(narrower >= bounds):
                break
            bounds = np.minimum(bounds, narrower)
        index = np.minimum(np.searchsorted(levels, u * (1 - 1e-12), side="left"), levels.size - 1)
        cut = 2 * (math.exp(min(log_left, 0.0)) + math.exp(min(log_right, 0.0))) + self.dropped
        return np.asarray(np.maximum.accumulate(bounds)[index] + cut)

    @cached_property
    def log_tails(self) -> tuple[float, float]:
        """log of the tilted mass beyond the first and last node: integral plus dropped nodes, G/rate + h G."""
        n, t = self.nodes, self.tilt
        ends = n.base[[0, -1]] + t * n.loss[[0, -1]] - self.log_m - math.log(n.step)
        slope_left = (-n.x[0]) / n.scale**2
        slope_right = (n.x[-1] - (1 + t) * n.p.largest - t * float(n.q.mean[-1])) / n.scale**2
        if min(slope_left, slope_right) <= 0:
            return math.inf, math.inf
        return float(ends[0]) + math.log(1 / slope_left + n.step), float(ends[1]) + math.log(1 / slope_right + n.step)

    def _strip(self, levels: Array, a: float) -> Array:
        """2 N/(e^{2 pi a/h} - 1) from the strip |Im x| <= a, at several u."""
        n = self.nodes
        turn = a / n.scale**2
        dip = self.tilt * n.q.dip(turn)
        p_angle, q_angle = n.p.angle(turn), n.q.angle(turn)
        log_left, log_right = self.log_tails
        deepest = self.tilt * n.q.deepest(turn)
        cells = np.concatenate([[log_left + deepest], self.log_cells + dip, [log_right + deepest]])
        left, right = p_angle[0] + turn * n.q.largest, turn * n.p.largest + q_angle[-1]
        angle = np.concatenate([[left], p_angle[1:] + q_angle[:-1], [right]])
        exponents = cells + levels[:, None] * angle
        top = exponents.max(axis=1)
        log_n = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + a * a / (2 * n.scale**2)
        exponent = 2 * math.pi * a / n.step
        log_bound = math.log(2) + log_n - exponent - math.log1p(-math.exp(-exponent))
        return np.asarray(np.exp(np.minimum(log_bound, 700.0)))

    @cached_property
    def log_cells(self) -> Array:
        r"""log of an upper bound of the tilted mass of each cell between nodes.

        log r is convex, hence below its chord; -x^2/2s^2 and -t log r_q exceed theirs by at most h^2/8 times their
        curvature. The exponential of a chord is convex, so its integral is at most h times the mean of its ends.
        """
        n, t = self.nodes, self.tilt
        ends = n.base + t * n.loss - self.log_m
        bulge = n.step**2 / (8 * n.scale**2) * (1 + t * n.q.square[:-1] / n.scale**2)
        return np.asarray(np.logaddexp(ends[:-1], ends[1:]) - math.log(2) + bulge)


def useful_tilt(pair: Location, log_delta: float) -> float:
    """A tilt beyond the useful ones: there the moved part alone outweighs 1/delta."""
    reach = max(abs(place) for _, place in (*pair.p, *pair.q))
    ratio = pair.noise.scale / reach
    moved = max(weight for weight, place in (*pair.p, *pair.q) if place)
    return ratio * math.sqrt(-2 * log_delta + 20) + 2 * ratio**2 * math.log(1 / moved) + 3


def _steepest(pair: Location) -> float:
    """Largest useful a/s^2, as `Nodes.steepest` says it."""
    return min(
        (2.5 if len(parts) == 2 else 1.0) / max(abs(place) for _, place in parts)
        for parts in (pair.p, pair.q)
        if len(parts) > 1
    )


def _right_end(pair: Location, cap: float) -> float:
    """Beyond all tilted mass for tilts up to `cap`: above the root of x = (1 + t) c + t m_q(x), and then some.

    m_q falls with x, so every second iterate from the left is an upper bound.
    """
    s = pair.noise.scale
    start = (1 + cap) * max(place for _, place in pair.p)
    x = start
    if pair.q != ((1.0, 0.0),):
        for _ in range(7):
            terms = [weight * math.exp(min(place * (x - place / 2) / s**2, 600.0)) for weight, place in pair.q]
            moved = math.fsum(-term * place for term, (_, place) in zip(terms, pair.q, strict=True))
            x = start + cap * moved / math.fsum(terms)
    return x + 9.5 * s
