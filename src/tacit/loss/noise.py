"""Noise on the real line: what a location pair needs to know about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri_exp

from .cached import cached
from .cells import FAR as FAR
from .cells import NARROW, bell, narrow_cells, wide_cells
from .cells import Array as Array

Complex = NDArray[np.complex128]
EPS = float(np.finfo(float).eps)
BITS = 51
"""Places where outcomes are divided have at most so many binary digits, so that moving them by a shift is exact."""
SMOOTH = 2048.0
"""Scale from which sums over integers are integrals with two corrections; below, they are summed."""


POISSON = 2.0
"""Scale from which sum_k e^{-k^2/2s^2} is s sqrt(2 pi) up to e^{-2 pi^2 s^2} < 1e-34, by Poisson's summation."""


def log1p(x: Complex) -> Complex:
    """log(1 + x), right relative to its size for small x too, which numpy's own is not for complex numbers."""
    small = np.abs(x) < 0.5
    y = x if small.all() else np.where(small, x, 0.0)
    found = 0.5 * np.log1p(y.real * (2 + y.real) + y.imag**2) + 1j * np.arctan2(y.imag, 1 + y.real)
    if y is not x:
        far = 1 + x[~small]
        found[~small] = np.log(np.where(far == 0, 1e-300, far))
    return np.asarray(found)


@dataclass(frozen=True)
class Noise(ABC):
    """A symmetric, log-concave density g on the real line."""

    scale: float
    atoms: ClassVar[bool] = False
    """Whether log g(x - c)/g(x) has values of positive probability."""
    whole: ClassVar[bool] = False
    """Whether all of it lies on the integers."""

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

    def cut(self, x: Array, shift: float) -> Array:
        """Where outcomes are divided at x, so that P and Q are divided alike: x - c is exact for shifts c.

        On the integers this is one integer, else the next multiple of a power of two below; `shift` is the largest c.
        """
        step = 2.0 ** (math.ceil(math.log2(self._far + shift or self.scale)) - BITS)
        return np.asarray(np.floor(x / step) * step)

    @property
    def _far(self) -> float:
        """How far from 0 outcomes are divided, shifts aside."""
        return FAR * self.scale

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
        r"""P(a < X <= b) with a relative error of at most 370 units of the last digit, however small it is.

        Narrow cells by the midpoint series w phi(m) sum_k w^2k He_2k(m)/(4^k (2k + 1)!), others by tails.
        Reference: docs/proofs/rounding.md, Lemma 2.
        """
        with np.errstate(invalid="ignore"):
            w, m = (b - a) / self.scale, (a + b) / 2
            narrow = (w * (1 + np.abs(m) / self.scale) < NARROW) & np.isfinite(m)
        if narrow.all():
            return narrow_cells(w, m, self.scale)
        found = np.empty(narrow.shape)
        found[narrow] = narrow_cells(w[narrow], m[narrow], self.scale)
        found[~narrow] = wide_cells(a[~narrow], b[~narrow], self.scale)
        return found


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

    @property
    def _far(self) -> float:
        return 0.0  # the loss changes between the places of the parts only

    def between(self, a: Array, b: Array) -> Array:
        """P(a < X <= b) with a small relative error: e^{b/s} (1 - e^{-(b - a)/s})/2 left of 0."""
        flip = a > -b
        low, high = np.where(flip, -b, a), np.where(flip, -a, b)
        with np.errstate(invalid="ignore"):
            left = -0.5 * np.exp(np.minimum(high, 0.0) / self.scale) * np.expm1(-(high - low) / self.scale)
            sides = np.expm1(np.minimum(low, 0.0) / self.scale) + np.expm1(-np.maximum(high, 0.0) / self.scale)
        return np.where(high == low, 0.0, np.where(high <= 0, left, -0.5 * sides))


