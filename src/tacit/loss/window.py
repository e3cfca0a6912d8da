r"""Composition on a lattice: one tilted Fourier transform, with every error counted.

After the tilt a_j = p_j e^{t g_j} / M the interesting losses are the likely ones, so that delta = 1e-20 is no harder
than 1e-5. With T_k the composed tilted masses, an anchor c near the epsilon in question and
f_k = e^{-t (k h - c)} (1 - e^{epsilon - k h})_+,

    delta(epsilon) = M e^{-t c} sum_k T_k f_k.

The circular convolution over N points gives T_k plus its aliases. Errors (docs/proofs/accounting.md, section 4): the
transform by its norm-wise bound, aliases and mass beyond the window by Chernoff bounds at other tilts, cell masses and
cell edges by their rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy import fft

from .noise import Array, Complex, log1p
from .quadrature import NotMet
from .steps import Step

EPS = float(np.finfo(float).eps)
TAIL = 1e-16
"""Tilted mass allowed outside the window on either side."""
RARE = 25.0
"""Where fewer than about so many of all steps move, moves are counted apart from the steps that stay."""
TOLD = 16 * EPS
"""How far off a chance to tell all may be, relatively."""
LARGEST_SIZE = 1 << 18
"""Points of a window beyond which the lattice gives up."""
BLOCKS = 2048
"""Points of a lattice on which the extent of a composition is looked for."""
Counts = Sequence[tuple[Step, int]]
Tilts = TypeVar("Tilts", float, Array)
"""One tilt, or many."""


class TooLarge(NotMet):
    """The window would have `factor` times as many points as allowed."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor


def log_moments(parts: Counts, tilts: Array) -> Array:
    """log E_P e^{t L} of the composition, over finite losses."""
    return np.asarray(np.sum([count * step.log_moments(tilts) for step, count in parts], axis=0))


def lost(parts: Counts) -> float:
    """Mass of the composition at infinity."""
    return -math.expm1(math.fsum(count * math.log1p(-step.infinite) for step, count in parts))


def rounding(parts: Counts, tilt: Tilts) -> tuple[Tilts, float]:
    r"""What rounding can do to a composition: to its mass tilted by t, relatively, and to its loss.

    Every factor p_j e^{t g_j}/M carries the doubt of its step and 64 + 10 t L units of the last digit. Constants at the
    end add fewer than 4000. A loss is a sum of multiples of at most L.
    Reference: docs/proofs/rounding.md, Lemma 5.
    """
    steps, doubt = sum(count for _, count in parts), math.fsum(count * step.doubt for step, count in parts)
    largest = _largest(parts)
    return 1.01 * doubt + EPS * (steps * (64 + 10 * abs(tilt) * largest) + 4000), 8 * EPS * steps * (largest + 1)


def moment_doubt(parts: Counts, tilt: Tilts) -> Tilts:
    """How far off the logarithm of a composed moment may be: logarithms of masses are at most 745, right to 4 ulp."""
    steps = sum(count for _, count in parts)
    return 2 * rounding(parts, tilt)[0] + 3200 * EPS * steps


def _largest(parts: Counts) -> float:
    return max(max(abs(step.origin), float(np.abs(step.losses[[0, -1]]).max())) for step, _ in parts)


@dataclass(frozen=True)
class Window:
    """Composed tilted masses over a window of losses, as sums from above; sign +1 bounds delta from above, -1 below."""

    sign: int
    tilt: float
    anchor: float
    log_scale: float
    losses: Array
    p_above: Array
    q_above: Array
    relative: float
    shift: float
    infinite: float

    def delta(self, epsilon: float) -> float:
        """A certified end of delta(epsilon)."""
        return float(self.deltas(np.array([epsilon]))[0])

    @property
    def bends(self) -> tuple[Array, Array]:
        """Epsilons from 0 between which the end of delta is linear in e^epsilon without a tilt, and the ends there."""
        places = self.losses + self.sign * self.shift
        epsilons = np.concatenate([[0.0], places[places > 0]])
        return epsilons, self.deltas(epsilons)

    def deltas(self, epsilons: Array) -> Array:
        """`delta` for many epsilons."""
        moved = epsilons - self.sign * self.shift
        index = np.searchsorted(self.losses, moved, side="right")
        p = self.p_above[index]
        q = self.q_above[index] * np.exp(np.minimum(moved - self.anchor, 600.0))
        finite = p - q + self.sign * (p + q) * self.relative
        total = (
            self.infinite
            + math.exp(min(self.log_scale, 600.0)) * np.maximum(finite, 0.0)
            + self.sign * self._outside(moved)
        )
        far = ((self.anchor - moved) * (1 + self.tilt) > 600.0) | (self.sign * (self.anchor - moved) > 600.0)
        known = np.where(far | (self.log_scale > 600.0), (1.0 + self.sign) / 2, total)
        return np.asarray(np.clip(known, 0.0, 1.0))

    def _outside(self, epsilons: Array) -> Array:
        """What mass outside the window can add or, as aliases, fake: TAIL times the largest weight it can have."""
        t, low, high = self.tilt, float(self.losses[0]), float(self.losses[-1])
        peak = epsilons + (math.log1p(1 / t) if t > 0 else 0.0)
        if self.sign < 0:
            return 2 * self._weight(np.maximum(peak, low))
        return self._weight(np.maximum(high, peak)) + np.where(epsilons < low, self._weight(peak), 0.0)

    def _weight(self, losses: Array) -> Array:
        return np.asarray(TAIL * np.exp(np.minimum(self.log_scale - self.tilt * (losses - self.anchor), 600.0)))


