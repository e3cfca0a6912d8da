r"""Logarithms of tails, log P(X > x): for outcomes so rare that their probability is no number."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from .noise import SMOOTH, GaussianNoise, LaplaceNoise, Noise

TERMS = 9.5
"""Scales beyond its first term at which the tail of a sum over integers has terms below 1e-19 of that one."""


def log_tail(noise: Noise, x: float) -> tuple[float, float]:
    """log P(X > x), and a bound of how far off it is beyond rounding, relatively to P."""
    if noise.whole:
        return _beyond(noise, math.floor(x))
    if isinstance(noise, LaplaceNoise):
        return (-x / noise.scale - math.log(2.0) if x > 0 else math.log1p(-0.5 * math.exp(x / noise.scale))), 0.0
    return float(log_ndtr(-x / noise.scale)), 0.0


def _beyond(noise: Noise, k: int) -> tuple[float, float]:
    """log P(X > k) on the integers, from the side of the smaller tail."""
    if k < 0:
        log_below, off = _beyond(noise, -k - 1)
        return math.log1p(-math.exp(log_below)), off
    if isinstance(noise, GaussianNoise):
        return _gaussian(noise.scale, k + 1)
    return -(k + 1) / noise.scale - math.log1p(math.exp(-1 / noise.scale)), 0.0


def _gaussian(s: float, first: int) -> tuple[float, float]:
    r"""log sum_{j >= first} e^{-j^2/2s^2} over the sum of all, for first >= 1.

    From `SMOOTH` on it is the integral from first - 1/2: by the midpoint rule it is off by at most u^2/12s^2, for
    u = 1 + first/s.
    """
    if s >= SMOOTH:
        return float(log_ndtr((0.5 - first) / s)), (1 + first / s) ** 2 / (12 * s * s)
    i = np.arange(math.ceil(TERMS * s) + 2, dtype=np.float64)
    tail = math.fsum(np.exp(-i * (i + 2.0 * first) / (2 * s * s)))
    whole = 2 * math.fsum(np.exp(-(i * i) / (2 * s * s))) - 1.0
    return -(first * first) / (2 * s * s) + math.log(tail) - math.log(whole), 0.0
