"""Noise on the real line: what a location pair needs to know about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri_exp

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


def log1p(x: Complex) -> Complex:
    """log(1 + x), right relative to its size for small x too, which numpy's own is not for complex numbers."""
    small = np.abs(x) < 0.5
    y = np.where(small, x, 0.0)
    near = 0.5 * np.log1p(y.real * (2 + y.real) + y.imag**2) + 1j * np.arctan2(y.imag, 1 + y.real)
    return np.asarray(np.where(small, near, np.log(1 + np.where(small, 0.0, x))))


@dataclass(frozen=True)
class Noise(ABC):
    """A symmetric, log-concave density g on the real line."""

    scale: float
    atoms: ClassVar[bool] = False
    """Whether log g(x - c)/g(x) has values of positive probability."""

    @abstractmethod
    def below(self, x: Array) -> Array:
        """P(X <= x), with small relative error in the left tail."""

    @abstractmethod
    def log_ratio(self, x: Array, shift: float) -> Array:
        """log g(x - shift) / g(x); rises with x when shift > 0."""

    @abstractmethod
    def position(self, log_ratio: Array, shift: float) -> Array:
        """The largest x whose `log_ratio` is at most the given one, for shift > 0."""

    @abstractmethod
    def lower_quantile(self, log_mass: float) -> float:
        """The x with P(X <= x) = e^log_mass, for log_mass at most log 1/2."""

    def between(self, a: Array, b: Array) -> Array:
        """P(a < X <= b), read from the side with the smaller tail."""
        flip = a > -b
        low, high = np.where(flip, -b, a), np.where(flip, -a, b)
        return np.asarray(self.below(high) - self.below(low))


@dataclass(frozen=True)
class GaussianNoise(Noise):
    r"""N(0, s^2), s = scale."""

    def below(self, x: Array) -> Array:
        return np.asarray(ndtr(x / self.scale))

    def log_ratio(self, x: Array, shift: float) -> Array:
        return np.asarray(shift * (x - shift / 2) / self.scale**2)

    def position(self, log_ratio: Array, shift: float) -> Array:
        return np.asarray(self.scale**2 * log_ratio / shift + shift / 2)

    def lower_quantile(self, log_mass: float) -> float:
        return float(ndtri_exp(log_mass)) * self.scale

    def between(self, a: Array, b: Array) -> Array:
        r"""Narrow cells by the midpoint series w phi(m) (1 + w^2 He_2(m)/24 + w^4 He_4(m)/1920): all digits kept."""
        wide = super().between(a, b)
        with np.errstate(invalid="ignore"):
            w, m = (b - a) / self.scale, (a + b) / (2 * self.scale)
            narrow = (w * (1 + np.abs(m)) < 0.02) & np.isfinite(m)
        w, m2 = np.where(narrow, w, 0.0), np.where(narrow, m, 0.0) ** 2
        series = 1 + w**2 * (m2 - 1) / 24 + w**4 * (m2 * m2 - 6 * m2 + 3) / 1920
        return np.where(narrow, w * np.exp(-m2 / 2) * series / np.sqrt(2 * np.pi), wide)


@dataclass(frozen=True)
class LaplaceNoise(Noise):
    r"""Density e^{-|x|/b} / (2b), b = scale."""

    atoms: ClassVar[bool] = True

    def below(self, x: Array) -> Array:
        tail = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.where(x > 0, 1 - tail, tail)

    def log_ratio(self, x: Array, shift: float) -> Array:
        most = abs(shift) / self.scale
        return np.asarray(np.clip(np.sign(shift) * (2 * x - shift) / self.scale, -most, most))

    def position(self, log_ratio: Array, shift: float) -> Array:
        most = shift / self.scale
        inside = (shift + self.scale * log_ratio) / 2
        return np.where(log_ratio >= most, np.inf, np.where(log_ratio < -most, -np.inf, inside))

    def lower_quantile(self, log_mass: float) -> float:
        return float(self.scale * (log_mass + np.log(2.0)))


@dataclass(frozen=True)
class DiscreteGaussianNoise(GaussianNoise):
    r"""Probability proportional to e^{-k^2/2s^2} on the integers, s = scale; places and shifts are integers."""

    atoms: ClassVar[bool] = True

    @cached_property
    def _table(self) -> Array:
        """P(X <= k) for k from -reach to reach, summed from the left."""
        k = np.arange(-self._reach, self._reach + 1)
        mass = np.exp(-(k**2) / (2 * self.scale**2))
        return np.cumsum(mass / math.fsum(mass))

    @property
    def _reach(self) -> int:
        return math.ceil(38.5 * self.scale) + 1

    def below(self, x: Array) -> Array:
        index = np.clip(np.floor(x), -self._reach - 1, self._reach).astype(np.int64) + self._reach
        return np.where(index < 0, 0.0, self._table[np.maximum(index, 0)])

    def between(self, a: Array, b: Array) -> Array:
        return _integers_between(self, a, b)

    def lower_quantile(self, log_mass: float) -> float:
        """P(X <= x) is at most this; the left tail is below the Gaussian's of a slightly larger scale."""
        return math.floor(super().lower_quantile(log_mass)) - 2.0 if math.isfinite(log_mass) else -math.inf


@dataclass(frozen=True)
class DiscreteLaplaceNoise(LaplaceNoise):
    r"""Probability proportional to e^{-|k|/b} on the integers, b = scale; places and shifts are integers."""

    def below(self, x: Array) -> Array:
        k = np.floor(x)
        ratio = math.exp(-1 / self.scale)
        tail = np.exp(-np.where(k < 0, -k, k + 1) / self.scale) / (1 + ratio)
        return np.where(k < 0, tail, 1 - tail)

    def between(self, a: Array, b: Array) -> Array:
        return _integers_between(self, a, b)

    def lower_quantile(self, log_mass: float) -> float:
        return math.floor(super().lower_quantile(log_mass)) - 1.0 if math.isfinite(log_mass) else -math.inf


def _integers_between(noise: Noise, a: Array, b: Array) -> Array:
    """P(a < X <= b) on the integers: P(X > k) = P(X <= -k - 1) reads the right half from the left."""
    low, high = np.floor(a), np.floor(b)
    flip = low > -high
    first, second = np.where(flip, -high - 1, low), np.where(flip, -low - 1, high)
    return np.asarray(noise.below(second) - noise.below(first))