@dataclass(frozen=True)
class DiscreteGaussianNoise(GaussianNoise):
    r"""Probability proportional to e^{-k^2/2s^2} on the integers, s = scale; places and shifts are integers."""

    atoms: ClassVar[bool] = True
    whole: ClassVar[bool] = True

    @cached
    def _table(self) -> tuple[Array, Array]:
        """P(X <= k) for k from -reach to reach, summed from the left, and what rounding took from every sum."""
        k = np.arange(-self._reach, self._reach + 1, dtype=np.float64)
        mass = bell(k, self.scale)
        mass = mass / (math.fsum(mass) if self.scale < POISSON else self.scale * math.sqrt(2 * math.pi))
        sums = np.add.accumulate(mass)
        before, grown = sums[:-1], sums[1:]
        part = grown - before
        lost = (before - (grown - part)) + (mass[1:] - part)  # exact: Knuth's two-sum
        return sums, np.append(0.0, np.add.accumulate(lost))

    @property
    def _reach(self) -> int:
        return math.ceil(38.5 * self.scale) + 1

    def cut(self, x: Array, shift: float) -> Array:
        return _whole(x)

    def below(self, x: Array) -> Array:
        return self.between(np.full(x.shape, -np.inf), x)

    def between(self, a: Array, b: Array) -> Array:
        """P(a < X <= b), read on the side where sums are small."""
        low, high = np.floor(a), np.floor(b)
        flip = low > -high
        first, second = np.where(flip, -high - 1, low), np.where(flip, -low - 1, high)
        return self._summed(first, second) if self.scale < SMOOTH else self._smooth(first, second)

    def _summed(self, a: Array, b: Array) -> Array:
        sums, lost = self._table
        first, second = (np.clip(x, -self._reach - 1, self._reach).astype(np.int64) + self._reach for x in (a, b))
        outside = first < 0
        first, second = np.maximum(first, 0), np.maximum(second, 0)
        inner = (sums[second] - sums[first]) + (lost[second] - lost[first])
        whole = np.where(b < -self._reach, 0.0, sums[second] + lost[second])
        return np.asarray(np.maximum(np.where(outside, whole, inner), 0.0))

    def _smooth(self, a: Array, b: Array) -> Array:
        r"""The midpoint rule of Euler and Maclaurin: the sum is Int f - D1/24 + 7 D3/5760, up to 1e-15;
        D1 and D3 are how much the first and third derivative change.

        Sums over all integers are s sqrt(2 pi) up to e^{-2 pi^2 s^2}.
        """
        first, second = a + 0.5, b + 0.5
        moved = self._correction(second) - self._correction(first)
        return np.asarray(np.maximum(GaussianNoise(self.scale).between(first, second) + moved, 0.0))

    def _correction(self, x: Array) -> Array:
        u = np.clip(x / self.scale, -40.0, 40.0)
        density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        return np.asarray(density * (u / 24 - 7 * (u**3 - 3 * u) / (5760 * self.scale**2)) / self.scale**2)

    def lower_quantile(self, log_mass: float) -> float:
        """P(X <= x) is at most this; the left tail is below the Gaussian's of a slightly larger scale."""
        return math.floor(super().lower_quantile(log_mass)) - 2.0 if math.isfinite(log_mass) else -math.inf


@dataclass(frozen=True)
class DiscreteLaplaceNoise(LaplaceNoise):
    r"""Probability proportional to e^{-|k|/b} on the integers, b = scale; places and shifts are integers."""

    whole: ClassVar[bool] = True

    def cut(self, x: Array, shift: float) -> Array:
        return _whole(x)

    def below(self, x: Array) -> Array:
        k = np.floor(x)
        ratio = math.exp(-1 / self.scale)
        tail = np.exp(-np.where(k < 0, -k, k + 1) / self.scale) / (1 + ratio)
        return np.where(k < 0, tail, 1 - tail)

    def between(self, a: Array, b: Array) -> Array:
        """P(a < X <= b): left of 0 it is e^{b/s} (1 - e^{-(b - a)/s})/(1 + r), r = e^{-1/s}."""
        low, high = np.floor(a), np.floor(b)
        flip = low > -high
        low, high = np.where(flip, -high - 1, low), np.where(flip, -low - 1, high)
        whole = 1 + math.exp(-1 / self.scale)
        with np.errstate(invalid="ignore"):
            left = -np.exp(np.minimum(high, -1.0) / self.scale) * np.expm1(-(high - low) / self.scale)
            below = math.exp(-1 / self.scale) * np.expm1(np.minimum(low + 1, 0.0) / self.scale)
            across = -below - np.expm1(-np.maximum(high + 1, 0.0) / self.scale)
        return np.where(high <= low, 0.0, np.where(high < 0, left, across) / whole)

    def lower_quantile(self, log_mass: float) -> float:
        return math.floor(super().lower_quantile(log_mass)) - 1.0 if math.isfinite(log_mass) else -math.inf


def _whole(x: Array) -> Array:
    """The largest integer at or below x, where x may be too small by rounding."""
    return np.asarray(np.floor(x + 64 * EPS * np.minimum(np.abs(x), 1e300) + 64 * EPS))
