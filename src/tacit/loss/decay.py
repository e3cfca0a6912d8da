r"""How fast a characteristic function decays, from a lower bound of its density.

If a law has density at least sum_i k_i/w_i 1[interval i of width w_i], then for every u' >= u

    |phi(u')| <= 1 - sum_i k_i (1 - sinc*(u w_i/2)),    sinc*(y) = sup_{y' >= y} |sin y'/y'|,

because each uniform layer has |phi| = |sinc| and the rest at most its mass (docs/proofs/accounting.md, Lemma 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .noise import Array
from .pairs import Location
from .quadrature import Line, Nodes

FEW = 2000
"""Up to so many steps the shifted line is tried."""
SIDE_LOBE = 0.21723363
"""The largest |sin y/y| beyond its first zero, rounded up."""


def log_decay(pair: Location, line: Line, count: int, u: Array) -> Array:
    """count times an upper bound of log |phi| that holds at each u and beyond."""
    with np.errstate(divide="ignore"):
        flat = np.log(Layers.below(pair, line).bound(u))
    if count > FEW:
        return np.asarray(count * flat)
    return np.asarray(count * np.minimum(flat, np.minimum.accumulate(shifted(pair, line, u))))


def shifted(pair: Location, line: Line, u: Array) -> Array:
    r"""An upper bound of log |phi| at each u, from the integral over Im x = b > 0 instead of the real line.

    There |r_p(x + ib)^{iu}| = e^{-u arg r_p} and |r_p(x + ib)| <= r_p(x), so every such bound falls with u. The
    cell-wise bound of the integral overshoots a little, which powers of it multiply: sharp for few steps only.
    """
    low, high, log_outside = line.core(1e-30)
    nodes = Nodes.of(pair, low, high, (high - low) / 256)
    cells = Line(nodes, line.tilt, line.log_m, line.weights, line.keep, 0.0).log_cells
    bounds = []
    for turn in nodes.steepest * np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5]):
        angle = nodes.p.least_angle(turn)[:-1] + nodes.q.least_angle(turn)[1:]
        exponents = cells + line.tilt * nodes.q.dip(turn) - np.outer(u, angle)
        exponents = np.column_stack([exponents, np.full(u.size, log_outside + line.tilt * nodes.q.deepest(turn))])
        top = exponents.max(axis=1)
        bounds.append(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + (turn * nodes.scale) ** 2 / 2)
    return np.asarray(np.minimum(np.min(bounds, axis=0), 0.0))


@dataclass(frozen=True)
class Layers:
    """Uniform layers below a density: their masses and widths."""

    mass: Array
    width: Array

    @classmethod
    def below(cls, pair: Location, line: Line) -> Layers:
        """Layers below the tilted density of the loss, from cell-wise lower bounds made to rise and fall once."""
        low, high, _ = line.core(1e-9)
        nodes = Nodes.of(pair, low, high, (high - low) / 80)
        s, t = nodes.scale, line.tilt
        bell = -(nodes.x**2) / (2 * s * s)
        rising = (1 + t) * nodes.p.log_ratio - t * nodes.q.log_ratio
        log_density = np.minimum(bell[:-1], bell[1:]) + rising[:-1] - line.log_m - math.log(s * math.sqrt(2 * math.pi))
        slope = (nodes.p.mean[1:] + nodes.q.mean[:-1]) / s**2
        height = np.exp(log_density - np.log(np.maximum(slope, 1e-300)))
        return cls.of(height, np.diff(nodes.loss))

    @classmethod
    def of(cls, height: Array, width: Array) -> Layers:
        """Layers of the largest function below `height` that rises to its peak and falls from it."""
        peak = int(height.argmax())
        left = np.minimum.accumulate(height[peak::-1])[::-1]
        hill = np.concatenate([left, np.minimum.accumulate(height[peak:])[1:]])
        order = np.argsort(hill)
        levels = hill[order]
        spans = np.cumsum(width[order][::-1])[::-1]
        return cls(np.diff(levels, prepend=0.0) * spans, spans)

    def bound(self, u: Array) -> Array:
        """An upper bound of |phi| at u and beyond."""
        y = np.outer(u, self.width / 2)
        near = np.minimum(y, 2.6)
        series = np.sin(near) / np.maximum(near, 1e-300)
        sinc = np.where(y < 2.6, np.maximum(series, SIDE_LOBE), np.minimum(SIDE_LOBE, 1 / np.maximum(y, 1.0)))
        return np.asarray(np.clip(1 - (1 - sinc) @ self.mass * (1 - 1e-12), 0.0, 1.0))
