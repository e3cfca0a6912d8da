r"""Moments of one Gaussian location pair on a vertical line of the complex plane, with certified errors.

For P = sum_j w_j N(c_j, s^2), Q = sum_j v_j N(d_j, s^2) write r_p, r_q for their ratios to N(0, s^2), of density phi:

    M(z) = E_P [e^{z L}; a < x < b] = Int_a^b phi(x) r_p(x)^{1+z} r_q(x)^{-z} dx,   z = t + iu.

The interval is cut into panels of POINTS Gauss-Legendre nodes. A panel of half-width H around m is off by at most

    64/15 H sup |integrand| rho^{-2 POINTS}/(1 - rho^{-2}),

the supremum over the ellipse with half-axes A, B = H (rho +- 1/rho)/2. There, for |b| <= B,

    |integrand(x + ib)| <= phi r_p^{1+t} r_q^{-t} e^{b^2/2s^2} e^{|u| (|arg r_p| + |arg r_q|)} (|r_q(x + ib)|/r_q)^{-t},

and every factor is bounded from its values at m - A and m + A. Proof: docs/proofs/accounting.md, Lemma 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from .mixture import Mixture, steepest
from .noise import Array, Complex
from .pairs import Location

EPS = float(np.finfo(float).eps)
POINTS = 16
ROOTS, SHARES = np.polynomial.legendre.leggauss(POINTS)
RADII = np.array([1.8, 2.8, 4.0, 7.0])[:, None]
"""Ellipses tried, the sums of whose half-axes are these, in half-widths of the panel."""
LONG, SHORT = (RADII + 1 / RADII) / 2, (RADII - 1 / RADII) / 2
GAUSS = math.log(64 / 15) - 2 * POINTS * np.log(RADII) - np.log1p(-(RADII**-2.0))
MOST = 40_000
"""Largest number of nodes."""
SMALL = 1e-21
"""Nodes of less tilted mass than this over their number are left out of sums over frequencies."""


Veils = tuple[tuple[float, float], ...]


class NotMet(Exception):
    """The error budget cannot be met at reasonable cost; another method must answer."""


def veiled(least: Array, most: Array, turn: Array | float) -> Array:
    """A bound of log |Phi(v + ib)| over least <= v <= most, |b| <= turn: |Phi(v + ib)| <= e^{b^2/2} Phi(v)."""
    grown = turn**2 / 2
    return np.asarray(np.minimum(log_ndtr(most) + grown, np.logaddexp(0.0, log_ndtr(-least) + grown)))


@dataclass(frozen=True)
class Nodes:
    """Gauss-Legendre nodes on panels between `edges`, with everything the integrand needs there."""

    pair: Location
    edges: Array
    x: Array
    base: Array
    loss: Array
    p: Mixture
    q: Mixture
    veils: Veils = ()

    @classmethod
    def of(cls, pair: Location, edges: Array, veils: Veils = ()) -> Nodes:
        """For every veil (c, w) the integrand carries a factor Phi((x - c)/w); it falls where w < 0."""
        scale = pair.noise.scale
        middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
        x = (middle[:, None] + half[:, None] * ROOTS).ravel()
        p, q = Mixture.at(pair.p, x, scale), Mixture.at(pair.q, x, scale)
        mass = (half[:, None] * (SHARES / (scale * math.sqrt(2 * math.pi)))).ravel()
        base = p.log_ratio - x * x / (2 * scale**2) + np.log(mass)
        for place, width in veils:
            base = base + log_ndtr((x - place) / width)
        return cls(pair, edges, x, base, p.log_ratio - q.log_ratio, p, q, veils)

    @classmethod
    def between(cls, pair: Location, low: float, high: float) -> Nodes:
        """Even panels, fine enough for real tilts that are not large."""
        turn = min(steepest(pair.p), steepest(pair.q))
        half = min(0.9 * pair.noise.scale, turn * pair.noise.scale**2 / float(SHORT[2, 0]))
        count = math.ceil((high - low) / (2 * half))
        if count * POINTS > MOST:
            raise NotMet
        return cls.of(pair, low + (high - low) / count * np.arange(count + 1, dtype=np.float64))

    def refined(self, tilt: float, top: float, share: float) -> Nodes:
        """Panels of at most `share` over the local wave number at frequencies up to `top`, and no wider than now."""
        wide = np.diff(self.edges)
        growth = np.abs((1 + tilt) * self.p.mean + tilt * self.q.mean - self.x)
        wave = top * (self.p.mean + self.q.mean) + growth + 2 * np.sqrt(tilt * self.q.square)
        most = wave.reshape(-1, POINTS).max(axis=1) / self.pair.noise.scale**2
        least = np.maximum(most / (2 * share), 0.8 / self.pair.noise.scale)
        for place, width in self.veils:
            away = np.maximum(np.maximum(self.edges[:-1] - place, place - self.edges[1:]), 0.0)
            least = np.maximum(least, 1 / np.maximum(share * abs(width), 0.7 * away))
        counts = np.ceil(wide * least).astype(np.int64)
        if counts.sum() * POINTS > MOST:
            raise NotMet
        panel = np.repeat(np.arange(counts.size), counts)
        inside = np.arange(panel.size) - (np.cumsum(counts) - counts)[panel]
        return Nodes.of(
            self.pair, np.append(self.edges[panel] + (wide / counts)[panel] * inside, self.edges[-1]), self.veils
        )

    def log_moments(self, tilts: Array) -> Array:
        """log M(t) for real t > 0, up to the errors bounded below."""
        exponents = self.base + tilts[:, None] * self.loss
        top = exponents.max(axis=1)
        exponents -= top[:, None]
        return np.asarray(top + np.log(np.exp(exponents, out=exponents).sum(axis=1)))

    def line(self, tilt: float) -> Line:
        """This pair on the vertical line through `tilt`."""
        exponents = self.base + tilt * self.loss
        top = float(exponents.max())
        weights = np.exp(exponents - top)
        total = float(weights.sum())
        return Line(self, tilt, top + math.log(total), weights / total)

    @cached_property
    def _rims(self) -> tuple[Array, Array, Array, Array, Array]:
        """For all ellipses and panels: the log-integrand and the loss at both rims, and what t and u add to them."""
        s = self.pair.noise.scale
        middle, half = (self.edges[1:] + self.edges[:-1]) / 2, (self.edges[1:] - self.edges[:-1]) / 2
        x = middle + np.array([[[-1.0]], [[1.0]]]) * (LONG * half)
        turn = SHORT * half / s**2
        p, q = Mixture.at(self.pair.p, x, s), Mixture.at(self.pair.q, x, s)
        rest = GAUSS + np.log(half / (s * math.sqrt(2 * math.pi))) + half**2 * (LONG**2 + SHORT**2) / (2 * s * s)
        rest = np.where(turn <= min(steepest(self.pair.p), steepest(self.pair.q)), rest, math.inf)
        bulge = (LONG * half) ** 2 / (2 * s**4) * q[0].square
        dip = Mixture.dip(q[0], q[1], turn) if q.largest else 0.0
        for place, width in self.veils:
            ahead = (x - place) / width
            rest = rest + veiled(ahead.min(axis=0), ahead.max(axis=0), SHORT * half / width)
        base = p.log_ratio - x * x / (2 * s * s)
        return base, p.log_ratio - q.log_ratio, rest, bulge + dip, p[1].angle(turn) + q[0].angle(turn)

    def log_error(self, tilts: Array, u: Array) -> Array:
        """log of a bound of what the panels add to M(t + iu), for pairs of t and u; it rises with u."""
        base, loss, rest, per_t, per_u = self._rims
        t = tilts[:, None, None]
        ends = (base + t[..., None] * loss).max(axis=1)
        bounds = (ends + rest + t * per_t + u[:, None, None] * per_u).min(axis=1)
        top = bounds.max(axis=1)
        return np.asarray(top + np.log(np.exp(bounds - top[:, None]).sum(axis=1)))

    def beyond(self, tilts: Array, log_m: Array) -> Array:
        """A bound of the mass outside of all panels over M(t): there the integrand falls like an exponential."""
        s, ends = self.pair.noise.scale, self.edges[[0, -1]]
        p, q = Mixture.at(self.pair.p, ends, s), Mixture.at(self.pair.q, ends, s)
        logs = p.log_ratio + tilts[:, None] * (p.log_ratio - q.log_ratio) - ends**2 / (2 * s * s) - log_m[:, None]
        right = (ends[1] - (1 + tilts) * p.largest - tilts * q[-1:].mean) / s**2
        rates = (
            np.maximum(np.stack([np.full_like(tilts, -ends[0] / s**2), right], axis=1), 1e-300)
            * s
            * math.sqrt(2 * math.pi)
        )
        return np.asarray(np.exp(np.minimum(logs - np.log(rates), 0.0)).sum(axis=1))


@dataclass(frozen=True)
class Line:
    """phi(u) = M(t + iu)/M(t) of one pair."""

    nodes: Nodes
    tilt: float
    log_m: float
    weights: Array

    def core(self, share: float) -> tuple[float, float]:
        """Places around all weights above `share` of the largest."""
        x, inside = self.nodes.x, np.flatnonzero(self.weights > share * self.weights.max())
        return float(x[inside[0]]), float(x[inside[-1]])

    @cached_property
    def mean(self) -> float:
        return float(self.weights @ self.nodes.loss)

    @cached_property
    def variance(self) -> float:
        return float(self.weights @ (self.nodes.loss - self.mean) ** 2)

    def values(self, u: Array) -> Complex:
        """phi at equispaced u = 0, D, 2D, ...: e^{i(u + v)L} = e^{iuL} e^{ivL} makes it one matrix product."""
        keep = self.weights > SMALL / self.weights.size
        loss, weights = self.nodes.loss[keep], self.weights[keep]
        inner = math.isqrt(u.size) + 1
        turn = 1j * (float(u[1]) * loss)
        coarse, fine = _powers(np.exp(inner * turn), -(-u.size // inner)), _powers(np.exp(turn), inner)
        return np.asarray(((coarse * weights) @ fine.T).ravel()[: u.size])

    def rounding(self, u: Array) -> Array:
        """Relative to M(t): exponents and phases each carry a rounding of their own size."""
        n, s = self.nodes, self.nodes.pair.noise.scale
        size = n.x**2 / (2 * s * s) + (1 + self.tilt) * np.abs(n.p.log_ratio) + abs(self.tilt) * np.abs(n.q.log_ratio)
        phase = float(self.weights @ np.abs(n.loss))
        return np.asarray(
            SMALL + 4 * EPS * (8 + float(self.weights @ size) + math.sqrt(n.x.size) + 2 * math.sqrt(u.size) + u * phase)
        )


def _powers(base: Complex, count: int) -> Complex:
    """1, base, base^2, ... as rows."""
    rows = np.empty((count, base.size), dtype=np.complex128)
    rows[0], rows[1:] = 1.0, base
    return np.multiply.accumulate(rows, axis=0, out=rows)
