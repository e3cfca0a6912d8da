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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from .cached import cached
from .mixture import NOTHING, Mixture, steepest
from .noise import Array, Complex
from .pairs import Location

EPS = float(np.finfo(float).eps)
POINTS = 16
ROOTS, SHARES = np.polynomial.legendre.leggauss(POINTS)
RADII = np.array([1.8, 2.8, 4.0, 7.0])[:, None]
"""Ellipses tried, the sums of whose half-axes are these, in half-widths of the panel."""
LONG, SHORT = (RADII + 1 / RADII) / 2, (RADII - 1 / RADII) / 2
RIMS = np.stack([-LONG, LONG])
LOG_SHARES = np.log(SHARES / math.sqrt(2 * math.pi))
GAP = 0.191
"""Largest distance of neighbouring nodes, in half-widths."""
GAUSS = math.log(64 / 15 / math.sqrt(2 * math.pi)) - 2 * POINTS * np.log(RADII) - np.log1p(-(RADII**-2.0))
WIDE, NARROW = (
    ((r + 1 / r) / 2, (r - 1 / r) / 2, math.log(64 / 5 / float(SHARES[0]) / (1 - r**-2)) - 2 * POINTS * math.log(r))
    for r in (5.8, 4.0)
)
"""Half-axes of two more ellipses, and the log of their constants."""
MOST = 40_000
"""Largest number of nodes."""
FAINT = -300.0
"""Terms below e^FAINT of the largest are counted as that: their own size does not matter, and takes longer."""
USELESS = 1e300
"""Instead of a bound that is infinite."""
FEW = 32
"""Up to so many frequencies are powers of one turn; more are products of two turns."""
SMALL = 1e-18
"""Nodes of less tilted mass than this over their number are left out of sums over frequencies."""


Veils = tuple[tuple[float, float], ...]


class NotMet(Exception):
    """The error budget cannot be met at reasonable cost; another method must answer."""


