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
from .quadrature import Nodes

SIDE_LOBE = 0.21723363
"""The largest |sin y/y| beyond its first zero, rounded up."""


@dataclass(frozen=True)
class Layers:
    """Uniform layers below a density: their masses and widths."""

    mass: Array
    width: Array

    @classmethod
    def below(cls, pair: Location, tilt: float, log_m: float, low: float, high: float) -> Layers:
        """Layers below the tilted density of the loss, from cell-wise lower bounds made to rise and fall once."""
        cells = 96
        nodes = Nodes.of(pair, low, high, (high - low) / cells)
        s, t = nodes.scale, tilt
        bell = -(nodes.x**2) / (2 * s * s)
        rising = (1 + t) * nodes.p.log_ratio - t * nodes.q.log_ratio
        log_density = np.minimum(bell[:-1], bell[1:]) + rising[:-1] - log_m - math.log(s * math.sqrt(2 * math.pi))
        slope = (nodes.p.mean[1:] + nodes.q.mean[:-1]) / s**2
        height = np.exp(log_density - np.log(slope))
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
