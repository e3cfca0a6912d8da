r"""Random allocation: a record takes part in k of t releases, chosen uniformly (k = 1: balls and bins).

Let (P, Q) dominate one release, r = dP/dQ. For k = 1 the pair of the whole is the mean over i of Q x .. P_i .. x Q
against Q^t, whatever the mechanism (docs/proofs/accounting.md, Theorem 5), with the ratio

    R = (1/t) sum_i r_i,   r_i independent under Q.

*From above.* H_K(P, Q) = E_Q (R - K)_+ and H_K(Q, P) = E_Q (1 - K R)_+ grow in the convex order of R, which sums of
independent variables keep: r_i is split between the two ends of its cell on a lattice of values, mean kept. k of t
releases are dominated by one in each of k blocks, of floor(t/k) or one more releases, t in all (Theorem 6 there).

*From below*, any k. Looking only at s = sum_i y_i, y_i = log(1 - k/t + (k/t) r_i) rounded to a lattice, is
post-processing. Under Q all y_i are Q's; under P k of them are P's: two sums of independent variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from .composed import Release
from .computed import Bracketed, Levels, Tabulated
from .noise import Array
from .pairs import Discrete, Pair
from .quadrature import NotMet
from .steps import CELL
from .sums import Law, lattice_step, law_of, law_with_jumps

POINTS = 1 << 16
"""Values that the sum is spread over, about."""
REACHES = (1e-6, -25.0), (1e-10, -35.0), (0.0, -52.0)
"""For every delta from the first number on: log of the mass beyond which ratios are cut off, which counts as telling
all."""
RARE = 1e-3
"""How many large ratios come up in all steps on average: small and large ones are added up apart."""
FINE = 60.0
"""Lattice points per spread of one y, where there is room."""
CELLS = 3000
"""Outcomes that are kept of the sum from below."""
QUIET = np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore")
"""What is no number is found by its error bound, which is then no number either."""
HOPELESS = 0.4
"""Mass of P at ratios that cannot be added from which on no table is made."""
NOTHING = Discrete(((1.0, 1.0),))
"""A pair that tells nothing."""


def allocated(pair: Pair, times: int, steps: int) -> tuple[tuple[Release, int], ...]:
    """`times` of `steps` releases, each dominated by `pair`: one in each of `times` blocks from above, and one whole
    from below."""
    below = [below_levels(pair, times, steps, way) for way in (0, 1)]
    if times == 1:
        above = above_levels(pair, steps)
        return ((Release(Bracketed(above, below[0]), Bracketed(above.mirrored(), below[1])), 1),)
    size, longer = divmod(steps, times)
    blocks = tuple(
        (_block(pair, length), count) for length, count in ((size, times - longer), (size + 1, longer)) if count
    )
    return (*blocks, (Release(Bracketed(NOTHING, below[0]), Bracketed(NOTHING, below[1])), 1))


def _block(pair: Pair, size: int) -> Release:
    """One of `size` releases, from above alone."""
    above = pair if size == 1 else above_levels(pair, size)
    return Release(Bracketed(above, NOTHING), Bracketed(above.mirrored(), NOTHING))


def above_levels(pair: Pair, steps: int) -> Levels:
    """Tables for large, small and tiny delta: the farther out ratios are kept, the coarser is the lattice."""
    return Levels(tuple((least, partial(from_above, pair, steps, reach)) for least, reach in REACHES), pair)


def below_levels(pair: Pair, times: int, steps: int, way: int) -> Levels:
    """Lower ends in one direction, by two tables: sums of likelihood ratios are sharper, sums of their logarithms reach
    smaller deltas."""

    def table(reach: float, ratios: bool) -> Pair:
        return from_below(pair, times, steps, reach, ratios=ratios)[way]

    one = pair.mirrored() if way else pair
    largest = math.inf if one.infinite > 0 else times * one.largest  # all ratios at their end
    ways = (1e-11, partial(table, -30.0, times == 1)), (0.0, partial(table, -60.0, False))
    return Levels(ways, None, supremum=largest)


@lru_cache(maxsize=64)
@QUIET
def from_above(pair: Pair, steps: int, reach: float) -> Tabulated:
    """A pair that dominates one pass over `steps` releases."""
    top = math.exp(min(pair.reach(reach)[1], 60.0))
    spread = math.sqrt(steps * _variance(pair, top))
    width = (30 * spread + 3 * top) / POINTS
    if pair.infinite + float(pair.masses(np.array([60.0]))[0][-1]) > HOPELESS:
        width = math.inf
    for _ in range(5 if math.isfinite(width) else 0):
        mass, p_far, q_far = _split(pair, width, min(math.ceil(top / width) + 1, 2 * POINTS))
        try:
            found = law_with_jumps(lattice_step(mass, width), steps, RARE)
        except NotMet:
            width *= 2
            continue
        if not np.isfinite(found.most).all():
            break
        return _dominating(pair, found, steps, min(p_far + steps * q_far, 1.0), min(steps * q_far, 1.0), top)
    return Tabulated(np.zeros(0), np.zeros(0), np.zeros(0), 1.0, 1.0, pair)


def _variance(pair: Pair, top: float) -> float:
    """About E_Q min(r, top)^2 - 1, from cells a few percent wide: only to choose a width by."""
    low, _ = pair.reach(-50.0)
    edges = np.linspace(max(low, -60.0), math.log(top), 400)
    p, _ = pair.masses(edges)
    return max(float(p[1:-1] @ np.exp(edges[1:])) + float(p[-1]) * top - 1.0, 1e-12)


def _split(pair: Pair, width: float, size: int) -> tuple[Array, float, float]:
    """Q masses at 0, w, .., size w: both ends of every cell, mass and mean kept; and P and Q masses beyond.

    Outcomes that only Q has are ratios of 0: in a sum with others they do not tell who is absent.
    """
    p, q = pair.masses(np.log(width * np.arange(1, size + 1)))
    inner_q = q[:-1]
    right = np.clip(p[:-1] / width - inner_q * np.arange(size), 0.0, inner_q)
    mass = np.append(inner_q - right, 0.0) + np.append(0.0, right)
    mass[0] += pair.mirrored().infinite
    return mass, float(p[-1]) + pair.infinite, float(q[-1])


def _dominating(pair: Pair, law: Law, steps: int, p_lost: float, q_far: float, top: float) -> Tabulated:
    """Losses log R with P = R Q; a value of 0 is an outcome that only Q has.

    Runs with a ratio beyond the cut, or a sum beyond the last value, have at least the ratio `far`. With the record
    they count as telling all, and without it as an outcome of that ratio.
    """
    ratios = law.values / steps
    positive = (ratios > 0) & (law.most > 0)
    q = law.most[positive]
    p = ratios[positive] * q
    none = float(law.most[~positive].sum())
    p_lost += law.weighted / steps
    if p.size:
        p[0] += float(ratios[positive][0]) * law.below
    far, extra = min(top, float(law.values[-1])) / steps, (q_far + law.above) * (1 + 4 * CELL)
    place = int(np.searchsorted(ratios[positive], far))
    ratios, p, q = (np.insert(old, place, new) for old, new in ((ratios[positive], far), (p, far * extra), (q, extra)))
    p_lost, q_lost = (min(lost * (1 + 4 * CELL), 1.0) for lost in (p_lost, none + law.below))
    return Tabulated(np.log(ratios), p, q, p_lost, q_lost, pair, off=4 * CELL)


@dataclass(frozen=True)
class Statistic:
    """A function y of one ratio, by the loss at given y, on a lattice of this width between its least and largest y."""

    loss_of: Callable[[Array], Array]
    width: float
    low: float
    high: float


@lru_cache(maxsize=64)
@QUIET
def from_below(pair: Pair, times: int, steps: int, reach: float, *, ratios: bool) -> tuple[Pair, Pair]:
    """The sums of rounded y under P and under Q, in both directions; of r itself where ratios can be added."""
    statistic = (_ratio(pair, steps, reach) if ratios else None) or _log_mixture(pair, times, steps, reach)
    for _ in range(6):
        try:
            return _tabulated(pair, statistic, times, steps)
        except NotMet:
            statistic = replace(statistic, width=2 * statistic.width)
    return NOTHING, NOTHING


def _ratio(pair: Pair, steps: int, reach: float) -> Statistic | None:
    """y = r: the best there is, if cells are narrow enough to tell ratios apart."""
    top = math.exp(min(pair.reach(reach)[1], 60.0))
    variance = _variance(pair, top)
    width = (30 * math.sqrt(steps * variance) + 3 * top) / POINTS
    narrow = width**2 / 12 < 1e-3 * variance and width < 0.5
    return Statistic(_log, width, 0.0, top) if narrow else None


def _log(y: Array) -> Array:
    return np.asarray(np.log(np.maximum(y, 1e-300)))


def _log_mixture(pair: Pair, times: int, steps: int, reach: float) -> Statistic:
    """y = log(1 - k/t + (k/t) r), as for a Poisson sample."""
    rate = times / steps
    low, high = (math.log1p(rate * math.expm1(min(loss, 60.0))) for loss in pair.reach(reach))
    edges, loss_of = np.linspace(low, high, 400), partial(_losses, rate=rate)
    spread = _spread(pair, loss_of(edges), edges)
    width = max(spread / FINE, 30 * spread * math.sqrt(steps) / POINTS, (high - low) / POINTS)
    return Statistic(loss_of, width, low, high)


def _spread(pair: Pair, losses: Array, edges: Array) -> float:
    _, q = pair.masses(losses)
    middle = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    mean = float(q @ middle) / float(q.sum())
    return math.sqrt(max(float(q @ (middle - mean) ** 2), 1e-24))


def _losses(y: Array, rate: float) -> Array:
    """The loss log r at which log(1 - rate + rate r) is y."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log1p(np.expm1(y) / rate)
    return np.asarray(np.where(np.isnan(found), -1e300, np.maximum(found, -1e300)))


