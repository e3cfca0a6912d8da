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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .cached import cached
from .decay import FEW
from .noise import Array, Complex
from .quadrature import EPS, Line, NotMet, TooMuch
from .tilted import PERIOD, REST, Moments, Sum, Tilted, conversion

EASY, WORK = 3_000_000, 40_000_000
"""Largest numbers of (node, frequency) pairs: before `jumps` is tried, and before the lattice is the better tool."""
MOVES = np.array([0.003, 0.02, 0.06, 0.2, 0.5, 1.0])
"""Distances of other tilts tried for the aliases, in units of what would be best for a normal law."""
FREQUENCIES = np.append(np.geomspace(6.5, 14.0, 6), [20.0, 40.0]), np.geomspace(20.0, 1e6, 56)
"""Ends of the range of frequencies tried, near ones first, in units of one over the spread."""
LEVELS = np.array([0.0, 0.0, 0.0, 0.25, 0.6, 1.0])
"""Shares of the largest frequency at which the panels are judged; the first two are for other tilts."""
SQUARES = (LEVELS[2:] ** 2).tolist()
WAVES = 10.0, 5.0, 2.5
"""Half-widths of panels tried, over the local wave number."""
LOOSE = 8.0
"""Panels may miss what is asked of them by this factor where finer ones would take too much work."""
BUDGET = 1e-9
"""Relative error of delta aimed at, for each of the sources."""


