r"""Random allocation: a record takes part in one of t releases, chosen uniformly (balls and bins).

One record added or removed: P = mean over i of N(e_i, s^2 I_t) against Q = N(0, s^2 I_t), with ratio

    R = (1/t) sum_i r_i,   r_i = e^{(2 x_i - 1)/2s^2},   x_i independent N(0, s^2) under Q.

H_K(P, Q) = E_Q (R - K)_+ and H_K(Q, P) = E_Q (1 - K R)_+ grow in the convex order of R, which sums of independent
variables keep. From above, r_i is split between the two ends of its cell on a lattice of values, mean kept. From below,
cells are merged into one outcome, and the value then moved down to the lattice for the first function (which rises with R),
up for the second (which falls). The t-fold sum is one Fourier transform.

Reference: Chua et al. 2025 (balls-and-bins sampling), Theorem 3; docs/proofs/accounting.md, Theorem 4.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from .composed import Release
from .noise import Array
from .pairs import Bracketed, Tabulated
from .steps import Step
from .window import convolve

POINTS = 1 << 17
REACH = 8.0
"""Deviations beyond which one ratio is cut off; its P mass there, about 1e-15, counts as telling all."""


def allocated(scale: float, steps: int) -> Release:
    """One pass over `steps` Gaussian releases of noise `scale`, each record in one of them."""
    width, size = _lattice(scale, steps)
    upper = _table(*_split(scale, width, size), width, steps, sign=1)
    down = _table(*_merged(scale, width, size, up=False), width, steps, sign=-1)
    up = _table(*_merged(scale, width, size, up=True), width, steps, sign=-1)
    return Release(Bracketed(upper, down), Bracketed(upper.mirrored(), up.mirrored()))


def _lattice(scale: float, steps: int) -> tuple[float, int]:
    """Width and number of lattice values for one ratio, such that the sum of `steps` of them fits into POINTS."""
    spread = math.sqrt(math.expm1(min(1 / scale**2, 40.0)) * steps)
    top = math.exp(min((1 + 2 * REACH * scale) / (2 * scale**2), 40.0))
    width = (steps + 10 * spread + min(top, 30.0 * steps + 30.0)) / POINTS
    return width, int(min(top, 30.0 * steps + 30.0) / width) + 1


def _cells(scale: float, cuts: Array) -> tuple[Array, Array, float]:
    """Q masses and means times masses (that is, P masses) of r between cuts, and the P mass beyond the last."""
    with np.errstate(divide="ignore"):
        x = scale * np.log(np.maximum(cuts, 0.0)) + 0.5 / scale
    q, p = ndtr(x), ndtr(x - 1 / scale)
    return np.diff(q), np.diff(p), float(ndtr(1 / scale - x[-1]))


def _split(scale: float, width: float, size: int) -> tuple[Array, float]:
    """Both ends of every cell, mass and mean kept."""
    q, p, lost = _cells(scale, width * np.arange(size + 1))
    right = np.clip(p / width - q * np.arange(size), 0.0, q)
    return np.append(q - right, 0.0) + np.append(0.0, right), lost


def _merged(scale: float, width: float, size: int, *, up: bool) -> tuple[Array, float]:
    """One outcome per cell; cuts are moved until no mean lies on the wrong side of its lattice value."""
    values, side = width * np.arange(size + 1), -1.0 if up else 1.0
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


def _table(mass: Array, lost: float, width: float, steps: int, sign: int) -> Tabulated:
    """The sum of `steps` ratios over `steps`: losses log R, P = R Q; value 0 is an outcome that only Q has."""
    step = Step(0.0, width, 0, mass, 0.0)
    density, error = convolve([(step, steps)], 0.0, POINTS)
    total = float(mass.sum()) ** steps
    q = np.maximum(density + sign * error, 0.0) * total
    values = width / steps * np.arange(POINTS)
    keep = np.flatnonzero((q > 0) & (values > 0))
    return Tabulated(np.log(values[keep]), values[keep] * q[keep], q[keep], lost if sign > 0 else 0.0)
