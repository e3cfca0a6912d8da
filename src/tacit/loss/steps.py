r"""One release on a lattice of losses, from above and from below.

Write u(K) = E_Q (dP/dQ - K)_+ = delta(log K). Masses p_j at losses g_j stand for the convex, decreasing function
u(K) = sum_j p_j (1 - K e^{-g_j})_+. If u_1 <= u_2 everywhere, the same holds after composing with anything
(docs/proofs/accounting.md, Lemma 2), so a lattice function above u bounds delta from above and one below u from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from .noise import Array
from .pairs import Pair

LARGEST = 600.0
"""Losses of one step beyond this are counted as infinite from above and dropped from below."""
ROUNDING = 32 * float(np.finfo(float).eps)
"""Differences of cell masses below this, relative to the cell, are rounding; `window` allows for them."""


@dataclass(frozen=True)
class Step:
    """Masses of P at losses `origin + width * (start + j)`, and its mass at infinity."""

    origin: float
    width: float
    start: int
    mass: Array
    infinite: float

    @property
    def losses(self) -> Array:
        return self.origin + self.width * np.arange(self.start, self.start + self.mass.size)

    def log_moments(self, tilts: Array) -> Array:
        """log E_P e^{t L} over finite losses, for several t."""
        held = np.flatnonzero(self.mass)
        if not held.size:
            return np.full(tilts.shape, -np.inf)
        exponents = np.log(self.mass[held]) + tilts[:, None] * self.losses[held]
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))


def _points(pair: Pair, width: float, log_mass: float) -> tuple[float, int, Array]:
    """Origin, first index and losses of the lattice points around all that matters."""
    origin = (pair.grid or (0.0, 0.0))[0]
    low, high = pair.reach(log_mass)
    first = math.floor((max(low, -LARGEST) - origin) / width - 1e-6)
    last = max(math.ceil((min(high, LARGEST) - origin) / width + 1e-6), first + 1)
    return origin, first, origin + width * np.arange(first, last + 1)


def upper_step(pair: Pair, width: float, log_mass: float) -> Step:
    r"""Connect the dots: between lattice points, P and Q masses are moved to the two ends, both preserved.

    Mass below the lattice moves up to its first point, mass above it to infinity.
    Reference: Doroshenko et al. 2022, Theorem 3.
    """
    origin, first, losses = _points(pair, width, log_mass)
    p, q = pair.masses(losses)
    left = (q[1:-1] * np.exp(losses[:-1]) - p[1:-1] * math.exp(-width)) / -math.expm1(-width)
    left = np.clip(left, 0.0, p[1:-1])
    mass = np.zeros(losses.size)
    mass[0] = p[0]
    mass[:-1] += left
    mass[1:] += p[1:-1] - left
    return Step(origin, width, first, mass, pair.infinite + float(p[-1]))


def lower_step(pair: Pair, width: float, log_mass: float) -> Step:
    r"""Tangents: the mirror image of connect the dots, and like it exact to second order in the width.

    Supporting lines t_i of u at the cell midpoints; at each lattice point v_i = min(t_{i-1}, t_i); the chords of the
    v_i, and the one from (0, total mass) to the first, lie below u. With cell masses P_i, Q_i around point i and e_i = P_i - K_i Q_i = t_{i-1} - t_i there, the kinks are
    p_i = K_i Q_i + (e_i^- - e_{i+1}^+)/(e^h - 1) - (e_{i-1}^- - e_i^+)/(1 - e^{-h}).

    Reference: docs/proofs/accounting.md, Theorem 2.
    """
    origin, first, losses = _points(pair, width, log_mass)
    edges = np.concatenate([losses - width / 2, [losses[-1] + width / 2]])
    p, q = (mass[1:] for mass in pair.masses(edges))
    keep = _top(p, q, losses)
    p, q, losses = _folded(p, keep), _folded(q, keep), losses[:keep]
    scaled = q * np.exp(losses)
    excess = p - scaled
    excess[np.abs(excess) <= ROUNDING * scaled] = 0.0
    over, under = np.maximum(excess, 0.0), np.maximum(-excess, 0.0)
    right = (under - np.append(over[1:], 0.0)) / math.expm1(width)
    left = (np.append(0.0, under[:-1]) - over) / -math.expm1(-width)
    left[0] = -over[0]
    mass = scaled + right - left
    if np.any(mass < 0):
        mass = _convex(mass, losses)
    return Step(origin, width, first, mass, pair.infinite)


def _top(p: Array, q: Array, losses: Array) -> int:
    """How many lattice points to keep so that all mass from the last one's cell on has ratio at least that point."""
    above_p, above_q = np.cumsum(p[::-1])[::-1][:-1], np.cumsum(q[::-1])[::-1][:-1]
    good = np.flatnonzero(above_p >= above_q * np.exp(losses) * (1 - ROUNDING))
    return int(good[-1]) + 1 if good.size else 1


def _folded(mass: Array, keep: int) -> Array:
    return np.append(mass[: keep - 1], mass[keep - 1 :].sum())


def _convex(mass: Array, losses: Array) -> Array:
    """Replace the function by its greatest convex minorant, then by one that ends at zero."""
    points = np.exp(losses)
    widths = np.diff(points, prepend=0.0)
    slopes = -np.cumsum((mass / points)[::-1])[::-1]
    rising = isotonic_regression(slopes, weights=widths).x
    if rising[-1] <= 0:
        return np.asarray(np.maximum(np.diff(rising, append=0.0) * points, 0.0))
    values = np.append(np.cumsum((-rising * widths)[::-1])[::-1][1:], 0.0)
    cut = int(np.flatnonzero(values > 0)[-1]) if np.any(values > 0) else 0
    start = max(float(values[0] - rising[0] * widths[0]), 0.0)
    flat = np.diff(np.where(np.arange(values.size) < cut, values, 0.0), prepend=start) / widths
    return np.asarray(np.maximum(np.diff(isotonic_regression(flat, weights=widths).x, append=0.0) * points, 0.0))