def compose(parts: Counts, tilt: float, sign: int, anchor: float) -> Window:
    """Convolve over a window that holds all but `TAIL` of the tilted mass on either side."""
    width = parts[0][0].width
    _, low, high = extent(parts, tilt)
    needed = (high - low) / width + 2
    if not needed <= LARGEST_SIZE:
        raise TooLarge(needed / LARGEST_SIZE)
    size = fft.next_fast_len(max(64, math.ceil(needed)), real=True)
    origin = math.fsum(count * step.origin for step, count in parts)
    start = math.floor((low - origin) / width)
    density, error, log_m = convolve(parts, tilt, size)
    density = np.maximum(np.roll(density, -(start % size)) + sign * error, 0.0)
    losses = origin + width * np.arange(start, start + size, dtype=np.float64)
    log_weight = -tilt * (losses - anchor)
    least = -700.0 if sign > 0 else -math.inf
    p = density * np.exp(np.clip(log_weight, least, 600.0))
    q = density * np.exp(np.clip(log_weight + anchor - losses, -math.inf if sign > 0 else -700.0, 600.0))
    relative, shift = rounding(parts, tilt)
    if sign < 0:  # from below Q may be off as well, which moves losses
        shift += 2.02 * math.fsum(count * step.doubt for step, count in parts)
    return Window(
        sign,
        tilt,
        anchor,
        log_m - tilt * anchor,
        losses,
        _above(p),
        _above(q),
        relative + EPS * (size + 4 * abs(log_m)),
        shift,
        lost(parts) * (1 + sign * TOLD),
    )


def _above(mass: Array) -> Array:
    return np.append(np.cumsum(mass[::-1])[::-1], 0.0)


MOVES = np.array([0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.4])


def extent(parts: Counts, tilt: float, shares: Array = MOVES) -> tuple[float, float, float]:
    """log M(t), and losses beyond which the tilted composition has mass at most TAIL, by Chernoff at other tilts."""
    spread = 0.0
    for step, count in parts:
        weights = _tilted(step, tilt)[0]
        spread += count * float(weights @ (step.losses - weights @ step.losses) ** 2)
    need = -math.log(TAIL) + 1e-3
    moves = shares * math.sqrt(2 * need / max(spread, 1e-300))
    need += max(2 * moment_doubt(parts, abs(tilt) + float(moves[-1])) - 1e-3, 0.0)
    base = float(log_moments(parts, np.array([tilt]))[0])
    logs = log_moments([(thinned(step), count) for step, count in parts], np.append(tilt + moves, tilt - moves))
    up, down = logs[: moves.size], logs[moves.size :]
    first = math.fsum(count * float(step.losses[0]) for step, count in parts)
    last = math.fsum(count * float(step.losses[-1]) for step, count in parts)
    margin = parts[0][0].width
    low = max(float((-(down - base + need) / moves).max()), first - margin)
    return base, low, max(min(float(((up - base + need) / moves).min()), last + margin), low + margin)


