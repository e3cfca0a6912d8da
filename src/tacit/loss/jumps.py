r"""The contour where epsilon takes one or a few large losses among many small ones, or steps are few.

Write M = m + r for one step, m its small losses and r its large ones, divided smoothly: the integrand of m carries
Phi((c - x)/w), that of r Phi((x - c)/w). Runs of small losses alone cannot exceed epsilon, or so rarely that it does
not count (Chernoff for m^n), or they have a contour of their own. All other runs together have the moments

    D = M^n - m^n = m^n ((1 + r/m)^n - 1),

those of a positive measure too, so everything in `contour` holds for D. But |D(t + iu)| <= n |r(t + iu)| M(t)^{n-1}
falls as fast as r's smooth density allows, however narrow the small losses are, and no digit is lost to the runs that
were left out. Runs with a loss so huge that they exceed epsilon in any case need no contour at all: they add
V(0) - e^epsilon V(-1), two real moments. Proof: docs/proofs/accounting.md, Theorem 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from .contour import Contour, Runs, contour, period_of, reached
from .decay import shifted
from .noise import Array, Complex, log1p
from .quadrature import EPS, Line, Nodes, NotMet, TooMuch
from .tilted import Sum, best_tilt, chernoff, conversion

SHARES = np.geomspace(0.7, 0.005, 14)
"""Losses at which small and large are divided, as shares of epsilon."""
WIDTH = 0.15
"""How sharply, in units of the noise."""
LIGHT, WORK = 400_000, 60_000_000
"""Largest numbers of (node, frequency) pairs: for runs of small losses at first, and for all."""
BUDGET = 1e-2
"""Relative error of delta aimed at, for each of the sources, over the gap of epsilon that is asked for."""
STEEP = np.linspace(0.5, 1.6, 23)
"""Tilts tried for runs of small losses, in units of what would do if they did not count at all."""
GENTLE = np.geomspace(0.05, 2.0, 30)
"""The same where they are counted."""
STRIDE = 4
"""Every so many of these tilts is tried first."""
MANY, ALLOWED = 20, 3.0
"""From so many steps on runs of small losses may have their own contour; Chernoff's log bound of them over delta."""
ROOM = 1.1
"""Huge losses are huge for every epsilon up to this share of the one in question."""
BEYOND, MODEST = 1.15, 100.0
"""Where a contour is drawn if it cannot be at the epsilon in question, and up to which epsilon: larger ones protect
nobody, and plain theorems bound them in a moment."""
SHARP = 1e-5
"""A gap below which none is drawn beyond: of 120 contours that were not met for such a gap, one was met there."""
END, REACH = 0.05, 14.0
"""How sharply large losses end, over s^2 and the shift, and how many such widths are kept beyond."""
WAVES = 8.0, 5.0, 2.5
"""Half-widths of panels tried, over the local wave number."""
LEVELS = np.array([0.0, 0.0, 0.0, 0.1, 0.4, 1.0])
"""Shares of the largest frequency at which the panels are judged; the first two are for other tilts."""
FREQUENCIES = np.geomspace(1.0, 1e5, 40)
"""Ends of the range of frequencies tried, in units of one over the spread."""


@dataclass(frozen=True)
class Split:
    """Small and large losses of every part, with counts; and huge ones, or none.

    Runs of small ones alone add at most e^{c - t epsilon} to delta(epsilon), (t, c) = `rest`.
    """

    small: Sum
    large: Sum
    huge: Sum
    rest: tuple[float, float]

    @classmethod
    def of(cls, total: Sum, epsilon: float, certain: float, aim: float, most: float) -> Split:
        """The largest dividing loss for which small ones alone stay within e^most."""
        if most >= 0:
            raise NotMet
        steep = STEEP if most <= aim else GENTLE
        tilts, low, high, found = -most / epsilon * steep, 0, SHARES.size - 1, None
        while low <= high:
            middle = (low + high) // 2
            loss = float(SHARES[middle]) * epsilon
            small = cls._small(total, loss, aim, float(tilts[-1]))
            tilt, log_bound = _chernoff(small, tilts, epsilon, most - 0.01)
            if log_bound <= most - 0.01 and (most > aim or small.trusted(tilt)):
                found = small, loss, (tilt, log_bound + tilt * epsilon)
                high = middle - 1
            else:
                low = middle + 1
        if found is None:
            raise NotMet
        small, loss, rest = found
        large, huge = [], []
        for nodes, count in total.parts:
            one, more = _large(nodes, loss, certain, _cut_of(total, count, aim))
            large.append((one, count))
            huge += [(more, count)] if more else []
        return cls(small, Sum(tuple(large), total.gaussian, 0.0), Sum(tuple(huge), total.gaussian, 0.0), rest)

    @staticmethod
    def _small(total: Sum, loss: float, aim: float, tilt: float) -> Sum:
        parts = ((_small(nodes, loss, _cut_of(total, count, aim), tilt), count) for nodes, count in total.parts)
        return Sum(tuple(parts), total.gaussian, 0.0)

    @property
    def count(self) -> int:
        return sum(count for _, count in self.small.parts)

    def log_moments(self, tilts: Array) -> Array:
        """log ((m + r)^n - m^n)."""
        growth = np.zeros_like(tilts)
        for (small, count), (large, _) in zip(self.small.parts, self.large.parts, strict=True):
            growth += count * _softplus(large.log_moments(tilts) - small.log_moments(tilts))
        return np.asarray(self.small.log_moments(tilts) + growth + np.log(-np.expm1(-np.maximum(growth, 1e-300))))


