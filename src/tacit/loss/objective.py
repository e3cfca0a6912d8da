r"""Objective perturbation: the exact minimiser of a randomly tilted convex objective.

The map from the tilt b to the minimiser is one to one, so densities of minimisers are Gaussian densities of tilts times
a determinant. One record changes the determinant by a factor in [1, 1 + kappa], kappa = smoothness/regularization.
It also moves the tilt by a vector of norm at most h, in a space of `axes` dimensions, that may depend on the minimiser.
With y the length of the tilt in that space and z the noise, the ratio of densities is at most

    (1 + kappa) e^{m(y)},   m(y) = y^2/2z^2 up to h, (h y - h^2/2)/z^2 beyond.

The pair here has this ratio on y > y*, where P has mass 1 in total; below y* only Q has mass.

Reference: docs/proofs/mechanisms.md, Theorem 3; after Kifer, Smith and Thakurta 2012 and Redberg, Koskela and Wang
2023, Improving the privacy and practicality of objective perturbation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from .cached import cached
from .noise import Array, GaussianNoise
from .pairs import Pair

ROOT = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Folded(Pair):
    """In units of one contribution: noise z = scale, largest move h = shift, in 1 or 2 `axes`."""

    scale: float
    shift: float
    growth: float
    axes: int

    def mirrored(self) -> Folded:
        raise NotImplementedError("The other direction has a theorem of its own.")

    @cached
    def start(self) -> float:
        """y*: P has mass 1 beyond it."""
        h, missing = self.shift, 1.0 - float(self._far(np.array([self.shift, np.inf]))[0].sum())
        if missing > 0:
            reach = missing * self.scale * ROOT / (2 * (1 + self.growth))
            if self.axes == 1:
                return max(h - reach, 0.0)
            return math.sqrt(max(h * h - 2 * self.scale**2 * missing / (1 + self.growth), 0.0))
        low, high = h, h + 40.0 * self.scale
        for _ in range(20):  # each time cut into 16
            ends = np.linspace(low, high, 17)
            held = self._beyond(ends) >= 1
            last = int(np.flatnonzero(held)[-1]) if held.any() else 0
            if last == 16 or not low < ends[last + 1] - ends[last] + low:
                break
            low, high = float(ends[last]), float(ends[last + 1])
        return low

    def _beyond(self, y: Array) -> Array:
        """P beyond each length of at least h."""
        moved = (y - self.shift) / self.scale
        tail = ndtr(-moved)
        if self.axes == 1:
            return np.asarray(2 * (1 + self.growth) * tail)
        return np.asarray((1 + self.growth) * (np.exp(-(moved**2) / 2) + self.shift / self.scale * ROOT * tail))

    def renyi(self, tilts: Array) -> Array:
        r"""E_P e^{tL} <= (1 + kappa)^{1+t} e^{t(1+t) h^2/2z^2} (3 + (1 + t) (h/z) sqrt(2 pi)).

        Below h the loss is at most that at h. Above, with g = y - h and a = t h/z, P has at most twice a normal density
        or a Rayleigh density and h/z sqrt(2 pi) times a normal one, and Int u e^{au - u^2/2} du over u > 0 is at most
        1 + a sqrt(2 pi) e^{a^2/2}.
        """
        ratio, grown = self.shift / self.scale, math.log1p(self.growth)
        factor = np.log(3 + (1 + tilts) * ratio * ROOT)
        return np.asarray((1 + tilts) * (grown / tilts + ratio**2 / 2) + factor / tilts)

    def masses(self, losses: Array) -> tuple[Array, Array]:
        y = np.concatenate([[self.start], np.maximum(self.length(losses), self.start), [np.inf]])
        p, q = self._far(np.maximum(y, self.shift))
        near = np.minimum(y, self.shift)
        widths = np.diff(near) if self.axes == 1 else np.diff(near**2) / (2 * self.scale)
        steep = 2 / ROOT if self.axes == 1 else 1.0
        p_near = (1 + self.growth) * steep * widths / self.scale
        return p + p_near, q + self._tilts(near)

    def _far(self, y: Array) -> tuple[Array, Array]:
        """P and Q between lengths of at least h."""
        noise, h, z = GaussianNoise(self.scale), self.shift, self.scale
        moved = y - h
        p = noise.between(moved[:-1], moved[1:])
        if self.axes == 1:
            return 2 * (1 + self.growth) * p, self._tilts(y)
        return (1 + self.growth) * (_rayleigh(moved, z) + h / z * ROOT * p), self._tilts(y)

    def _tilts(self, y: Array) -> Array:
        """Q between lengths: folded normal, or Rayleigh."""
        if self.axes == 1:
            return 2 * GaussianNoise(self.scale).between(y[:-1], y[1:])
        return _rayleigh(y, self.scale)

    def length(self, losses: Array) -> Array:
        """The y at which the loss is as given; 0 where every loss is larger."""
        m = np.maximum(losses - math.log1p(self.growth), 0.0)
        h, z = self.shift, self.scale
        return np.where(m < h * h / (2 * z * z), z * np.sqrt(2 * m), z * z * m / h + h / 2)

    def loss(self, y: float) -> float:
        h, z = self.shift, self.scale
        m = y * y / 2 if y < h else h * y - h * h / 2
        return math.log1p(self.growth) + m / z**2

    def reach(self, log_mass: float) -> tuple[float, float]:
        if math.isinf(log_mass):
            return self.loss(self.start), math.inf
        extra = math.log(2 * (1 + self.growth) * (1 + self.shift / self.scale * ROOT))
        far = self.shift + self.scale * math.sqrt(2 * max(extra - log_mass, 0.0))
        return self.loss(self.start), self.loss(max(far, self.start))


def _rayleigh(y: Array, scale: float) -> Array:
    """e^{-a^2/2} - e^{-b^2/2} of neighbouring lengths over `scale`."""
    square = (y / scale) ** 2 / 2
    with np.errstate(invalid="ignore"):
        grown = np.where(np.isinf(square[1:]), np.inf, square[1:] - square[:-1])
    return np.asarray(np.exp(-square[:-1]) * -np.expm1(-grown))