@dataclass(frozen=True)
class Runs:
    """Runs that `jumps` keeps out of the integral.

    Those of small losses alone add at most e^{log_c - tilt epsilon}, or have a contour of their own. Those with a huge
    one add `p` - e^epsilon `q`, each up to its relative error, and at most `slack` more, for every epsilon up to
    `limit`.
    """

    tilt: float
    log_c: float
    p: float = 0.0
    q: float = 0.0
    p_error: float = 0.0
    q_error: float = 0.0
    limit: float = math.inf
    slack: float = 0.0
    small: Contour | None = None

    def added(self, epsilon: float, total: float, slope: float) -> tuple[float, float]:
        """A value of delta and its derivative, with these runs."""
        if self.small is not None:
            more, steeper = self.small.sums(epsilon)
            total, slope = total + more, slope + steeper
        scaled = self.q * math.exp(min(epsilon, 600.0))
        return (total + self.p - scaled, slope - scaled) if scaled < self.p else (total, slope)

    def doubt(self, epsilon: float) -> tuple[float, float]:
        """By how much delta may be below and above `added`."""
        if epsilon > self.limit:
            return math.inf, math.inf
        error = self.p * self.p_error + self.q * math.exp(min(epsilon, 600.0)) * self.q_error
        low, high = 0.0, 1.01 * math.exp(min(self.log_c - self.tilt * epsilon, 0.0))
        if self.small is not None:
            low, high = self.small.ends(epsilon, 0.0)
        return error - low, error + high + (self.slack if self.p else 0.0)


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

    @cached
    def _sizes(self) -> tuple[float, float]:
        """Sums over both signs of u of |value| and |u value|, over the period: what rounding acts on."""
        size = np.abs(self.values)
        total = 2 * float(size.sum()) - float(size[0])
        return total / self.period, 2 * float(self.u @ size) / self.period

    def sums(self, epsilon: float) -> tuple[float, float]:
        """The trapezoid sum for delta(epsilon) and its derivative in epsilon."""
        wave = self.values * np.exp((-1j * epsilon) * self.u)
        scale = self._scale(epsilon) / self.period
        total = scale * (2 * float(np.add.reduce(wave.real)) - float(wave[0].real))
        slope = 2 * scale * float(self.u @ wave.imag) - self.tilt * total
        return (total, slope) if self.runs is None else self.runs.added(epsilon, total, slope)

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Certified ends of delta(epsilon); they are tight near the epsilon that the tilt was chosen for."""
        return self.ends(epsilon, self.sums(epsilon)[0])

    def shows(self, low: float, high: float, delta: float) -> bool:
        """Whether delta(high) <= `delta`, and delta(low) > `delta` or low = 0."""
        below = low == 0 or self.delta(low)[0] > delta
        return below and self.delta(high)[1] <= delta

    def ends(self, epsilon: float, total: float) -> tuple[float, float]:
        """Lower and upper end of delta(epsilon), given the sum over the contour."""
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


def contour(
    total: Sum, tilted: Tilted, log_delta: float, epsilon: float, *, coarse: bool = False, work: int = WORK
) -> Contour:
    """Choose period, range and nodes so that delta near `epsilon`, about e^log_delta, is met within the budget.

    A coarse one is for the upper end alone, to some percent: aliases only add to it. Raises NotMet beyond this work.
    """
    tilt, spread = tilted.tilt, tilted.spread
    if spread < 1e-150:
        raise NotMet
    aim = math.log(1e-3 if coarse else BUDGET) + log_delta
    guess = max(PERIOD * spread, 5.0 / tilt), (tilt, math.inf), (tilt, math.inf)
    log_share = tilted.log_m - tilt * epsilon
    period, left, right = guess if coarse else period_of(total, tilt, spread, epsilon, log_share, aim)
    step = 2 * math.pi / period
    goal = min(aim - log_share, 0.0)
    top, beyond = tilted.coarse_range if coarse else (0.0, math.inf)
    if beyond > math.exp(max(goal, -700.0)):
        top, beyond = _range(tilted, goal)
    size = math.ceil(top / step) + 2
    if size * sum(line.weights.size for line, _ in tilted.parts) > work:
        raise TooMuch
    u = step * np.arange(size, dtype=np.float64)
    tilts = np.array([left[0], right[0], tilt, tilt, tilt, tilt])
    tilted, errors = _fine(tilted, tilts, u, max(goal, -34.0), work)
    values, error = _integrand(tilted, errors, u)
    return Contour(tilt, tilted.log_m, period, u, values, left, right, beyond + error / period, total.cut)


def _fine(tilted: Tilted, tilts: Array, u: Array, goal: float, work: int) -> tuple[Tilted, list[Array]]:
    """Panels fine enough for e^goal, and their errors: at the two other tilts, then at rising frequencies."""
    found, errors = [], []
    for line, count in tilted.parts:
        allowed = [max(math.exp(goal + 24 * (1 - 1 / count) * level), 4 * EPS * count) for level in SQUARES]
        best = None
        for finer, error in _finer(line, tilts, LEVELS * float(u[-1]), work // u.size):
            excess = float((count * error[2:] / allowed).max())
            if count * float(error[:2].max()) <= 1e-3 and excess <= LOOSE:
                best = finer, error
                if excess <= 1:
                    break
        if best is None:
            raise TooMuch
        found.append((best[0], count))
        errors.append(best[1])
    return Tilted(tuple(found), tilted.gaussian, tilted.tilt), errors


def _finer(line: Line, tilts: Array, levels: Array, most: int) -> Iterator[tuple[Line, Array]]:
    """Refine the panels of a line up to so many nodes, and return it with its errors."""
    if line.weights.size <= most:
        yield line, np.exp(np.minimum(line.quick_error(tilts[:2].tolist(), levels[2:]), 300.0))
        yield line, np.exp(np.minimum(line.log_error(tilts, levels), 300.0))
    for share in WAVES:
        try:
            nodes = line.nodes.refined(line.tilt, float(levels[-1]), share)
        except NotMet:
            return
        if nodes.x.size > most:
            return
        line = nodes.line(line.tilt)
        yield line, np.exp(np.minimum(line.log_error(tilts, levels), 300.0))


def period_of(
    total: Moments, tilt: float, spread: float, epsilon: float, log_share: float, aim: float
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """The least X at which aliases from both sides are below the aim, with the (tilt, log constant) that shows it.

    `log_share` is the log of M(t) e^{-t epsilon}.
    """
    moves = MOVES * (math.sqrt(2 * max(log_share - aim, 1.0)) / spread)
    lower = tilt - moves[moves < tilt]
    tilts = np.concatenate([lower, tilt + moves])
    logs = total.log_moments(tilts) + conversion(tilts)
    need = (logs - tilts * epsilon - (aim - 0.1)) / np.abs(tilts - tilt)
    best_right = lower.size + int(need[lower.size :].argmin())
    left, left_need = (0.0, 0.0), (0.1 - aim) / tilt
    if lower.size:
        best = int(need[: lower.size].argmin())
        if max(float(need[best]), float(need[best_right])) < left_need:
            left, left_need = (float(tilts[best]), float(logs[best])), float(need[best])
    right = (float(tilts[best_right]), float(logs[best_right]))
    return max(left_need, float(need[best_right]), 1 / (right[0] - tilt), 1 / (tilt - left[0])), left, right


def _range(tilted: Tilted, aim: float) -> tuple[float, float]:
    """The U beyond which the integrand adds less than the aim, and what it adds, relative to M(t) e^{-t epsilon}.

    Decreasing integrand: sum_{k D > U} D g(k D) <= Int_U g, and g(u) <= |phi(u)|^n/u^2. First from layers, then, where
    that is not enough and steps are few, from the shifted line.
    """
    near, far = (u / tilted.spread for u in FREQUENCIES)
    few = any(count <= FEW for _, count in tilted.parts)
    for sharp in (False, True):
        if (few or not sharp) and (found := ended(near, tilted.log_phi(near, sharp=sharp), aim)):
            return found
    for sharp in (False, True):
        if (few or not sharp) and (found := reached(far, partial(tilted.log_phi, sharp=sharp), aim)):
            return found
    raise NotMet


def reached(u: Array, log_phi: Callable[[Array], Array], aim: float) -> tuple[float, float] | None:
    """`ended`, looking at every fourth u first and then at those before the first good one."""
    every = u[3::4]
    values = log_phi(every)
    found = ended(every, values, aim)
    if found is None:
        return None
    first = int(np.searchsorted(every, found[0]))
    before = u[4 * first : 4 * first + 3]
    return ended(np.append(before, every[first:]), np.append(log_phi(before), values[first:]), aim)


def ended(u: Array, log_phi: Array, aim: float) -> tuple[float, float] | None:
    """The first u beyond which 1/pi Int |phi|/u^2 is at most e^aim, and that integral; bounds hold at u and beyond."""
    inverse = 1 / u
    inverse[:-1] -= inverse[1:]
    cells = np.exp(log_phi) * inverse / math.pi
    tail = np.add.accumulate(cells[::-1])[::-1]
    good = tail <= math.exp(max(aim, -700.0))
    first = int(good.argmax())
    return (float(u[first]), 1.01 * float(tail[first])) if good[first] else None


def _integrand(tilted: Tilted, errors: Sequence[Array], u: Array) -> tuple[Complex, float]:
    """Values relative to M(t), and the sum over both signs of u of what quadrature and rounding leave uncertain."""
    square, z = tilted.gaussian**2, tilted.tilt + 1j * u
    log_phi, log_size, doubt = np.zeros(u.size, dtype=np.complex128), np.zeros(u.size), np.zeros(u.size)
    if square:
        log_size -= square / 2 * u * u
        log_phi += log_size + (1j * (tilted.tilt + 0.5) * square) * u
    level = np.searchsorted(LEVELS[2:] * (float(u[-1]) * (1 + 1e-12)), u)
    for (line, count), error in zip(tilted.parts, errors, strict=True):
        phi = line.values(u) + 1e-300
        wrong = error[2:][level] + line.rounding(u)
        whole = np.abs(phi) + wrong
        log_phi += count * np.log(phi)
        log_size += count * np.log(whole)
        doubt += count * (wrong / whole)
    kernel = 1 / (z * (1 + z))
    bounds = np.exp(np.minimum(log_size, 600.0)) * np.minimum(doubt + 4 * EPS * (8 + np.abs(log_phi)), 2.0)
    bounds *= np.abs(kernel)
    return np.asarray(np.exp(log_phi) * kernel, dtype=np.complex128), 2 * float(np.add.reduce(bounds)) - float(
        bounds[0]
    )