def thinned(step: Step) -> Step:
    """A step on a coarser lattice with no smaller moments: masses go to both ends of a block, mean kept.

    An exponential is convex, so it lies below its chord.
    """
    block = -(-step.mass.size // BLOCKS)
    if block <= 2:
        return step
    share = np.arange(block) / block
    rows = np.zeros((-(-step.mass.size // block), block))
    rows.ravel()[: step.mass.size] = step.mass
    up = rows @ share
    mass = np.append(rows.sum(axis=1) - up, 0.0) + np.append(0.0, up)
    origin = step.origin + step.width * step.start
    return replace(step, origin=origin, width=block * step.width, start=0, mass=mass)


def _tilted(step: Step, tilt: float) -> tuple[Array, float]:
    """Masses times e^{t g}/M, and log M: any number would do that is used in both places."""
    log_m = float(step.log_moments(np.array([tilt]))[0])
    exponents = tilt * step.losses - log_m
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.where(step.mass > 0, step.mass * np.exp(np.minimum(exponents, 700.0)), 0.0)), log_m


def transform_error(size: int) -> float:
    r"""A bound of how far off a transform of so many points may be, relatively, in the Euclidean norm.

    Passes of radix 2, 3, 4 and 5 lose at most 8 units of the last digit per factor of 2.
    Reference: Higham 2002, Theorem 24.2; docs/proofs/rounding.md, Lemma 6.
    """
    return 9 * EPS * (math.log2(size) + 2)


def convolve(parts: Counts, tilt: float, size: int) -> tuple[Array, float, float]:
    """The circular convolution of all tilted steps, a bound on the error of each of its entries, and log M."""
    tilted = [_tilted(step, tilt) for step, _ in parts]
    log_m = math.fsum(count * log for (_, count), (_, log) in zip(parts, tilted, strict=True))
    if len(parts) == 1 and -parts[0][1] * math.log(max(float(tilted[0][0].max()), 1e-300)) < RARE:
        return *_few_moves(tilted[0][0], parts[0][0].start, parts[0][1], size), log_m
    log_total = np.zeros(size // 2 + 1, dtype=np.complex128)
    log_size, log_most = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
    pieces = []
    for (step, count), (masses, _) in zip(parts, tilted, strict=True):
        circle = folded(masses, step.start, size)
        spectrum = fft.rfft(circle)
        modulus = np.maximum(np.abs(spectrum), 1e-300)
        rms = transform_error(size) * float(np.linalg.norm(circle))
        logs, most = np.log(modulus), np.log(modulus + rms * math.sqrt(size))  # np.log of complex numbers is slow
        log_total.real += count * logs
        log_total.imag += count * np.arctan2(spectrum.imag, spectrum.real)
        log_size += count * (np.abs(logs) + math.pi)
        log_most += count * most
        pieces.append((most, count, rms))
    total = np.exp(log_total)
    error = mean_of(np.abs(total) * (6 * log_size + 32), size) * EPS
    for most, count, rms in pieces:
        rest = np.exp(np.minimum(log_most - most, 1.0))
        error += count * rms * math.sqrt(mean_of(rest**2, size))
    density = fft.irfft(total, size)
    return density, error + transform_error(size) * float(np.linalg.norm(density)), log_m


def _few_moves(tilted: Array, start: int, count: int, size: int) -> tuple[Array, float]:
    r"""The convolution where most steps stay at one point, of mass m: m^n (1 + n x + [(1 + x)^n - 1 - n x]), x = r/m.

    No move and one move need no transform, so the large mass that stays adds no rounding to the small ones that matter.
    """
    main = int(tilted.argmax())
    mass = float(tilted[main])
    moves = tilted / mass
    moves[main] = 0.0
    circle = folded(moves, -main, size)
    x = fft.rfft(circle)
    some, slope, lost = _two_or_more(x, count)
    transform = transform_error(size)
    more, rms = fft.irfft(some, size), transform * float(np.linalg.norm(circle))
    away = rms * math.sqrt(size)
    bend = count * (count - 1.0) * away * np.exp(np.minimum((count - 2) * np.log(np.abs(1 + x) + away), 600.0))
    error = rms * math.sqrt(mean_of((slope + bend) ** 2, size))
    error += EPS * mean_of(lost, size) + transform * float(np.linalg.norm(more))
    density = more + count * circle
    density[0] += 1.0
    scale = math.exp(count * math.log(mass))
    return np.roll(scale * density, (start + main) * count % size), scale * (error + 8 * EPS)


def _two_or_more(x: Complex, n: int) -> tuple[Complex, Array, Array]:
    """(1 + x)^n - 1 - n x, the size of its derivative, and its rounding; by the binomial series where n x is small."""
    small = np.abs(x) * n < 0.02  # what the series leaves out is then below 14 units of the last digit
    with np.errstate(over="ignore", invalid="ignore"):
        logs = log1p(x)
        whole = np.expm1(n * logs) - n * x
        slope = n * np.expm1((n - 1) * logs)
    tail = 1 + (n - 4) * x / 5 * (1 + (n - 5) * x / 6 * (1 + (n - 6) * x / 7))
    series = n * (n - 1) / 2 * x**2 * (1 + (n - 2) * x / 3 * (1 + (n - 3) * x / 4 * tail))
    some = np.where(small, series, whole)
    lost = np.where(small, 64 * np.abs(series), 48 * (np.abs(some) + 2 * n * np.abs(x)) * (1 + n * np.abs(logs)))
    return some, np.abs(slope), lost


def folded(mass: Array, start: int, size: int) -> Array:
    """`mass` placed from `start` on, around a circle of `size` points."""
    if mass.size > size:
        return np.bincount(np.arange(start, start + mass.size) % size, mass, minlength=size).astype(np.float64)
    circle = np.zeros(size)
    first = start % size
    fits = min(mass.size, size - first)
    circle[first : first + fits] = mass[:fits]
    circle[: mass.size - fits] = mass[fits:]
    return circle


def mean_of(half: Array, size: int) -> float:
    """Mean over all frequencies of a real, even function known on the non-negative ones."""
    return float(2 * half.sum() - half[0]) / size
