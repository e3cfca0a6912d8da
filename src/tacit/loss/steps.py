r"""One release on a lattice of losses, from above and from below.

Write u(K) = E_Q (dP/dQ - K)_+ = delta(log K). Masses p_j at losses g_j stand for the convex, decreasing function
u(K) = sum_j p_j (1 - K e^{-g_j})_+. If u_1 <= u_2 everywhere, the same holds after composing with anything
(docs/proofs/accounting.md, Lemma 2), so a lattice function above u bounds delta from above and one below u from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .noise import EPS, Array
from .pairs import Pair

LARGEST = 600.0
"""Losses of one step beyond this are counted as infinite from above and dropped from below."""
LENT = 0.45
"""Share of its mass that a lattice point lends to one neighbour."""
SPARSE = 0.25
"""A lattice on which a smaller share of the cells holds any mass is one of scattered outcomes."""
ROUNDING = 32 * EPS
"""Differences of cell masses below this, relative to the cell, are rounding."""
CELL = 512 * EPS
"""How far off the P and Q masses of a cell may be, relatively (docs/proofs/rounding.md, Lemma 2), with `ROUNDING`."""
EDGE = 160 * EPS
"""How far off the loss may be at which a cell is cut, over one plus the largest loss (Lemma 3 there)."""
FAINT = 1e-290
"""Q masses below this, whose last digits are lost, count as 0 from above; from below their cells are left out."""


@dataclass(frozen=True)
class Step:
    """Masses of P at losses `origin + width * (start + j)`, and its mass at infinity."""

    origin: float
    width: float
    start: int
    mass: Array
    infinite: float
    doubt: float = CELL
    """How far off masses may be, relatively: those of P; from below, those of Q as well."""

    @property
    def losses(self) -> Array:
        return self.origin + self.width * np.arange(self.start, self.start + self.mass.size, dtype=np.float64)

    def log_moments(self, tilts: Array) -> Array:
        """log E_P e^{t L} over finite losses, for several t."""
        held = np.flatnonzero(self.mass)
        if not held.size:
            return np.full(tilts.shape, -np.inf)
        exponents = np.log(self.mass[held]) + tilts[:, None] * self.losses[held]
        top = exponents.max(axis=1)
        return np.asarray(top + np.log(np.exp(exponents - top[:, None]).sum(axis=1)))


def _points(pair: Pair, width: float, log_mass: float, origin: float | None) -> tuple[float, int, Array]:
    """Origin, first index and losses of the lattice points around all that matters."""
    low, high = _reach(pair, log_mass)
    if origin is None:
        origin = origin_of(pair, width, log_mass)
    first = math.floor((low - origin) / width - 1e-6)
    last = max(math.ceil((high - origin) / width + 1e-6), first + 1)
    return origin, first, origin + width * np.arange(first, last + 1, dtype=np.float64)


def _reach(pair: Pair, log_mass: float) -> tuple[float, float]:
    low, high = pair.reach(log_mass)
    return max(low, -LARGEST), min(high, LARGEST)


def origin_of(pair: Pair, width: float, log_mass: float) -> float:
    """The pair's own lattice, or the loss of the heaviest cell: it then lies around a point and needs no neighbour."""
    if pair.grid is not None:
        return pair.grid[0]
    low, high = _reach(pair, log_mass)
    while high - low > 1.5 * width:
        edges = np.linspace(low, high, min(2 + math.ceil((high - low) / width), 200))
        p, _ = pair.masses(edges)
        heaviest = int(np.argmax(p[1:-1]))
        low, high = float(edges[heaviest]), float(edges[heaviest + 1])
    origin = (low + high) / 2
    for _ in range(2):
        p, q = pair.masses(np.array([origin - width / 2, origin + width / 2]))
        if not (p[1] > 0 and q[1] > 0):
            return origin
        origin = math.log(p[1]) - math.log(q[1])
    return origin


def upper_step(pair: Pair, width: float, log_mass: float, origin: float | None = None) -> Step:
    r"""Connect the dots: between lattice points, P and Q masses are moved to the two ends, both preserved.

    Mass below the lattice moves up to its first point, mass above it to infinity. Cells are cut a little below the
    points, and Q is lowered by all that rounding may have done: up to the factor 1 - `doubt` of its mass the step
    dominates the pair.
    Reference: Doroshenko et al. 2022, Connect the dots; docs/proofs/rounding.md, Lemma 4.
    """
    pair = pair.upper
    origin, first, losses = _points(pair, width, log_mass, origin)
    edge, doubt = EDGE * (1 + _largest(origin, losses)), CELL + pair.doubt
    p, q = pair.masses(losses - edge)
    q = np.where(q < FAINT, 0.0, q) * (1 - 3 * edge - 2 * doubt)
    left = (q[1:-1] * np.exp(losses[:-1]) - p[1:-1] * math.exp(-width)) / -math.expm1(-width)
    left = np.clip(left, 0.0, p[1:-1])
    mass = np.zeros(losses.size)
    mass[0] = p[0]
    mass[:-1] += left
    mass[1:] += p[1:-1] - left
    infinite = pair.infinite * (1 + pair.doubt) + float(p[-1]) * (1 + doubt)
    return Step(origin, width, first, mass, min(infinite, 1.0), doubt)


def _largest(origin: float, losses: Array) -> float:
    """The largest loss of a lattice, with either sign."""
    return max(abs(origin), abs(float(losses[0])), abs(float(losses[-1])))


