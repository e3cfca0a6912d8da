r"""Random allocation: a record takes part in one of t releases, chosen uniformly (balls and bins).

One record added or removed: P = mean over i of N(e_i, s^2 I_t) against Q = N(0, s^2 I_t), with ratio

    R = (1/t) sum_i r_i,   r_i = e^{(2 x_i - 1)/2s^2},   x_i independent N(0, s^2) under Q.

H_K(P, Q) = E_Q (R - K)_+ and H_K(Q, P) = E_Q (1 - K R)_+ grow in the convex order of R, which sums of independent
variables keep. From above, r_i is split between the two ends of its cell on a lattice of values, mean kept. From
below, cells are merged into one outcome, and the value then moved down to the lattice for the first function (which
rises with R), up for the second (which falls). The t-fold sum is built by doubling; what leaves the lattice on the
way is dropped, and its P mass counts as telling all.

Reference: Chua et al. 2025 (balls-and-bins sampling); docs/proofs/accounting.md, Theorem 5.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import fft
from scipy.special import ndtr

from .composed import Release
from .noise import Array
from .pairs import Bracketed, Tabulated
from .window import EPS

REACH = 8.0
"""Deviations beyond which one ratio is cut off; its P mass there, about 1e-15, counts as telling all."""


def allocated(scale: float, steps: int) -> Release:
    """One pass over `steps` Gaussian releases of noise `scale`, each record in one of them."""
    width, size, points = _lattice(scale, steps)
    upper = _table(*_split(scale, width, size), width, steps, points, sign=1)
    down = _table(*_merged(scale, width, size, up=False), width, steps, points, sign=-1)
    up = _table(*_merged(scale, width, size, up=True), width, steps, points, sign=-1)
    return Release(Bracketed(upper, down), Bracketed(upper.mirrored(), up.mirrored()))


def _lattice(scale: float, steps: int) -> tuple[float, int, int]:
    """Width and number of lattice values for one ratio and for the sum of `steps` of them."""
    points = 1 << (15 if steps <= 32 else 17)
    spread = math.sqrt(math.expm1(min(1 / scale**2, 40.0)) * steps)
    top = math.exp(min((1 + 2 * REACH * scale) / (2 * scale**2), 40.0))
    width = (steps + 10 * spread + min(top, 30.0 * steps + 30.0)) / points
    return width, int(min(top, 30.0 * steps + 30.0) / width) + 1, points


def _cells(scale: float, cuts: Array) -> tuple[Array, Array, float]:
    """Q masses and means times masses (that is, P masses) of r between cuts, and the P mass beyond the last."""
    with np.errstate(divide="ignore"):
        x = scale * np.log(np.maximum(cuts, 0.0)) + 0.5 / scale
    q, p = ndtr(x), ndtr(x - 1 / scale)
    return np.diff(q), np.diff(p), float(ndtr(1 / scale - x[-1]))


def _split(scale: float, width: float, size: int) -> tuple[Array, float]:
    """Both ends of every cell, mass and mean kept."""
    q, p, lost = _cells(scale, width * np.arange(size + 1, dtype=np.float64))
    right = np.clip(p / width - q * np.arange(size), 0.0, q)
    return np.append(q - right, 0.0) + np.append(0.0, right), lost


def _merged(scale: float, width: float, size: int, *, up: bool) -> tuple[Array, float]:
    """One outcome per cell; cuts are moved until no mean lies on the wrong side of its lattice value."""
    values, side = width * np.arange(size + 1, dtype=np.float64), -1.0 if up else 1.0
    cuts = np.append(values - width / 2, values[-1] + width / 2)
    for _ in range(6):
        q, p, lost = _cells(scale, np.maximum(cuts, 0.0))
        lack = np.maximum(side * (values * q - p), 0.0)
        if not np.any(lack > 1e-14 * width * q):
            break
        move = 1.2 * lack / np.maximum(q, 1e-300)
        move = np.maximum(np.append(move, 0.0), np.append(0.0, move))
        cuts = np.clip(cuts + side * move, np.append(values - width, values[-1]), np.append(values, values[-1] + width))
    wrong = side * (values * q - p) > 1e-13 * width * q
    moved = np.roll(np.where(wrong, q, 0.0), -1 if not up else 1)
    return np.where(wrong, 0.0, q) + moved, lost


def _table(mass: Array, lost: float, width: float, steps: int, points: int, sign: int) -> Tabulated:
    """The sum of `steps` ratios over `steps`: losses log R, P = R Q; value 0 is an outcome that only Q has."""
    q, dropped = _power(mass, steps, width, points, sign)
    values = width / steps * np.arange(q.size)
    keep = np.flatnonzero((q > 0) & (values > 0))
    logs, p, q = np.log(values[keep]), values[keep] * q[keep], q[keep]
    if sign < 0:
        return Tabulated(logs, p, q)
    return Tabulated(logs, p, q, min(lost + dropped, 1.0), max(1.0 - float(q.sum()), 0.0) + 1e-13)


def _power(mass: Array, steps: int, width: float, points: int, sign: int) -> tuple[Array, float]:
    """The `steps`-fold convolution by doubling, cut to `points` values, and a bound of the P mass cut away.

    A block of m ratios that leaves the lattice at value v has P mass at most (v + t)/t, and there are t/m such blocks.
    """
    block, size, rest, dropped = mass, 1, steps, 0.0
    total = np.ones(1)
    while True:
        if rest % 2:
            total, lost = _convolved(total, block, width, steps, points, sign) if total.size > 1 else (block, 0.0)
            dropped += lost
        rest //= 2
        if not rest:
            return total, dropped
        block, lost = _convolved(block, block, width, steps, points, sign)
        size *= 2
        dropped += lost * steps / size


def _convolved(a: Array, b: Array, width: float, steps: int, points: int, sign: int) -> tuple[Array, float]:
    """A linear convolution cut to `points`, each entry moved outward by its error bound; and the P mass beyond.

    Masses and means of the whole are known exactly, so what was cut is what is missing.
    """
    size = fft.next_fast_len(a.size + b.size - 1, real=True)
    kept = fft.irfft(fft.rfft(a, size) * fft.rfft(b, size), size)[: min(a.size + b.size - 1, points)]
    values = width / steps * np.arange(max(a.size, b.size, kept.size))
    sums = [(float(item.sum()), float(item @ values[: item.size])) for item in (a, b, kept)]
    (mass_a, mean_a), (mass_b, mean_b), (mass, mean) = sums
    missing = max(mass_a * mass_b - mass, 0.0) + max(mean_a * mass_b + mass_a * mean_b - mean, 0.0) + 4e-14
    error = 12 * EPS * math.log2(size) * float(np.linalg.norm(a) * np.linalg.norm(b))
    return np.maximum(kept + sign * error, 0.0), missing
