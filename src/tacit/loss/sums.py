r"""The law of a sum of independent lattice variables, far into both tails.

One Fourier transform has errors of about 1e-15 of the largest mass, wherever they fall. A tilt e^{c v} makes other
masses the largest. So the sum is computed at several tilts, and each mass is taken from the tilt with the smallest
error for it. Errors are those of `window`: the transform by its norm-wise bound, aliases and what lies outside by
Chernoff's bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import fft

from .noise import Array, log1p
from .quadrature import NotMet
from .steps import Step
from .window import EPS, LARGEST_SIZE, TAIL, Counts, convolve, extent, folded, mean_of, rounding, transform_error

RIGHT, LEFT = (1.0, 3.0, 9.0), (-1.0, -3.0, -9.0)
"""Tilts in units of one over the spread of the sum."""
MOVES = np.geomspace(1e-6, 1.4, 13)
"""Distances of tilts that bound what lies outside, from those of heavy tails on."""
JUMPS = 0.25, 0.5, 1.0
"""Tilts in units of log(1/mass) over the distance of the largest value: where one large value makes the tail."""


@dataclass(frozen=True)
class Law:
    """Masses of the sum at `origin + width * (start + j)`, and how far each may be off.

    `below` bounds the mass under the first value, `above` that over the last, `weighted` the sum of v times mass there.
    """

    origin: float
    width: float
    start: int
    mass: Array
    doubt: Array
    below: float
    above: float
    weighted: float

    @property
    def most(self) -> Array:
        """Upper bounds on the masses."""
        return self.mass + self.doubt

    @property
    def least(self) -> Array:
        """Lower bounds on the masses."""
        return np.asarray(np.maximum(self.mass - self.doubt, 0.0))

    @property
    def values(self) -> Array:
        return self.origin + self.width * np.arange(self.start, self.start + self.mass.size, dtype=np.float64)


def law_of(parts: Counts) -> Law:
    """The sum of all parts, `count` independent copies of each."""
    return _best(_joined(_views(partial(_view, parts), sorted(_tilts(parts), key=abs))), parts)


def law_with_jumps(step: Step, count: int, rare: float) -> Law:
    r"""`law_of` many copies of one variable with a heavy right tail, from above.

    With m its small values and r its large ones, of which `rare` come up in all copies on average, the law is that of
    m^n plus (m + r)^n - m^n. The second has a mass of about `rare`, and so have its errors; the first has no heavy
    tail, so that tilts show it well.
    """
    tail = np.cumsum(step.mass[::-1])[::-1]
    cut = int(np.searchsorted(-tail, -rare / count))
    near = np.arange(tail.size) < cut
    small, large = np.where(near, step.mass, 0.0), np.where(near, 0.0, step.mass)
    if not (cut > 1 and large.any()):
        return law_of([(step, count)])
    body = law_of([(replace(step, mass=small), count)])
    whole = [(step, count)]
    tilts = [tilt for tilt in sorted(_tilts(whole), key=abs) if tilt >= 0]
    jumps = _best(_joined(_views(partial(_jump_view, step, small, large, count), tilts)), whole)
    if jumps.start <= count * step.start + cut:  # a sum with a large value in it is at least that
        jumps = replace(jumps, below=0.0)
    return _sum(body, jumps)


def _best(views: list[_View], parts: Counts) -> Law:
    """Every mass from the view with the smallest error there.

    On the left only tilts to the left bound what lies outside, and the other way round.
    """
    width, origin = parts[0][0].width, math.fsum(count * step.origin for step, count in parts)
    start = min(view.start for view in views if view.tilt <= 0)
    stop = max(view.stop for view in views if view.tilt >= 0)
    mass, doubt = np.zeros(stop - start), np.full(stop - start, np.inf)
    for view in views:
        first, last = max(view.start, start), min(view.stop, stop)
        here, there = slice(first - start, last - start), slice(first - view.start, last - view.start)
        better = view.doubt[there] < doubt[here]
        mass[here] = np.where(better, view.mass[there], mass[here])
        doubt[here] = np.where(better, view.doubt[there], doubt[here])
    below = min(view.below for view in views if view.tilt <= 0)
    ends = [view.right_ends(origin + width * (view.stop - 1)) for view in views if view.tilt >= 0]
    return Law(origin, width, start, mass, doubt, below, min(end[0] for end in ends), min(end[1] for end in ends))


def _sum(one: Law, other: Law) -> Law:
    """Two measures on one lattice, added."""
    start = min(one.start, other.start)
    size = max(one.start + one.mass.size, other.start + other.mass.size) - start
    mass, doubt = np.zeros(size), np.zeros(size)
    for law in (one, other):
        place = slice(law.start - start, law.start - start + law.mass.size)
        mass[place] += law.mass
        doubt[place] += law.doubt
    ends = (getattr(one, name) + getattr(other, name) for name in ("below", "above", "weighted"))
    return Law(one.origin, one.width, start, mass, doubt, *ends)


def _views(view: Callable[[float], _View], tilts: Iterable[float]) -> Iterator[_View]:
    """Views of the law at every tilt where it can be viewed. It is an error if the tilt 0 gives no view."""
    for tilt in tilts:
        try:
            yield view(tilt)
        except (NotMet, ArithmeticError):
            if tilt == 0:
                raise NotMet from None


def _joined(views: Iterable[_View]) -> list[_View]:
    """The views that form one connected range around the first (untilted) view; the rest are dropped."""
    kept: list[_View] = []
    start, stop = 0, 0
    for view in views:
        if not kept or (view.start <= stop and start <= view.stop):
            kept.append(view)
            start, stop = min(item.start for item in kept), max(item.stop for item in kept)
    return kept


@dataclass(frozen=True)
class _View:
    """The law as one tilt shows it: masses, their errors, and what lies outside of the window."""

    start: int
    mass: Array
    doubt: Array
    below: float
    above: float
    tilt: float

    @property
    def stop(self) -> int:
        return self.start + self.mass.size

    def right_ends(self, last: float) -> tuple[float, float]:
        """The mass above the last value, and E[v; v above it], as v <= H + e^{tilt (v - H)}/tilt."""
        return self.above, self.above * (last + 1 / self.tilt) if self.tilt > 0 else math.inf


def _view(parts: Counts, tilt: float) -> _View:
    _, start, size = _window(parts, tilt)
    density, error, log_m = convolve(parts, tilt, size)
    return _placed(parts, tilt, log_m, start, density, error)


def _jump_view(step: Step, small: Array, large: Array, count: int, tilt: float) -> _View:
    """(m + r)^n - m^n = m^n ((1 + r/m)^n - 1), from the transforms of m and r.

    An error e of r changes it by at most n e |m + r|^{n-1}, one of m by n e |(m + r)^{n-1} - m^{n-1}|.
    """
    parts = [(step, count)]
    log_m, start, size = _window(parts, tilt)
    scale = np.exp(np.minimum(tilt * step.losses - log_m / count, 700.0))
    sides = [folded(np.where(side > 0, side * scale, 0.0), step.start, size) for side in (small, large)]
    m, r = (fft.rfft(side) for side in sides)
    m = np.where(np.abs(m) > 1e-200, m, 1e-200)
    logs, growth = count * np.log(m), count * log1p(r / m)
    grown = np.where(growth.real > 0, np.exp(logs + growth), 0.0) * -np.expm1(np.where(growth.real > 0, -growth, 0.0))
    total = grown + np.where(growth.real > 0, 0.0, np.exp(logs) * np.expm1(np.where(growth.real > 0, 0.0, growth)))
    transform = transform_error(size)
    small_rms, large_rms = (transform * float(np.linalg.norm(side)) for side in sides)
    away = (small_rms + large_rms) * math.sqrt(size)
    rest = np.exp(np.minimum((count - 1) * np.log(np.abs(m + r) + away), 1.0))
    error = count * large_rms * math.sqrt(mean_of(rest**2, size))
    other = np.minimum(np.abs(total) / np.maximum(np.abs(m), 1e-200) + rest * (np.abs(r / m) + count * away), 3.0)
    error += count * small_rms * math.sqrt(mean_of(other**2, size))
    error += EPS * mean_of(np.abs(total) * (6 * np.abs(logs) + 8 * count + 12 * np.abs(growth) + 64), size)
    density = fft.irfft(total, size)
    error += transform * float(np.linalg.norm(density))
    return _placed(parts, tilt, log_m, start, density, error)


def _window(parts: Counts, tilt: float) -> tuple[float, int, int]:
    """log M, the first lattice point and the number of points that hold all but TAIL of the tilted mass."""
    width, origin = parts[0][0].width, math.fsum(count * step.origin for step, count in parts)
    log_m, low, high = extent(parts, tilt, MOVES)
    needed = (high - low) / width + 2
    if not needed <= LARGEST_SIZE:
        raise NotMet
    return log_m, math.floor((low - origin) / width), fft.next_fast_len(max(64, math.ceil(needed)), real=True)


def _placed(parts: Counts, tilt: float, log_m: float, start: int, density: Array, error: float) -> _View:
    """Masses without their tilt; what is rounded per mass is a share of it."""
    width, origin = parts[0][0].width, math.fsum(count * step.origin for step, count in parts)
    density = np.maximum(np.roll(density, -(start % density.size)), 0.0)
    values = origin + width * np.arange(start, start + density.size, dtype=np.float64)
    with np.errstate(under="ignore"):
        scale = np.exp(np.minimum(log_m - tilt * values, 700.0))
    share = 1e-12 + rounding(parts, tilt)[0] + 8 * EPS * abs(log_m)
    doubt = scale * (error + 2 * TAIL + share * density)
    return _View(start, scale * density, doubt, float(TAIL * scale[0]), float(TAIL * scale[-1]), tilt)


def _tilts(parts: Counts) -> list[float]:
    square, far, rare = 0.0, 0.0, 0.0
    for step, count in parts:
        total, values = float(step.mass.sum()), step.losses
        mean = float(step.mass @ values) / total
        square += count * float(step.mass @ (values - mean) ** 2) / total
        far = max(far, float(values[-1]) - mean)
        rare = max(rare, -math.log(max(float(step.mass[-max(step.mass.size // 20, 1) :].sum()), 1e-30)))
    spread = math.sqrt(max(square, 1e-300))
    found = [0.0, *(unit / spread for unit in LEFT), *(unit / spread for unit in RIGHT)]
    return found + [share * rare / far for share in JUMPS if far > 0]


def lattice_step(mass: Array, width: float, start: int = 0, origin: float = 0.0) -> Step:
    """One variable on a lattice of values."""
    return Step(origin, width, start, mass, 0.0)