def _tabulated(pair: Pair, use: Statistic, times: int, steps: int) -> tuple[Pair, Pair]:
    first = math.floor(use.low / use.width) - 1
    points = np.arange(first, math.ceil(use.high / use.width) + 2, dtype=np.float64)
    p, q = pair.masses(use.loss_of(use.width * (points[:-1] + 0.5)))
    p[-1] += pair.infinite
    q[0] += pair.mirrored().infinite
    one_p, one_q = (lattice_step(mass, use.width, first) for mass in (p, q))
    absent = law_of([(one_q, steps)])
    present = law_of([(one_p, times), *(((one_q, steps - times),) if steps > times else ())])
    return _outcomes(present, absent), _outcomes(absent, present)


def _outcomes(present: Law, absent: Law) -> Pair:
    """Neighbouring sums merged into one outcome; P from below, Q from above. Where Q is not known P is dropped."""
    start = max(present.start, absent.start)
    stop = min(present.start + present.mass.size, absent.start + absent.mass.size)
    if stop <= start:
        return NOTHING
    p = present.least[start - present.start : stop - present.start]
    q = absent.most[start - absent.start : stop - absent.start]
    if p.size > CELLS:
        cuts = np.linspace(0, p.size, CELLS, endpoint=False).astype(int)
        p, q = np.add.reduceat(p, cuts), np.add.reduceat(q, cuts)
    held = (p > 1e-300) & (q > 1e-300) & np.isfinite(q)
    losses = np.log(p[held]) - np.log(q[held])
    order = np.argsort(losses)
    if not order.size:
        return NOTHING
    return Tabulated(losses[order], p[held][order], q[held][order])
