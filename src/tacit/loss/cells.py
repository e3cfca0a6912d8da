r"""Masses of normal noise between two places, with all their digits, however narrow or far out the cell is.

Differences of a distribution function lose digits: at 10 standard deviations, with cells a five-hundredth wide, 2,600
units of the last digit, and 40,000 at 34. Here a mass is off by at most 370 (docs/proofs/rounding.md, Lemma 2).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

Array = NDArray[np.float64]
SERIES = tuple(1 / math.prod(range(1, 2 * k + 2)) / 4.0**k for k in range(5))
"""1/(4^k (2k + 1)!): coefficients of the mass of a narrow cell in powers of its width."""
NARROW = 0.1
"""Cells with w (1 + |m|) below this have five terms of that series, in units of the scale: 2.6e-16 are left out."""
FAR = 40.0
"""Scales beyond which Gaussian noise has no mass that numbers can hold."""


def narrow_cells(w: Array, m: Array, scale: float) -> Array:
    """Normal masses of cells of width w, in units of the scale, around m, by the midpoint series."""
    m2, w2 = (m / scale) ** 2, w * w
    before, now, series, power = np.ones_like(m), m2 - 1, np.ones_like(m), np.ones_like(w)
    for k, coefficient in enumerate(SERIES[1:], 1):
        power = power * w2
        series = series + coefficient * power * now
        n = 2 * k  # He_{n+2} = (x^2 - 2n - 1) He_n - n (n - 1) He_{n-2}
        before, now = now, (m2 - 2 * n - 1) * now - n * (n - 1) * before
    return np.asarray(w * bell(m, scale) * series / math.sqrt(2 * math.pi))


def wide_cells(a: Array, b: Array, scale: float) -> Array:
    r"""Normal masses of other cells, from the side with the smaller tail; in units of the scale

    e^{-b^2/2} (erfcx(-b/sqrt 2) - erfcx(-a/sqrt 2) e^{-(b - a)(-a - b)/2})/2 for a < b <= 0.
    """
    flip = a > -b
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    across = high > 0
    x = np.where(across, 0.0, np.maximum(low, -FAR * scale)) / scale
    y = np.where(across, 0.0, np.maximum(high, -FAR * scale))
    lost = across | np.isinf(low)
    apart = np.where(lost, 0.0, high - np.where(lost, 0.0, low)) / scale
    far = np.where(lost, 0.0, erfcx(-x / math.sqrt(2)) * np.exp(np.maximum(apart * (x + y / scale) / 2, -1e3)))
    tails = 0.5 * bell(y, scale) * (erfcx(-y / (scale * math.sqrt(2))) - far)
    return np.where(across, ndtr(high / scale) - ndtr(low / scale), np.where(high < -FAR * scale, 0.0, tails))


def bell(x: Array, scale: float) -> Array:
    r"""e^{-x^2/2s^2} to a few units of the last digit: what x^2/2s^2 loses in rounding is put back.

    Reference: Dekker 1971 (exact products); Higham 2002, section 2.
    """
    over, over_lost = _product(np.float64(scale), np.float64(scale))
    square, lost = _product(np.clip(x, -FAR * scale, FAR * scale), np.clip(x, -FAR * scale, FAR * scale))
    q = square / (2 * over)
    back, back_lost = _product(q, 2 * over)
    rest = ((square - back) - back_lost + lost - 2 * q * over_lost) / (2 * over)
    return np.asarray(np.exp(-q) * (1 - rest))


def _product(a: Array | np.float64, b: Array | np.float64) -> tuple[Array, Array]:
    """a b and what its rounding lost, exactly."""
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return np.asarray(product), np.asarray(((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)


def _halves(x: Array | np.float64) -> tuple[Array, Array]:
    """A number as the sum of two with 26 digits each."""
    large = 134217729.0 * x
    high = large - (large - x)
    return np.asarray(high), np.asarray(x - high)