def lower_step(pair: Pair, width: float, log_mass: float, origin: float | None = None) -> Step:
    r"""Merge and lean: the mirror image of connect the dots, and like it exact to second order in the width.

    The mass P_i, Q_i between two cuts around lattice point g_i becomes one outcome, which is post-processing. Let t_i
    be the lines of the resulting piecewise linear u; with v_i = min(t_{i-1}, t_i) at e^{g_i}, the chords of the v_i lie
    below u. With e_i = P_i - e^{g_i} Q_i their kinks are the masses

        p_i = e^{g_i} Q_i + (e_i^- - e_{i+1}^+)/(e^h - 1) - (e_{i-1}^- - e_i^+)/(1 - e^{-h}).

    A point lends to each neighbour less than half of what it has, so that p_i >= 0. Excess beyond that is given up (Q_i
    is raised), and a cell that lacks more gets its cuts raised (`_cells`).

    Mass below the lattice is dropped, mass above it belongs to the last point.
    Reference: docs/proofs/accounting.md, Theorem 2.
    """
    pair = pair.lower
    origin, first, losses = _points(pair, width, log_mass, origin)
    if pair.grid is None:
        cells = _surely(*pair.masses(losses))
        if np.count_nonzero(cells[0][1:-1]) < SPARSE * losses.size:
            return Step(origin, width, first, _drawn_together(*cells, losses), pair.infinite, CELL + pair.doubt)
    p, scaled = _cells(pair, losses, width)
    up, down = math.expm1(width), -math.expm1(-width)
    under = np.maximum(scaled - p, 0.0)
    over = np.minimum(np.maximum(p - scaled, 0.0), np.append(np.inf, LENT * up * np.minimum(scaled, p)[:-1]))
    scaled = np.where(under > 0, scaled, p - over)
    lent_up, lent_down = np.append(over[1:], 0.0) / up, np.append(0.0, under[:-1]) / down
    gained = under / up + np.append(over[0], over[1:] / down)
    mass = np.maximum(scaled + gained - lent_up - lent_down, 0.0)
    return Step(origin, width, first, mass, pair.infinite, CELL + pair.doubt)


def _surely(p: Array, q: Array) -> tuple[Array, Array]:
    """Masses of the cells that Q holds with all their digits."""
    return np.where(q < FAINT, 0.0, p), np.where(q < FAINT, 0.0, q)


def _drawn_together(p: Array, q: Array, losses: Array) -> Array:
    r"""Masses on the lattice where most cells hold nothing, so that neighbours could not lend.

    Every cell becomes one outcome, a share of which moves to the upper end, where its Q mass shrinks, and the rest to
    the lower end, where it grows. What is lost by one is gained by others above it. Going down from the top, the Q mass
    of all outcomes above any place never falls below what it was, which is all that u' <= u asks for.
    Reference: docs/proofs/accounting.md, Theorem 2b.
    """
    mass = np.zeros(losses.size)
    mass[-1] = p[-1]
    spare = max(float(p[-1] * math.exp(-losses[-1]) - q[-1]), 0.0)
    held = np.flatnonzero(p[1:-1])
    below, above = losses[held], losses[held + 1]
    inner_p, inner_q = p[1:-1][held], q[1:-1][held]
    gains = np.maximum(inner_p * np.exp(-below) - inner_q, 0.0).tolist()
    drops = inner_q - inner_p * np.exp(-above)
    drops = np.where(drops > ROUNDING * inner_q, drops, 0.0).tolist()
    for place in range(held.size - 1, -1, -1):
        share = 1.0 if drops[place] <= spare else spare / drops[place]
        spare = max(spare - share * drops[place], 0.0) + (1 - share) * gains[place]
        mass[held[place] + 1] += share * inner_p[place]
        mass[held[place]] += (1 - share) * inner_p[place]
    return mass


def _cells(pair: Pair, losses: Array, width: float) -> tuple[Array, Array]:
    """P_i and e^{g_i} Q_i, with cuts half-way between the points, or higher where a cell lacks what it cannot borrow.

    Raising a cut raises the ratios of both its cells, and a cell cut at its own point lacks nothing. The cut stays just
    below the point, where an outcome of positive probability may lie.
    """
    cuts, points = losses - width / 2, losses - 8e-15 * (1 + np.abs(losses))
    for attempt in range(6):
        p, q = (mass[1:] for mass in _surely(*pair.masses(cuts)))
        scaled = q * np.exp(losses)
        lack = _lack(p, scaled, width)
        poor = lack > ROUNDING * p
        if not poor.any():
            break
        raised = np.where(poor, 1.5 * lack / np.maximum(p, 1e-300), 0.0)
        raised = np.maximum(raised, np.append(0.0, raised[:-1]))
        cuts = np.where(poor & (attempt == 4), points, np.minimum(cuts + raised, np.maximum(cuts, points)))
    while np.any(gone := (_lack(p, scaled, width) > ROUNDING * p) & (scaled > 0)):
        p, scaled = np.where(gone, 0.0, p), np.where(gone, 0.0, scaled)
    near = np.abs(scaled - p) <= ROUNDING * p
    return p, np.where(near, p, scaled)


def _lack(p: Array, scaled: Array, width: float) -> Array:
    """Mass that a cell lacks beyond what the next cell can lend it."""
    lent = LENT * -math.expm1(-width) * np.append(np.minimum(scaled, p)[1:], 0.0)
    return np.asarray(scaled - p - lent)
