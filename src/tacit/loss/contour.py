r"""delta(epsilon) as an integral over a vertical line of the complex plane, with a two-sided error budget.

    delta(epsilon) = 1/(2 pi) Int M(t + iu) e^{-(t + iu) epsilon} / ((t + iu)(1 + t + iu)) du,   M = prod_l M_l^{n_l}.

The trapezoid sum of step D equals sum_m delta(epsilon + m X) e^{m t X}, X = 2 pi/D, exactly: all aliases are
non-negative and bounded by Chernoff at other tilts. Beyond |u| = U the integrand is bounded by `decay`; each M_l comes
from `quadrature` with its own bound. Cost does not depend on the counts. Proof: docs/proofs/accounting.md, Theorem 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.interval import Interval
from .decay import log_decay
from .noise import Array, Complex
from .pairs import Location
from .quadrature import EPS, Line, Nodes, NotMet

WORK = 8_000_000
"""Largest number of (node, frequency) pairs before the lattice is the better tool."""
MOVES = np.array([0.02, 0.05, 0.1, 0.17, 0.25, 0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5, 10.0])
"""Distances of other tilts tried for the aliases, in units of one over the spread."""
FREQUENCIES = (np.geomspace(2.0, 40.0, 20), np.geomspace(20.0, 1e6, 56))
"""Ends of the range of frequencies tried, near ones first, in units of one over the spread."""
BUDGET = 1e-9
"""Relative error of delta aimed at, for each of the sources."""


@dataclass(frozen=True)
class Sum:
    """Pairs with counts, on quadrature nodes: real moments of the composition."""

    parts: tuple[tuple[Location, Nodes, int], ...]
    gaussian: float
    cap: float

    def log_moments(self, tilts: Array) -> Array:
        """log E_P e^{t L} of the composition."""
        total = self.gaussian**2 * tilts * (tilts + 1) / 2
        for _, nodes, count in self.parts:
            total = total + count * nodes.log_moments(tilts)
        return np.asarray(total)

    @property
    def steps(self) -> int:
        return sum(count for _, _, count in self.parts)

    def trusted(self, tilt: float) -> bool:
        """Whether `log_moments` is right to 1e-3 there: Chernoff constants carry a margin of 1e-2."""
        zero = np.zeros(1)
        return all(count * float(nodes.line(tilt).error(zero)[0]) < 1e-3 for _, nodes, count in self.parts)


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

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """Sums over both signs of u of |value| and |u value|, over the period: what rounding acts on."""
        size = np.abs(self.values)
        total = 2 * float(size.sum()) - float(size[0])
        return total / self.period, 2 * float(self.u @ size) / self.period

    def sums(self, epsilon: float) -> tuple[float, float]:
        """The trapezoid sum for delta(epsilon) and its derivative in epsilon."""
        wave = self.values * np.exp(-1j * self.u * epsilon)
        turned = (self.tilt + 1j * self.u) * wave
        scale = math.exp(min(self.log_m - self.tilt * epsilon, 700.0)) / self.period
        total, slope = (scale * (2 * float(terms.real.sum()) - float(terms[0].real)) for terms in (wave, turned))
        return total, -slope

    def delta(self, epsilon: float) -> Interval:
        """Certified ends of delta(epsilon); they are tight near the epsilon that the tilt was chosen for."""
        total, _ = self.sums(epsilon)
        scale = math.exp(min(self.log_m - self.tilt * epsilon, 700.0))
        size, moment = self._sizes
        exponent = 1 + self.tilt * epsilon + abs(self.log_m)
        error = scale * (self.error + 4 * EPS * ((4 + exponent + self.u.size) * size + epsilon * moment))
        low = total - error - self._aliases(epsilon)
        return Interval(min(max(low, 0.0), 1.0), min(max(total + error, 0.0), 1.0))

    def _aliases(self, epsilon: float) -> float:
        """sum_{m != 0} delta(epsilon + m X) e^{m t X}, each delta(y) at most c(t') M(t') e^{-t' y}."""
        total = 0.0
        for tilt, log_c in (self.left, self.right):
            away = abs(tilt - self.tilt) * self.period
            total += math.exp(min(log_c - tilt * epsilon - away, 0.0)) / -math.expm1(-away)
        return 1.01 * total


def contour(total: Sum, tilt: float, log_delta: float, epsilon: float) -> Contour:
    """Choose period, range and nodes so that delta near `epsilon`, about e^log_delta, is met within the budget."""
    lines = [(pair, nodes.line(tilt), count) for pair, nodes, count in total.parts]
    log_m = float(total.log_moments(np.array([tilt]))[0])
    spread = math.sqrt(sum(count * line.variance for _, line, count in lines) + total.gaussian**2)
    aim = math.log(BUDGET) + log_delta
    period, left, right = _period(total, tilt, spread, epsilon, aim)
    step = 2 * math.pi / period
    top, beyond = _range(lines, total.gaussian, spread, aim - log_m + tilt * epsilon, step)
    if top / step * sum(line.size for _, line, _ in lines) > WORK:
        raise NotMet
    u = step * np.arange(math.ceil(top / step) + 1, dtype=np.float64)
    lines = [(pair, line.refined(pair, count, float(u[-1])), count) for pair, line, count in lines]
    log_m = math.fsum(count * line.log_m for _, line, count in lines) + total.gaussian**2 * tilt * (tilt + 1) / 2
    if u.size * sum(line.size for _, line, _ in lines) > WORK:
        raise NotMet
    values, error = _integrand(lines, total.gaussian, tilt, u)
    return Contour(tilt, log_m, period, u, values, left, right, beyond + error / period)


def conversion(tilts: Array) -> Array:
    """log of t^t/(1+t)^{1+t}: delta(y) <= c(t) M(t) e^{-t y}. Canonne, Kamath and Steinke 2020, Proposition 12."""
    return np.asarray(tilts * np.log(tilts) - (1 + tilts) * np.log1p(tilts))


def _period(
    total: Sum, tilt: float, spread: float, epsilon: float, aim: float
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """The least X at which aliases from both sides are below the aim, with the (tilt, log constant) that shows it."""
    moves = MOVES / spread
    lower, higher = tilt - moves[moves < tilt], tilt + moves
    higher = higher[higher <= total.cap]
    if not higher.size:
        raise NotMet
    tilts = np.concatenate([lower, higher])
    logs = total.log_moments(tilts) + conversion(tilts)
    need = (logs - tilts * epsilon - aim + 0.1) / np.abs(tilts - tilt)
    best_right = lower.size + int(need[lower.size :].argmin())
    left, left_need = (0.0, 0.0), (0.1 - aim) / tilt
    if lower.size and max(float(need[: lower.size].min()), float(need[best_right])) < left_need:
        best = int(need[: lower.size].argmin())
        left, left_need = (float(tilts[best]), float(logs[best])), float(need[best])
    right = (float(tilts[best_right]), float(logs[best_right]))
    for side in (left[0], right[0]):
        if side > 0 and not total.trusted(side):
            raise NotMet
    return max(left_need, float(need[best_right]), 1 / (right[0] - tilt), 1 / (tilt - left[0])), left, right


def _range(
    lines: Sequence[tuple[Location, Line, int]], gaussian: float, spread: float, aim: float, step: float
) -> tuple[float, float]:
    """The U beyond which the integrand adds less than the aim, and what it adds, relative to M(t) e^{-t epsilon}.

    Decreasing integrand: sum_{k D > U} D g(k D) <= Int_U g, and g(u) <= |phi(u)|^n/u^2.
    """
    for u in FREQUENCIES:
        log_phi = -((gaussian * u / spread) ** 2) / 2
        for pair, line, count in lines:
            log_phi = log_phi + log_decay(pair, line, count, u / spread)
        cells = np.exp(log_phi) * (1 / u - 1 / np.append(u[1:], math.inf)) * spread / math.pi
        tail = np.cumsum(cells[::-1])[::-1]
        good = np.flatnonzero(tail <= math.exp(max(aim, -700.0)))
        if good.size:
            return float(u[good[0]]) / spread + step, float(tail[good[0]])
    raise NotMet


def _integrand(
    lines: Sequence[tuple[Location, Line, int]], gaussian: float, tilt: float, u: Array
) -> tuple[Complex, float]:
    """Values relative to M(t), and the sum over both signs of u of what quadrature and rounding leave uncertain."""
    z = tilt + 1j * u
    log_value = -((gaussian * u) ** 2) / 2 + 1j * u * (tilt + 0.5) * gaussian**2 - np.log(z) - np.log1p(z)
    log_size = log_value.real.copy()
    doubt = np.zeros_like(u)
    for _, line, count in lines:
        phi = line.values(u)
        exact, rounding = line.error(u), line.rounding(u)
        size = np.abs(phi)
        with np.errstate(divide="ignore"):
            log_value = log_value + count * np.log(np.where(size > 0, phi, 1e-300))
            log_size = log_size + count * np.log(size + exact + rounding)
        doubt += count * (exact + rounding) / (size + exact + rounding)
    weight = np.where(np.arange(u.size) > 0, 2.0, 1.0)
    errors = np.exp(np.minimum(log_size, 600.0)) * np.minimum(doubt + 4 * EPS * (4 + np.abs(log_value)), 2.0)
    return np.exp(log_value), float(weight @ errors)
