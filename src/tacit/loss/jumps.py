r"""The contour where epsilon takes one or a few large losses among many small ones, or steps are few.

Write M = m + r for one step, m its small losses and r its large ones, divided smoothly: the integrand of m carries
Phi((c - x)/w), that of r Phi((x - c)/w). Runs of small losses alone cannot exceed epsilon, or so rarely that it does
not count (Chernoff for m^n). All other runs together have the moments

    D = M^n - m^n = m^n ((1 + r/m)^n - 1),

those of a positive measure too, so everything in `contour` holds for D. But |D(t + iu)| <= n |r(t + iu)| M(t)^{n-1}
falls as fast as r's smooth density allows, however narrow the small losses are, and no digit is lost to the runs that
were left out. Proof: docs/proofs/accounting.md, section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from .contour import Contour, Sum, conversion, ended, period_of
from .decay import shifted
from .noise import Array, Complex
from .quadrature import EPS, Line, Nodes, NotMet

SHARES = np.geomspace(0.7, 0.005, 14)
"""Losses at which small and large are divided, as shares of epsilon."""
WORK = 10_000_000
BUDGET = 1e-8
WIDTH = 0.15
"""How sharply, in units of the noise."""
STEEP = np.linspace(0.5, 1.6, 23)
"""Tilts tried for runs of small losses, in units of what would do if they did not count at all."""
END, REACH = 0.05, 14.0
"""How sharply large losses end, over s^2 and the shift, and how many such widths are kept beyond."""
TILTS = np.geomspace(1e-3, 1e9, 41)
FINE = np.geomspace(TILTS[0] / TILTS[1], TILTS[1] / TILTS[0], 13)
FREQUENCIES = np.geomspace(1.0, 1e5, 40)
LEVELS = np.array([0.0, 0.0, 0.0, 0.1, 0.4, 1.0])
WAVES = 10.0, 5.0, 2.5


@dataclass(frozen=True)
class Split:
    """Small and large losses of every part, with counts.

    Runs of small ones alone add at most e^{c - t epsilon} to delta(epsilon), (t, c) = `rest`.
    """

    small: Sum
    large: Sum
    rest: tuple[float, float]

    @classmethod
    def of(cls, total: Sum, epsilon: float, aim: float) -> Split:
        """The largest dividing loss for which small ones alone stay within e^aim."""
        if epsilon <= 0:
            raise NotMet
        found, tilts, low, high = None, -aim / epsilon * STEEP, 0, SHARES.size - 1
        while low <= high:
            middle = (low + high) // 2
            split = cls._at(total, float(SHARES[middle]) * epsilon, aim, float(tilts[-1]))
            logs = split.small.log_moments(tilts) + conversion(tilts) - tilts * epsilon
            best = int(logs.argmin())
            if logs[best] <= aim - 0.01 and split.small.trusted(float(tilts[best])):
                found = replace(split, rest=(float(tilts[best]), float(logs[best] + tilts[best] * epsilon)))
                high = middle - 1
            else:
                low = middle + 1
        if found is None:
            raise NotMet
        return found

    @classmethod
    def _at(cls, total: Sum, loss: float, aim: float, tilt: float) -> Split:
        parts = []
        for nodes, count in total.parts:
            small, large = _veiled(nodes, loss, aim - math.log(10 * count * len(total.parts)), tilt)
            parts.append(((small, count), (large, count)))
        small_parts, large_parts = zip(*parts, strict=True)
        return cls(Sum(small_parts, total.gaussian, 0.0), Sum(large_parts, total.gaussian, 0.0), (0.0, math.inf))

    def log_moments(self, tilts: Array) -> Array:
        """log (M^n - m^n)."""
        growth = np.zeros_like(tilts)
        for (small, count), (large, _) in zip(self.small.parts, self.large.parts, strict=True):
            growth += count * np.logaddexp(0.0, large.log_moments(tilts) - small.log_moments(tilts))
        return np.asarray(self.small.log_moments(tilts) + growth + np.log(-np.expm1(-np.maximum(growth, 1e-300))))


def _veiled(nodes: Nodes, loss: float, log_cut: float, tilt: float) -> tuple[Nodes, Nodes]:
    """Small losses, and large ones, which end smoothly too.

    Small ones end where, so far behind their veil, they have a mass below e^log_cut; large ones at a place beyond
    which all mass was cut before.
    """
    place, s = float(nodes.pair.position(np.array([loss]))[0]), nodes.pair.noise.scale
    soft = min(END * s * s / (nodes.p.largest or nodes.q.largest), 0.3 * s)
    end = float(nodes.edges[-1]) * math.hypot(1.0, soft / s)
    if not place < end - 6 * soft:
        raise NotMet
    edges = np.append(nodes.edges[:-1], np.linspace(nodes.edges[-1], end + REACH * soft, 4))
    large = Nodes.of(nodes.pair, edges, ((place, WIDTH * s), (end, -soft))).refined(0.0, 0.0, 2.0)
    x = np.linspace(place, end, 200)
    mass = log_ndtr((place - x) / (WIDTH * s)) + log_ndtr((nodes.p.largest - x) / s)
    last = float(x[min(int(np.count_nonzero(mass > log_cut)), x.size - 1)])
    edges = np.append(edges[edges < last], last)
    return Nodes.of(nodes.pair, edges, ((place, -WIDTH * s),)).refined(tilt, 0.0, 4.0), large


def jump_contour(total: Sum, log_delta: float, epsilon: float) -> Contour:
    """The contour of D, placed for delta about e^log_delta near `epsilon`."""
    aim = math.log(BUDGET) + log_delta
    split = Split.of(total, epsilon, aim)
    best = int((split.log_moments(TILTS) + conversion(TILTS) - TILTS * epsilon).argmin())
    fine = TILTS[best] * FINE
    tilt = float(fine[int((split.log_moments(fine) + conversion(fine) - fine * epsilon).argmin())])
    around = split.log_moments(tilt * np.array([0.99, 1.0, 1.01]))
    spread = math.sqrt(max(float(around[0] - 2 * around[1] + around[2]), 1e-8)) / (0.01 * tilt)
    log_d = float(around[1])
    period, left, right = period_of(split, tilt, spread, epsilon, aim)
    top, beyond = _range(split, tilt, log_d, spread, min(aim - log_d + tilt * epsilon, 0.0))
    step = 2 * math.pi / period
    size = math.ceil(top / step) + 2
    if size * split.large.parts[0][0].x.size > WORK:
        raise NotMet
    u = step * np.arange(size, dtype=np.float64)
    goal = max(aim - log_d + tilt * epsilon, -30.0)
    values, error, log_d = _integrand(split, np.array([left[0], right[0], tilt, tilt, tilt, tilt]), u, goal)
    return Contour(
        tilt,
        log_d,
        period,
        u,
        values,
        left,
        right,
        beyond + error / period,
        total.cut + 0.1 * math.exp(aim),
        split.rest,
    )


def _range(split: Split, tilt: float, log_d: float, spread: float, aim: float) -> tuple[float, float]:
    """Where |D| is below the aim for good: |D(t + iu)| <= sum_l n_l |r_l(t + iu)| M(t)/M_l(t)."""
    u = FREQUENCIES / spread
    whole, pieces = split.small.gaussian**2 / 2 * tilt * (tilt + 1), []
    for (small, count), (large, _) in zip(split.small.parts, split.large.parts, strict=True):
        low, line = small.line(tilt), large.line(tilt)
        log_m = float(np.logaddexp(low.log_m, line.log_m))
        whole += count * log_m
        pieces.append(math.log(count) + line.log_m - log_m + shifted(line, u))
    log_size = np.logaddexp.reduce(pieces, axis=0) + whole - log_d - (split.small.gaussian * u) ** 2 / 2
    found = ended(u, np.minimum(log_size, 600.0), aim)
    if found is None:
        raise NotMet
    return found


def _integrand(split: Split, tilts: Array, u: Array, goal: float) -> tuple[Complex, float, float]:
    """D(t + iu)/(z (1 + z)) relative to D(t), the sum of its errors over both signs of u, and log D(t).

    An error e of r_l adds n_l e M/M_l, one of m_l at most n_l e D/m_l.
    """
    tilt, z = float(tilts[2]), tilts[2] + 1j * u
    log_small, growth = np.zeros(u.size, dtype=np.complex128), np.zeros(u.size, dtype=np.complex128)
    log_m, log_whole, found = 0.0, 0.0, []
    level = np.searchsorted(LEVELS[2:] * float(u[-1]) * (1 + 1e-12), u)
    for (small, count), (large, _) in zip(split.small.parts, split.large.parts, strict=True):
        lines, wrong = [], []
        for nodes in (small, large):
            line, error = _fine(nodes, count, tilts, float(u[-1]), goal, u.size)
            lines.append(line)
            wrong.append(error[level] + line.rounding(u))
        low, high = lines
        m, r = low.values(u), high.values(u) * math.exp(high.log_m - low.log_m)
        m = np.where(np.abs(m) > 1e-200, m, 1e-200)
        log_small += count * np.log(m)
        growth += count * np.log1p(r / m)
        log_m += count * low.log_m
        log_all = float(np.logaddexp(low.log_m, high.log_m))
        log_whole += count * log_all
        found.append((count * wrong[1], high.log_m - log_all, count * wrong[0]))
    square = split.small.gaussian**2
    gauss = 1j * u * (tilt + 0.5) * square - square * u**2 / 2
    log_d = log_whole + math.log(-math.expm1(log_m - log_whole))
    near = np.abs(growth) < 1.0
    body = np.exp(log_small + log_m - log_d + np.where(near, 0.0, growth)) * np.where(
        near, np.expm1(np.where(near, growth, 0.0)), -np.expm1(np.where(near, 0.0, -growth))
    )
    kernel = np.exp(gauss) / (z * (1 + z))
    doubt = np.abs(body) * 4 * EPS * (16 + np.abs(log_small) + 2 * np.abs(growth) + np.abs(gauss))
    for large_error, log_share, small_error in found:
        doubt += 1.01 * (large_error * math.exp(log_share + log_whole - log_d) + small_error)
    doubt *= np.abs(kernel)
    log_d += square * tilt * (tilt + 1) / 2
    return body * kernel, 2 * float(doubt.sum()) - float(doubt[0]), log_d


def _fine(nodes: Nodes, count: int, tilts: Array, top: float, goal: float, size: int) -> tuple[Line, Array]:
    """Panels fine enough, on the line through t, with their errors at the levels of u."""
    for share in WAVES:
        finer = nodes.refined(float(tilts[2]), top, share)
        line = finer.line(float(tilts[2]))
        if size * line.weights.size > WORK:
            raise NotMet
        logs = np.append(finer.log_moments(tilts[:2]), np.full(4, line.log_m))
        errors = np.exp(np.minimum(finer.log_error(tilts, LEVELS * top) - logs, 300.0))
        if count * float(errors[:2].max()) < 1e-3 and float(errors[2:].max()) <= max(math.exp(goal), 64 * EPS):
            break
    if count * float(errors[:2].max()) > 1e-3:
        raise NotMet
    return line, errors[2:]