class TooMuch(NotMet):
    """The asked precision could be reached, with more work than is allowed."""


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
    bell: Array
    base: Array
    loss: Array
    p: Mixture
    q: Mixture
    veils: Veils = ()
    half: float = 0.0
    turn: float = math.inf

    @classmethod
    def of(cls, pair: Location, edges: Array, veils: Veils = (), half: float = 0.0) -> Nodes:
        """For every veil (c, w) the integrand carries a factor Phi((x - c)/w); it falls where w < 0.

        `half` is the half-width of even panels without veils.
        """
        scale = pair.noise.scale
        middle, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
        x = (middle[:, None] + halves[:, None] * ROOTS).ravel()
        p, q = Mixture.at(pair.p, x, scale), Mixture.at(pair.q, x, scale)
        bell = x * x / (-2 * scale**2)
        base = p.log_ratio + bell + (np.log(halves / scale)[:, None] + LOG_SHARES).ravel()
        for place, width in veils:
            base = base + log_ndtr((x - place) / width)
        turn = min(steepest(pair.p), steepest(pair.q))
        return cls(pair, edges, x, bell, base, p.log_ratio - q.log_ratio, p, q, veils, half, turn)

    @classmethod
    def between(cls, pair: Location, low: float, high: float) -> Nodes:
        """Even panels, fine enough for real tilts that are not large."""
        turn = min(steepest(pair.p), steepest(pair.q))
        half = min(0.9 * pair.noise.scale, turn * pair.noise.scale**2 / float(SHORT[2, 0]))
        count = math.ceil((high - low) / (2 * half))
        if count * POINTS > MOST:
            raise NotMet
        edges = low + (high - low) / count * np.arange(count + 1, dtype=np.float64)
        return cls.of(pair, edges, half=(high - low) / (2 * count))

    def refined(self, tilt: float, top: float, share: float) -> Nodes:
        """Panels of at most `share` over the local wave number at frequencies up to `top`, and no wider than now."""
        wide = np.diff(self.edges)
        growth = np.abs((1 + tilt) * self.p.mean + tilt * self.q.mean - self.x)
        wave = top * (self.p.mean + self.q.mean) + growth + 2 * np.sqrt(tilt * self.q.square)
        most = wave.reshape(-1, POINTS).max(axis=1) / self.pair.noise.scale**2
        narrow = float(SHORT[1, 0]) / (2 * self.turn * self.pair.noise.scale**2)
        least = np.maximum(most / (2 * share), max(0.8 / self.pair.noise.scale, narrow))
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
        exponents = tilts[:, None] * self.loss
        exponents += self.base
        top = np.maximum.reduce(exponents, axis=1)
        exponents -= top[:, None]
        np.maximum(exponents, FAINT, out=exponents)
        return np.asarray(top + np.log(np.add.reduce(np.exp(exponents, out=exponents), axis=1)))

    def line(self, tilt: float) -> Line:
        """This pair on the vertical line through `tilt`."""
        exponents = self.base + tilt * self.loss
        top = float(np.maximum.reduce(exponents))
        weights = np.exp(np.maximum(exponents - top, FAINT))
        total = float(np.add.reduce(weights))
        return Line(self, tilt, top + math.log(total), weights / total, exponents)

    @cached
    def _rims(self) -> tuple[Array, Array, Array, Array, Array]:
        """For all ellipses and panels: the log-integrand and the loss at both rims, and what t and u add to them."""
        s = self.pair.noise.scale
        middle, half = (self.edges[1:] + self.edges[:-1]) / 2, (self.edges[1:] - self.edges[:-1]) / 2
        x = middle + RIMS * half
        turn = SHORT * (half / s**2)
        p, q = Mixture.at(self.pair.p, x, s), Mixture.at(self.pair.q, x, s)
        rest = GAUSS + np.log(half / s) + ((LONG**2 + SHORT**2) / 2) * (half / s) ** 2
        rest[turn > self.turn] = USELESS
        per_t = NOTHING
        if q.largest:
            per_t = (LONG * half) ** 2 / (2 * s**4) * q[0].square + Mixture.dip(q[0], q[1], turn)
        for place, width in self.veils:
            ahead = (x - place) / width
            rest = rest + veiled(ahead.min(axis=0), ahead.max(axis=0), SHORT * half / width)
        base = p.log_ratio - x * x / (2 * s * s)
        return base, p.log_ratio - q.log_ratio, rest, per_t, p[1].angle(turn) + q[0].angle(turn)

    def log_error(self, tilts: Array, u: Array) -> Array:
        """log of a bound of what the panels add to M(t + iu), for pairs of t and u; it rises with u."""
        base, loss, rest, per_t, per_u = self._rims
        t = tilts[:, None, None]
        ends = t[..., None] * loss
        ends += base
        bounds = np.maximum.reduce(ends, axis=1) + rest
        if per_t is not NOTHING:
            bounds += t * per_t
        bounds += u[:, None, None] * per_u
        least = np.minimum.reduce(bounds, axis=1)
        top = np.maximum.reduce(least, axis=1)
        return np.asarray(top + np.log(np.add.reduce(np.exp(least - top[:, None]), axis=1)))

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
    exponents: Array

    def core(self, share: float) -> tuple[float, float]:
        """Places around all weights above `share` of the largest."""
        x, inside = self.nodes.x, self.within(share * float(np.maximum.reduce(self.weights)))
        return float(x[inside.start]), float(x[inside.stop - 1])

    def within(self, least: float) -> slice:
        """From the first to the last weight above `least`."""
        inside = (self.weights > least).nonzero()[0]
        if not inside.size:  # no weight is a number
            raise NotMet
        return slice(int(inside[0]), int(inside[-1]) + 1)

    @cached
    def mean(self) -> float:
        return float(self.weights @ self.nodes.loss)

    @cached
    def variance(self) -> float:
        away = self.nodes.loss - self.mean
        return float(self.weights @ (away * away))

    def log_error(self, tilts: Array, u: Array) -> Array:
        """log of a bound of what the panels add to M(t + iu), relative to M(t)."""
        found, others = self.nodes.log_error(tilts, u), tilts != self.tilt
        logs = np.full(tilts.shape, self.log_m)
        if others.any():
            logs[others] = self.nodes.log_moments(tilts[others])
        return np.asarray(found - logs)

    def quick_error(self, others: Sequence[float], u: Array) -> Array:
        r"""As `log_error` at `others` for u = 0, then at this tilt for u = 0 and more; by nodes alone: not as sharp.

        The ellipse reaches no farther than over both neighbours of its panel. So its supremum is found at a node of the
        three, up to what happens between nodes. Beyond the last one the integrand rises at most like e^x. Infinite
        where that does not help: uneven panels, or other tilts where Q is a mixture.
        """
        n, s, h = self.nodes, self.nodes.pair.noise.scale, self.nodes.half
        limit = n.turn * s**2 / h if h else 0.0
        if limit < NARROW[1]:
            return np.full(len(others) + u.size, math.inf)
        long, short, log_c = WIDE if WIDE[1] <= limit else NARROW
        turn, gap, reach = short * h / s**2, GAP * h / s**2, (long - 0.98) * h / s**2
        angles = n.p.arc(turn, gap, reach, slice(-POINTS, None)) + n.q.arc(turn, gap, reach, slice(0, POINTS))
        exponents = u[:, None] * angles + (self.exponents - self.log_m)
        if n.q.largest:
            exponents += self.tilt * n.q.sag(turn, gap, reach, POINTS)
        last, far = float(n.q.mean[-1]), float(n.x[-1])
        most = min(n.p.largest, float(n.p.mean[-1]) * math.exp(reach * n.p.largest))
        rises = [reach * max((1 + t) * most + t * last - far, 0.0) for t in (self.tilt, *others)]
        exponents[:, -POINTS:] += rises[0]
        np.minimum(np.maximum(exponents, FAINT, out=exponents), -2 * FAINT, out=exponents)
        found = np.empty(len(others) + u.size)
        found[len(others) :] = np.log(np.add.reduce(np.exp(exponents), axis=1))
        for place, tilt in enumerate(others):
            known = found[len(others)] if tilt == self.tilt else rises[1 + place]
            found[place] = math.inf if tilt != self.tilt and n.q.largest else known
        return found + (log_c + (GAP**2 / 8 + short**2 / 2) * (h / s) ** 2)

    def values(self, u: Array) -> Complex:
        """phi at equispaced u = 0, D, 2D, ...: e^{i(u + v)L} = e^{iuL} e^{ivL} makes it one matrix product."""
        keep = self.kept
        angle, weights = float(u[1]) * self.nodes.loss[keep], self.weights[keep]
        if u.size <= FEW:
            rows = np.empty((u.size, angle.size), dtype=np.complex128)
            rows[0], rows[1:] = 1.0, _turned(angle)
            return np.asarray(np.multiply.accumulate(rows, axis=0, out=rows) @ weights)
        inner = math.isqrt(u.size) + 1
        coarse, fine = _powers(inner * angle, -(-u.size // inner)), _powers(angle, inner)
        return np.asarray(((coarse * weights) @ fine.T).ravel()[: u.size])

    @cached
    def kept(self) -> slice:
        """Nodes with more than a trace of the mass."""
        return self.within(SMALL / self.weights.size)

    def rounding(self, u: Array) -> Array:
        """Relative to M(t): exponents and phases each carry a rounding of their own size.

        k products of a turn are off by k times (1.2 + 0.8) ulp at most, four turns and their products by 7. Sums over n
        nodes, in any order, are off by n/sqrt 2 (Higham 2002, equation 4.4, for both parts).
        """
        n = self.nodes
        size = (1 + self.tilt) * np.abs(n.p.log_ratio) + abs(self.tilt) * np.abs(n.q.log_ratio) - n.bell
        phase = float(self.weights @ np.abs(n.loss))
        turns = 0.5 * u.size if u.size <= FEW else 2.0
        fixed = 8 + float(self.weights @ size) + (self.kept.stop - self.kept.start) / 5 + turns
        return np.asarray((4 * EPS * phase) * u + (SMALL + 4 * EPS * fixed))


def _powers(angle: Array, count: int) -> Complex:
    """1, e^{i angle}, e^{2 i angle}, ... as rows, each the product of two turns."""
    inner = math.isqrt(count) + 1
    coarse, fine = (_turned(np.arange(0.0, stop, step)[:, None] * angle) for stop, step in ((count, inner), (inner, 1)))
    return np.asarray((coarse[:, None] * fine).reshape(-1, angle.size)[:count])


def _turned(angle: Array) -> Complex:
    """e^{i angle}."""
    turn = np.empty(angle.shape, dtype=np.complex128)
    turn.real, turn.imag = np.cos(angle), np.sin(angle)
    return turn