def _chernoff(small: Sum, tilts: Array, epsilon: float, enough: float) -> tuple[float, float]:
    """The tilt with the least log bound of delta(epsilon), and that bound: of some, then of those around the best.

    The bound is convex in the tilt, nearly; where some tilt gives `enough`, no better one is looked for.
    """
    best, tried, least = 0, tilts[::STRIDE], math.inf
    for _ in range(2):
        logs = small.log_moments(tried) + conversion(tried) - tried * epsilon
        place = int(logs.argmin())
        if float(logs[place]) < least:
            tilt, least = float(tried[place]), float(logs[place])
        best = int(np.searchsorted(tilts, tilt))
        tried = np.delete(tilts[max(best - STRIDE + 1, 0) : best + STRIDE], min(best, STRIDE - 1))
        if least <= enough:
            break
    return tilt, least


def _softplus(x: Array) -> Array:
    """log(1 + e^x), right relative to its size."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def _certain(total: Sum, epsilon: float) -> float:
    """A loss with which every run exceeds `epsilon` and somewhat more, whatever its other losses; or infinity."""
    least = 0.0
    for nodes, count in total.parts:
        still = math.fsum(weight for weight, place in nodes.pair.p if place == 0)
        if nodes.q.largest or not still:
            return math.inf
        least += count * math.log(still)
    return ROOM * epsilon - least if not total.gaussian else math.inf


def _cut_of(total: Sum, count: int, aim: float) -> float:
    """Logarithm of the probability mass that truncation may drop from one step of this kind."""
    return aim - math.log(10 * count * len(total.parts))


def _small(nodes: Nodes, loss: float, log_cut: float, tilt: float) -> Nodes:
    """Small losses; they end where, so far behind their veil, they have a mass below e^log_cut."""
    pair, s = nodes.pair, nodes.pair.noise.scale
    place, last = float(pair.position(np.array([loss]))[0]), float(nodes.edges[-1])
    if not place < last:
        raise NotMet
    x = np.linspace(place, last, 200)
    mass = log_ndtr((place - x) / (WIDTH * s)) + log_ndtr((nodes.p.largest - x) / s)
    stop = float(x[min(int(np.count_nonzero(mass > log_cut)), x.size - 1)])
    edges = np.append(nodes.edges[nodes.edges < stop], stop)
    return Nodes.of(pair, edges, ((place, -WIDTH * s),)).refined(tilt, 0.0, 4.0)


def _large(nodes: Nodes, loss: float, certain: float, log_cut: float) -> tuple[Nodes, Nodes | None]:
    """Large losses, which end smoothly too, and huge ones.

    Large ones end so far beyond the `certain` loss that hardly a huge one lies below it, or at a place beyond which all
    mass was cut before.
    """
    pair, s = nodes.pair, nodes.pair.noise.scale
    certain = min(certain, 1e3)
    place, sure = (float(x) for x in pair.position(np.array([loss, certain])))
    soft = min(END * s * s / (nodes.p.largest or nodes.q.largest), 0.3 * s)
    end, last = sure - soft * float(ndtri_exp(log_cut - certain)), float(nodes.edges[-1])
    split = certain < 1e3 and end + REACH * soft < last
    if not split:
        end = last * math.hypot(1.0, soft / s)
    if not place < end - 6 * soft:
        raise NotMet
    below = nodes.edges[nodes.edges < end - REACH * soft]
    edges = np.append(below, np.linspace(end - REACH * soft, end + REACH * soft, 4))
    rising = (place, WIDTH * s)
    large = Nodes.of(pair, edges, (rising, (end, -soft))).refined(0.0, 0.0, 2.0)
    if not split:
        return large, None
    beyond = np.append(edges[-4:], np.linspace(edges[-1], last, 2 + int((last - edges[-1]) / s))[1:])
    return large, Nodes.of(pair, beyond, (rising, (end, soft))).refined(0.0, 0.0, 2.0)


def _huge(split: Split, epsilon: float, slack: float) -> Runs:
    """Runs with a huge loss: at every epsilon up to about the given one they add V(0) - e^epsilon V(-1) to delta."""
    if not split.huge.parts:
        return Runs(*split.rest)
    sums, doubts = [], []
    for tilt in (0.0, -1.0):
        log_a, growth, doubt = 0.0, 0.0, 0.0
        for parts in zip(split.small.parts, split.large.parts, split.huge.parts, strict=True):
            count = parts[0][1]
            small, large, huge = (nodes.line(tilt) for nodes, _ in parts)
            log_one = float(np.logaddexp(small.log_m, large.log_m))
            log_a += count * log_one
            growth += count * math.log1p(math.exp(huge.log_m - log_one))
            doubt += _doubt(huge) + count * (_doubt(small) + _doubt(large))
        sums.append(math.exp(log_a) * math.expm1(growth))
        doubts.append(1.01 * doubt)
    return Runs(*split.rest, sums[0], sums[1], doubts[0], doubts[1], ROOM * epsilon, slack)


def _doubt(line: Line) -> float:
    """Relative error of one real moment."""
    tilt, zero = np.array([line.tilt]), np.zeros(1)
    log_error = float(line.log_error(tilt, zero)[0])
    return math.exp(min(log_error, 300.0)) + float(line.rounding(zero)[0])


def jump_contour(total: Sum, log_delta: float, epsilon: float, gap: float) -> Contour:
    """The contour of D for delta about e^log_delta near `epsilon`, or a little beyond it, where less is asked for.

    With many steps runs of small losses get their own contour, if it is light; huge losses are set apart if they can.
    """
    if epsilon <= 0:
        raise NotMet
    many, aim = sum(count for _, count in total.parts) >= MANY, math.log(BUDGET * gap) + log_delta
    for place in (epsilon, BEYOND * epsilon) if epsilon < MODEST and gap >= SHARP else (epsilon,):
        certain = _certain(total, place)
        ways = ((math.inf, LIGHT),) * many + ((certain, 0),) * math.isfinite(certain) + ((math.inf, 0),)
        heavy = False
        for certain, work in (*ways, (math.inf, WORK)):
            if work == WORK and not heavy:  # more work helps only what failed for want of it
                break
            try:
                return _contour(total, log_delta, aim, place, certain, work)
            except TooMuch:
                heavy = many
            except NotMet:
                continue
    raise NotMet


def _contour(total: Sum, log_delta: float, aim: float, epsilon: float, certain: float, work: int = 0) -> Contour:
    """Runs of small losses have their own contour with at most this work, or are negligible."""
    split, small = Split.of(total, epsilon, certain, aim, log_delta + ALLOWED if work else aim), None
    if work:
        start = best_tilt(split.small, chernoff(epsilon), -log_delta / epsilon, sharp=True)
        small = contour(split.small, split.small.at(start), log_delta, epsilon, work=work)
    tilt = best_tilt(split, chernoff(epsilon), -log_delta / epsilon)
    around = split.log_moments(tilt * np.array([0.99, 1.0, 1.01]))
    spread = math.sqrt(max(float(around[0] - 2 * around[1] + around[2]), 1e-8)) / (0.01 * tilt)
    log_d = float(around[1])
    period, left, right = period_of(split, tilt, spread, epsilon, log_d - tilt * epsilon, aim)
    top, beyond = _range(split, tilt, log_d, spread, min(aim - log_d + tilt * epsilon, 0.0))
    step = 2 * math.pi / period
    size = math.ceil(top / step) + 2
    if size * split.large.parts[0][0].x.size > WORK:
        raise NotMet
    u = step * np.arange(size, dtype=np.float64)
    goal = max(aim - log_d + tilt * epsilon, -30.0)
    tilts = np.array([left[0], right[0], tilt, tilt, tilt, tilt])
    values, error, log_d = _integrand(split, tilts, u, goal)
    cut = 2 * total.cut + 0.2 * math.exp(aim) + split.count * math.exp(float(log_ndtr(-REACH)))
    others = replace(_huge(split, epsilon, 0.1 * math.exp(aim)), small=small)
    return Contour(tilt, log_d, period, u, values, left, right, beyond + error / period, cut, others)


def _range(split: Split, tilt: float, log_d: float, spread: float, aim: float) -> tuple[float, float]:
    """Where |D| is below the aim for good: |D(t + iu)| <= sum_l n_l |r_l(t + iu)| M(t)/M_l(t)."""
    whole, pieces = split.small.gaussian**2 / 2 * tilt * (tilt + 1), []
    for (small, count), (large, _) in zip(split.small.parts, split.large.parts, strict=True):
        low, line = small.line(tilt), large.line(tilt)
        log_m = float(np.logaddexp(low.log_m, line.log_m))
        whole += count * log_m
        pieces.append((line, math.log(count) + line.log_m - log_m))

    def log_size(u: Array) -> Array:
        sizes = np.logaddexp.reduce([log_share + shifted(line, u) for line, log_share in pieces], axis=0)
        return np.asarray(np.minimum(sizes + whole - log_d - (split.small.gaussian * u) ** 2 / 2, 600.0))

    found = reached(FREQUENCIES / spread, log_size, aim)
    if found is None:
        raise NotMet
    return found


def _integrand(split: Split, tilts: Array, u: Array, goal: float) -> tuple[Complex, float, float]:
    """D(t + iu)/(z (1 + z)) relative to D(t), the sum of its errors over both signs of u, and log D(t).

    An error e of r_l adds n_l e M/M_l, one of m_l at most n_l e D/m_l.
    """
    tilt, z = float(tilts[2]), tilts[2] + 1j * u
    log_small, growth = np.zeros(u.size, dtype=np.complex128), np.zeros(u.size, dtype=np.complex128)
    log_m, log_whole, first, found = 0.0, 0.0, 0.0, []
    level = np.searchsorted(LEVELS[2:] * float(u[-1]) * (1 + 1e-12), u)
    for (small, count), (large, _) in zip(split.small.parts, split.large.parts, strict=True):
        lines, wrong = [], []
        for nodes in (small, large):
            line, error = _fine(nodes, count, tilts, float(u[-1]), goal, WORK // u.size)
            lines.append(line)
            wrong.append(error[level] + line.rounding(u))
        low, high = lines
        m, r = low.values(u), high.values(u) * math.exp(high.log_m - low.log_m)
        m = np.where(np.abs(m) > 1e-200, m, 1e-200)
        log_small += count * np.log(m)
        growth += count * log1p(r / m)
        log_m += count * low.log_m
        first += count * math.log1p(math.exp(min(high.log_m - low.log_m, 700.0)))
        log_all = float(np.logaddexp(low.log_m, high.log_m))
        log_whole += count * log_all
        found.append((count * wrong[1], high.log_m - log_all, count * wrong[0]))
    square = split.small.gaussian**2
    gauss = 1j * u * (tilt + 0.5) * square - square * u**2 / 2
    log_d = log_m + first + math.log(-math.expm1(-first))
    up = growth.real > 0
    change = np.expm1(np.where(up, -growth, growth))
    body = np.exp(log_small + log_m - log_d + np.where(up, growth, 0.0)) * np.where(up, -change, change)
    kernel = np.exp(gauss) / (z * (1 + z))
    doubt = np.abs(body) * 4 * EPS * (16 + np.abs(log_small) + 2 * np.abs(growth) + np.abs(gauss))
    for large_error, log_share, small_error in found:
        doubt += 1.01 * (large_error * math.exp(log_share + log_whole - log_d) + small_error)
    doubt *= np.abs(kernel)
    log_d += square * tilt * (tilt + 1) / 2
    return body * kernel, 2 * float(doubt.sum()) - float(doubt[0]), log_d


def _fine(nodes: Nodes, count: int, tilts: Array, top: float, goal: float, most: int) -> tuple[Line, Array]:
    """Panels on the line through t, refined until errors at the levels of u are small, or no finer ones are allowed."""
    allowed = max(math.exp(goal), 64 * EPS) * np.maximum(1.0, np.append(0.0, LEVELS[2:-1]) * top / tilts[2])
    found = None
    for share in WAVES:
        try:
            finer = nodes.refined(float(tilts[2]), top, share)
        except NotMet:
            break
        if finer.x.size > most:
            break
        line = finer.line(float(tilts[2]))
        logs = np.append(finer.log_moments(tilts[:2]), np.full(4, line.log_m))
        errors = np.exp(np.minimum(finer.log_error(tilts, LEVELS * top) - logs, 300.0))
        if count * float(errors[:2].max()) <= 1e-3:
            found = line, errors[2:]
            if np.all(errors[2:] <= allowed):
                break
    if found is None:
        raise NotMet
    return found
