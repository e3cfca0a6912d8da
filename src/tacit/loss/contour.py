r"""delta(epsilon) as an integral over a vertical line of the complex plane, with a two-sided error budget.

    delta(epsilon) = 1/(2 pi) Int M(t + iu) e^{-(t + iu) epsilon} / ((t + iu)(1 + t + iu)) du,   M = prod_l M_l^{n_l}.

The trapezoid sum of step D equals sum_m delta(epsilon + m X) e^{m t X}, X = 2 pi/D, exactly: all aliases are
non-negative and bounded by Chernoff at other tilts. Beyond |u| = U the integrand is bounded by `decay`; each M_l comes
from `quadrature` with its own bound. Outcomes so unlikely that all of them together are a small share of delta are cut
from every M_l; they may count fully from above. Cost does not depend on the counts. Proof: docs/proofs/accounting.md,
Theorem 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import ndtri_exp

from .decay import FEW, Layers, shifted
from .noise import Array, Complex
from .pairs import Location
from .quadrature import EPS, Line, Nodes, NotMet

WORK = 20_000_000
"""Largest number of (node, frequency) pairs before the lattice is the better tool."""
MOVES = np.geomspace(0.02, 9.0, 14)
"""Distances of other tilts tried for the aliases, in units of one over the spread."""
FREQUENCIES = np.geomspace(2.0, 40.0, 20), np.geomspace(20.0, 1e6, 56)
"""Ends of the range of frequencies tried, near ones first, in units of one over the spread."""
LEVELS = np.array([0.0, 0.0, 0.0, 0.25, 0.6, 1.0])
"""Shares of the largest frequency at which the panels are judged; the first two are for other tilts."""
WAVES = 0.0, 10.0, 5.0, 2.5
"""Half-widths of panels tried, over the local wave number; 0 leaves them as they are."""
BUDGET = 1e-9
"""Relative error of delta aimed at, for each of the sources."""
SHARE = 1e-9
"""Mass that may be cut from all steps together, relative to delta."""
REST = 30.0
"""Mass below e^-REST may be cut from all steps together on the left; it adds at most this share of delta."""


class Moments(Protocol):
    """A composed measure by its real moments."""

    def log_moments(self, tilts: Array) -> Array: ...


@dataclass(frozen=True)
class Sum:
    """Pairs with counts, on quadrature nodes: real moments of the composition without what was cut."""

    parts: tuple[tuple[Nodes, int], ...]
    gaussian: float
    cut: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[Location, int]], gaussian: float, log_delta: float) -> Sum:
        """Places from where P's mass is below e^-REST to where it is below SHARE delta, for all steps."""
        log_cut = math.log(SHARE / len(pairs)) + log_delta
        nodes = tuple((_cut(pair, count * len(pairs), log_cut - math.log(count)), count) for pair, count in pairs)
        return cls(nodes, gaussian, SHARE * math.exp(log_delta))

    def log_moments(self, tilts: Array) -> Array:
        """log E_P e^{t L} of the composition."""
        total = self.gaussian**2 / 2 * tilts * (tilts + 1)
        for nodes, count in self.parts:
            total = total + count * nodes.log_moments(tilts)
        return np.asarray(total)

    def trusted(self, tilt: float) -> bool:
        """Whether `log_moments` is right to 1e-3 there: Chernoff constants carry a margin of 1e-2."""
        t, zero = np.array([tilt]), np.zeros(1)
        doubts = [float(nodes.log_error(t, zero)[0] - nodes.log_moments(t)[0]) for nodes, _ in self.parts]
        return all(math.log(count) + doubt < -7 for doubt, (_, count) in zip(doubts, self.parts, strict=True))


def _cut(pair: Location, count: int, log_mass: float) -> Nodes:
    r"""The left end lies where r_p <= 1 <= r_q, so a step there has a loss below 0 and helps nobody."""
    s, parts = pair.noise.scale, [(weight, place) for weight, place in pair.p if weight > 0]
    farthest = max(abs(place) for _, place in pair.q)
    low = -max(s * math.sqrt(2 * (REST + math.log(count))), farthest)
    tails = [min(log_mass - math.log(len(parts) * weight), -0.7) for weight, _ in parts]
    high = max(place - s * float(ndtri_exp(tail)) for tail, (_, place) in zip(tails, parts, strict=True))
    return Nodes.between(pair, low, high)


@dataclass(frozen=True)
class Runs:
    """Runs that `jumps` keeps out of the integral.

    Those of small losses alone add at most e^{log_c - tilt epsilon}; those with a huge one `p` - e^epsilon `q`, each
    up to its relative error, and at most `slack` more, for every epsilon up to `limit`.
    """

    tilt: float
    log_c: float
    p: float = 0.0
    q: float = 0.0
    p_error: float = 0.0
    q_error: float = 0.0
    limit: float = math.inf
    slack: float = 0.0

    def added(self, epsilon: float, total: float, slope: float) -> tuple[float, float]:
        """A value of delta and its derivative, with the runs of huge losses."""
        scaled = self.q * math.exp(min(epsilon, 600.0))
        return (total + self.p - scaled, slope - scaled) if scaled < self.p else (total, slope)

    def doubt(self, epsilon: float) -> tuple[float, float]:
        """By how much delta may be below and above `added`."""
        if epsilon > self.limit:
            return math.inf, math.inf
        error = self.p * self.p_error + self.q * math.exp(min(epsilon, 600.0)) * self.q_error
        small = 1.01 * math.exp(min(self.log_c - self.tilt * epsilon, 0.0))
        return error, error + small + (self.slack if self.p else 0.0)


