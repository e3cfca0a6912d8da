r"""How fast a characteristic function decays, from a lower bound of its density.

If a law has density at least sum_i k_i/w_i 1[interval i of width w_i], then for every u' >= u

    |phi(u')| <= 1 - sum_i k_i (1 - sinc*(u w_i/2)),    sinc*(y) = sup_{y' >= y} |sin y'/y'|,

because each uniform layer has |phi| = |sinc| and the rest at most its mass (docs/proofs/accounting.md, Lemma 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from .mixture import Mixture
from .noise import Array
from .quadrature import FAINT, Line, veiled

FEW = 2000
"""Up to so many steps the shifted line is worth its cost."""
TURNS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.55])
"""Shifts tried, as shares of the largest."""
CELLS = 80
SIDE_LOBE = 0.21723363
"""The largest |sin y/y| beyond its first zero, rounded up."""


def shifted(line: Line, u: Array) -> Array:
    r"""An upper bound of log |phi| at each u and beyond, from the integral over Im x = b > 0 instead of the real line.

    There |r_p(x + ib)^{iu}| = e^{-u arg r_p} and |r_p(x + ib)| <= r_p(x), so every such bound falls with u. The way up
    and down at both ends adds b times the integrand there. The cell-wise bound of the integral overshoots a little,
    which powers of it multiply: sharp for few steps only.
    """
    pair, t, s = line.nodes.pair, line.tilt, line.nodes.pair.noise.scale
    x = np.linspace(line.nodes.edges[0], line.nodes.edges[-1], 4 * CELLS)
    if line.nodes.veils:
        x = np.union1d(x, line.nodes.edges)
    p, q = Mixture.at(pair.p, x, s), Mixture.at(pair.q, x, s)
    ends = (1 + t) * p.log_ratio - t * q.log_ratio - x * x / (2 * s * s) - math.log(s * math.sqrt(2 * math.pi))
    ends -= line.log_m
    h = x[1:] - x[:-1]
    bulge = h * h / (8 * s * s) * (1 + t * q[:-1].square / s**2)
    cells = np.logaddexp(ends[:-1], ends[1:]) + np.log(h / 2) + bulge
    turn = (line.nodes.turn * TURNS)[:, None]
    dip = t * Mixture.dip(q[:-1], q[1:], turn) if q.largest else np.zeros((TURNS.size, 1))
    hidden = np.zeros((TURNS.size, 2))
    exponents = cells + dip
    for place, width in line.nodes.veils:
        v, up = (x - place) / width, turn * (s * s / width)
        exponents = exponents + veiled(np.minimum(v[1:], v[:-1]), np.maximum(v[1:], v[:-1]), up)
        hidden += veiled(v[[0, -1]], v[[0, -1]], up)
    sides = np.logaddexp.reduce(ends[[0, -1]] + hidden, axis=1) + np.log(turn[:, 0] * (s * s)) + dip.max(axis=1)
    angle = p[:-1].least_angle(turn) + q[1:].least_angle(turn)
    found = np.zeros(u.size)
    for row in range(TURNS.size):
        sizes = exponents[row] - u[:, None] * angle[row]
        top = np.maximum(np.maximum.reduce(sizes, axis=1), sides[row])
        sizes -= top[:, None]
        np.maximum(sizes, FAINT, out=sizes)
        whole = np.add.reduce(np.exp(sizes, out=sizes), axis=1) + np.exp(np.maximum(sides[row] - top, FAINT))
        found = np.minimum(found, top + np.log(whole) + float(turn[row, 0] * s) ** 2 / 2)
    return found


@dataclass(frozen=True)
class Layers:
    """Uniform layers below a density: their masses and widths."""

    mass: Array
    width: Array

    @classmethod
    def below(cls, line: Line) -> Layers:
        """Layers below the tilted density of the loss, from bounds between nodes, made to rise and fall once."""
        n, s = line.nodes, line.nodes.pair.noise.scale
        core = line.within(1e-9 * float(np.maximum.reduce(line.weights)))
        first, last = max(core.start - 1, 0), min(core.stop, n.x.size - 1)
        left, right = slice(first, last), slice(first + 1, last + 1)
        rising = n.p.log_ratio + line.tilt * n.loss
        log_density = np.minimum(n.bell[left], n.bell[right]) + rising[left]
        for place, width in n.veils:
            veil = log_ndtr((n.x - place) / width)
            log_density += np.minimum(veil[left], veil[right])
        log_density -= line.log_m + math.log(s * math.sqrt(2 * math.pi))
        slope = (n.p.means(right) + n.q.means(left)) / s**2
        return cls.of(np.exp(log_density) / np.maximum(slope, 1e-290), n.loss[right] - n.loss[left])

    @classmethod
    def of(cls, height: Array, width: Array) -> Layers:
        """Layers of the largest function below `height` that rises to its peak and falls from it."""
        peak = int(height.argmax())
        hill = height.copy()
        hill[peak::-1] = np.minimum.accumulate(height[peak::-1])
        hill[peak:] = np.minimum.accumulate(height[peak:])
        order = hill.argsort()
        mass = hill[order]
        mass[1:] -= mass[:-1].copy()
        spans = np.add.accumulate(width[order[::-1]])[::-1]
        return cls(mass * spans, spans)

    def log_bound(self, u: Array) -> Array:
        r"""An upper bound of log |phi| at u and beyond.

        1 - sinc*(y) is at least 1 - 1/y, and at least what the first side lobe leaves or, up to y = 2.6,
        y^2/6 - y^4/120 + y^6/5040 - y^8/362880, the smaller of both.
        """
        y = u[:, None] * (self.width / 2)
        square = np.minimum(y, 2.6)
        square *= square
        lack = square / -362880.0
        for coefficient in (1 / 5040, -1 / 120, 1 / 6):
            lack += coefficient
            lack *= square
        np.minimum(lack, 1 - SIDE_LOBE, out=lack)
        np.maximum(y, 1.0, out=y)
        np.maximum(lack, 1 - 1 / y, out=lack)
        return np.log(np.maximum(1 - (lack @ self.mass) * (1 - 1e-12), 1e-300))
