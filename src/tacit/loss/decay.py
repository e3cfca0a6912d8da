r"""How fast a characteristic function decays, from a lower bound of its density.

If a law has density at least sum_i k_i/w_i 1[interval i of width w_i], then for every u' >= u

    |phi(u')| <= 1 - sum_i k_i (1 - sinc*(u w_i/2)),    sinc*(y) = sup_{y' >= y} |sin y'/y'|,

because each uniform layer has |phi| = |sinc| and the rest at most its mass (docs/proofs/accounting.md, Lemma 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .mixture import Mixture, steepest
from .noise import Array
from .quadrature import Line, veiled

FEW = 2000
"""Up to so many steps the shifted line is worth its cost."""
TURNS = 0.02, 0.05, 0.1, 0.2, 0.35, 0.55
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
    found = np.zeros(u.size)
    for turn in min(steepest(pair.p), steepest(pair.q)) * np.array(TURNS):
        masks, hidden = np.zeros(x.size - 1), np.zeros(2)
        for place, width in line.nodes.veils:
            v, up = (x - place) / width, turn * s * s / width
            masks += veiled(np.minimum(v[1:], v[:-1]), np.maximum(v[1:], v[:-1]), up)
            hidden += veiled(v[[0, -1]], v[[0, -1]], up)
        dip = Mixture.dip(q[:-1], q[1:], turn) if q.largest else np.zeros(1)
        sides = np.logaddexp.reduce(ends[[0, -1]] + hidden) + math.log(turn * s * s) + t * float(dip.max())
        exponents = np.empty((u.size, x.size))
        exponents[:, :-1] = cells + masks + t * dip - np.outer(u, p[:-1].least_angle(turn) + q[1:].least_angle(turn))
        exponents[:, -1] = sides
        top = exponents.max(axis=1)
        whole = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + (turn * s) ** 2 / 2
        found = np.minimum(found, whole)
    return found


@dataclass(frozen=True)
class Layers:
    """Uniform layers below a density: their masses and widths."""

    mass: Array
    width: Array

    @classmethod
    def below(cls, line: Line) -> Layers:
        """Layers below the tilted density of the loss, from cell-wise lower bounds made to rise and fall once."""
        pair, t, s = line.nodes.pair, line.tilt, line.nodes.pair.noise.scale
        low, high = line.core(1e-9)
        x = low + (high - low) / CELLS * np.arange(CELLS + 1, dtype=np.float64)
        p, q = Mixture.at(pair.p, x, s), Mixture.at(pair.q, x, s)
        bell = x * x / (-2 * s * s)
        rising = (1 + t) * p.log_ratio - t * q.log_ratio
        log_density = (
            np.minimum(bell[:-1], bell[1:]) + rising[:-1] - (line.log_m + math.log(s * math.sqrt(2 * math.pi)))
        )
        slope = (p[1:].mean + q[:-1].mean) / s**2
        loss = p.log_ratio - q.log_ratio
        return cls.of(np.exp(log_density) / np.maximum(slope, 1e-290), loss[1:] - loss[:-1])

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
        """An upper bound of log |phi| at u and beyond."""
        y = u[:, None] * (self.width / 2)
        near = np.maximum(np.minimum(y, 2.6), 1e-300)
        sinc = np.where(
            y < 2.6, np.maximum(np.sin(near) / near, SIDE_LOBE), np.minimum(SIDE_LOBE, 1 / np.maximum(y, 1.0))
        )
        return np.log(np.minimum(np.maximum(1 - (1 - sinc) @ self.mass * (1 - 1e-12), 1e-300), 1.0))