@dataclass(frozen=True)
class Contour:
    """The integrand at its nodes, and the bounds of what the sum leaves out."""

    tilt: float
    log_m: float
    period: float
    u: Array
    values: Complex
    left: tuple[float, float]
    right: tuple[float, float]
    error: float
    cut: float
    runs: Runs | None = None

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """Sums over both signs of u of |value| and |u value|, over the period: what rounding acts on."""
        size = np.abs(self.values)
        total = 2 * float(size.sum()) - float(size[0])
        return total / self.period, 2 * float(self.u @ size) / self.period

    def sums(self, epsilon: float) -> tuple[float, float]:
        """The trapezoid sum for delta(epsilon) and its derivative in epsilon."""
        wave = self.values * np.exp(-1j * epsilon * self.u)
        scale = self._scale(epsilon) / self.period
        total = scale * (2 * float(wave.real.sum()) - float(wave[0].real))
        slope = 2 * scale * float(self.u @ wave.imag) - self.tilt * total
        return (total, slope) if self.runs is None else self.runs.added(epsilon, total, slope)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Certified ends of delta(epsilon); they are tight near the epsilon that the tilt was chosen for."""
        return self.ends(epsilon, self.sums(epsilon)[0])

    def ends(self, epsilon: float, total: float) -> tuple[float, float]:
        """The same, with the sum at hand."""
        size, moment = self._sizes
        exponent = 1 + self.tilt * epsilon + abs(self.log_m)
        rounding = 4 * EPS * ((4 + exponent + self.u.size) * size + epsilon * moment)
        error = self._scale(epsilon) * (self.error + rounding)
        less, more = (0.0, 0.0) if self.runs is None else self.runs.doubt(epsilon)
        lower = total - error - self._aliases(epsilon) - less
        return lower, (total + error + self.cut + more) * (1 + 2 * math.exp(-REST))

    def _scale(self, epsilon: float) -> float:
        return math.exp(min(self.log_m - self.tilt * epsilon, 700.0))

    def _aliases(self, epsilon: float) -> float:
        """sum_{m != 0} delta(epsilon + m X) e^{m t X}, each delta(y) at most c(t') M(t') e^{-t' y}."""
        total = 0.0 if self.left[0] < self.tilt else math.inf
        for tilt, log_c in (self.left, self.right) if total == 0 else ():
            away = abs(tilt - self.tilt) * self.period
            total += math.exp(min(log_c - tilt * epsilon - away, 0.0)) / -math.expm1(-away)
        return 1.01 * total


def contour(total: Sum, tilt: float, log_delta: float, epsilon: float, *, coarse: bool = False) -> Contour:
    """Choose period, range and nodes so that delta near `epsilon`, about e^log_delta, is met within the budget.

    A coarse one is for the upper end alone, to some percent: aliases only add to it.
    """
    lines = [(nodes.line(tilt), count) for nodes, count in total.parts]
    spread = math.sqrt(math.fsum(count * line.variance for line, count in lines) + total.gaussian**2)
    if spread < 1e-150:
        raise NotMet
    aim = math.log(1e-3 if coarse else BUDGET) + log_delta
    guess = max(6.0 * spread, 5.0 / tilt), (tilt, math.inf), (tilt, math.inf)
    period, left, right = guess if coarse else period_of(total, tilt, spread, epsilon, aim)
    step = 2 * math.pi / period
    log_m = _log_m(lines, total.gaussian, tilt)
    goal = min(aim - log_m + tilt * epsilon, 0.0)
    top, beyond = _range(lines, total.gaussian, spread, goal, step)
    if top / step * sum(line.weights.size for line, _ in lines) > WORK:
        raise NotMet
    u = step * np.arange(math.ceil(top / step) + 1, dtype=np.float64)
    tilts = np.array([left[0], right[0], tilt, tilt, tilt, tilt])
    lines, errors = _fine(lines, tilts, u, max(goal, -34.0))
    values, error = _integrand(lines, errors, total.gaussian, tilt, u)
    log_m = _log_m(lines, total.gaussian, tilt)
    return Contour(tilt, log_m, period, u, values, left, right, beyond + error / period, total.cut)


def conversion(tilts: Array) -> Array:
    """log of t^t/(1+t)^{1+t}: delta(y) <= c(t) M(t) e^{-t y}. Canonne, Kamath and Steinke 2020, Proposition 12."""
    return np.asarray(tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts))


def _log_m(lines: Sequence[tuple[Line, int]], gaussian: float, tilt: float) -> float:
    return math.fsum(count * line.log_m for line, count in lines) + gaussian**2 * tilt * (tilt + 1) / 2


def _fine(
    lines: Sequence[tuple[Line, int]], tilts: Array, u: Array, goal: float
) -> tuple[list[tuple[Line, int]], list[Array]]:
    """Panels fine enough for e^goal, and their errors: at the two other tilts, then at rising frequencies."""
    allowed = np.append([1e-3, 1e-3], np.exp(goal + 24 * LEVELS[2:] ** 2))
    found, errors = [], []
    for line, count in lines:
        for share in WAVES:
            if share:
                line = line.nodes.refined(line.tilt, float(u[-1]), share).line(line.tilt)
            if u.size * line.weights.size > WORK:
                raise NotMet
            logs = np.append(line.nodes.log_moments(tilts[:2]), np.full(4, line.log_m))
            error = np.exp(np.minimum(line.nodes.log_error(tilts, LEVELS * float(u[-1])) - logs, 300.0))
            if np.all(count * error <= np.maximum(allowed, 16 * EPS * count)):
                break
        if count * float(error[:2].max()) > 1e-3:
            raise NotMet
        found.append((line, count))
        errors.append(error)
    return found, errors


def period_of(
    total: Moments, tilt: float, spread: float, epsilon: float, aim: float
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """The least X at which aliases from both sides are below the aim, with the (tilt, log constant) that shows it."""
    moves = MOVES / spread
    lower = tilt - moves[moves < tilt]
    tilts = np.concatenate([lower, tilt + moves])
    logs = total.log_moments(tilts) + conversion(tilts)
    need = (logs - tilts * epsilon - aim + 0.1) / np.abs(tilts - tilt)
    best_right = lower.size + int(need[lower.size :].argmin())
    left, left_need = (0.0, 0.0), (0.1 - aim) / tilt
    if lower.size and max(float(need[: lower.size].min()), float(need[best_right])) < left_need:
        best = int(need[: lower.size].argmin())
        left, left_need = (float(tilts[best]), float(logs[best])), float(need[best])
    right = (float(tilts[best_right]), float(logs[best_right]))
    return max(left_need, float(need[best_right]), 1 / (right[0] - tilt), 1 / (tilt - left[0])), left, right


def _range(
    lines: Sequence[tuple[Line, int]], gaussian: float, spread: float, aim: float, step: float
) -> tuple[float, float]:
    """The U beyond which the integrand adds less than the aim, and what it adds, relative to M(t) e^{-t epsilon}.

    Decreasing integrand: sum_{k D > U} D g(k D) <= Int_U g, and g(u) <= |phi(u)|^n/u^2. First from layers, then, where
    that is not enough and steps are few, from the shifted line.
    """
    layers = [Layers.below(line) for line, _ in lines]
    near, far = FREQUENCIES
    few = any(count <= FEW for _, count in lines)
    for u, sharp in ((near, False), (near, True), (far, False), (far, True)):
        if sharp and not few:
            continue
        log_phi = -((gaussian * u / spread) ** 2) / 2
        for (line, count), layer in zip(lines, layers, strict=True):
            bound = layer.log_bound(u / spread)
            if sharp and count <= FEW:
                bound = np.minimum(bound, shifted(line, u / spread))
            log_phi = log_phi + count * bound
        if found := ended(u / spread, log_phi, aim):
            return found[0] + step, found[1]
    raise NotMet


def ended(u: Array, log_phi: Array, aim: float) -> tuple[float, float] | None:
    """The first u beyond which 1/pi Int |phi|/u^2 is at most e^aim, and that integral; bounds hold at u and beyond."""
    cells = np.exp(log_phi) * (1 / u - 1 / np.append(u[1:], math.inf)) / math.pi
    tail = np.add.accumulate(cells[::-1])[::-1]
    good = np.flatnonzero(tail <= math.exp(max(aim, -700.0)))
    return (float(u[good[0]]), float(tail[good[0]])) if good.size else None


def _integrand(
    lines: Sequence[tuple[Line, int]], errors: Sequence[Array], gaussian: float, tilt: float, u: Array
) -> tuple[Complex, float]:
    """Values relative to M(t), and the sum over both signs of u of what quadrature and rounding leave uncertain."""
    z = tilt + 1j * u
    log_value = -((gaussian * u) ** 2) / 2 + 1j * u * (tilt + 0.5) * gaussian**2 - np.log(z * (1 + z))
    log_size, doubt = log_value.real.copy(), np.zeros_like(u)
    level = np.searchsorted(LEVELS[2:] * float(u[-1]) * (1 + 1e-12), u)
    for (line, count), error in zip(lines, errors, strict=True):
        phi = line.values(u)
        size = np.maximum(np.abs(phi), 1e-300)
        wrong = error[2:][level] + line.rounding(u)
        log_value = log_value + count * np.log(np.where(size > 1e-300, phi, size))
        log_size = log_size + count * np.log(size + wrong)
        doubt += count * wrong / (size + wrong)
    bounds = np.exp(np.minimum(log_size, 600.0)) * np.minimum(doubt + 4 * EPS * (4 + np.abs(log_value)), 2.0)
    return np.exp(log_value), 2 * float(bounds.sum()) - float(bounds[0])
