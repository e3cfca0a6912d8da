r"""Epsilon to about a percent, without proof: where the contours start when large losses matter.

Tilted masses of each step go to the three nearest lattice points, keeping mass, mean and variance; one transform
composes them. A step beyond the lattice counts as if the others added nothing. What comes of it is proved elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import fft

from .mixture import Mixture
from .noise import Array, Complex
from .quadrature import Nodes

POINTS, MARGIN = 1024, 40
"""Points of the lattice; as many again keep runs with two large losses apart from the others.

Some below the least loss are for what lattice points lend to their neighbours."""
PLACES = 3000
SPARE, LEAST = 1.25, 0.75
"""Losses up to this multiple of the guess are on the lattice; answers below this share of it are looked at again."""
FINE, FAINT = 0.05, -28.0
"""Not so where they are this share of the lattice, and delta is above e^FAINT: what the transform leaves is less."""
SHRUNK, SAME = 8.0, 0.1
"""The lattice shrinks by this factor at most, and no more where two of them agree to this share."""
SHARES = np.append(0.0, np.geomspace(0.01, 0.5, 12))
"""Tilts tried, in units of log(1/delta) over the guess."""
PASSES, TILTED = 8, 0.6
"""How often it is looked, and where tilts are chosen for, over the guess."""
NOISE = 1e-16
"""What the transform leaves where there is nothing."""


@dataclass(frozen=True)
class Law:
    """P's losses and their masses at even places, for one kind of step."""

    loss: Array
    mass: Array
    count: int

    @classmethod
    def of(cls, nodes: Nodes, count: int) -> Law:
        pair, s = nodes.pair, nodes.pair.noise.scale
        x = np.linspace(float(nodes.edges[0]), float(nodes.edges[-1]), PLACES)
        p, q = Mixture.at(pair.p, x, s), Mixture.at(pair.q, x, s)
        mass = np.exp(p.log_ratio - x * x / (2 * s * s)) * (float(x[1] - x[0]) / (s * math.sqrt(2 * math.pi)))
        return cls(p.log_ratio - q.log_ratio, mass, count)

    def parted(self, most: float) -> tuple[Law, Law]:
        """A distribution cut in two: losses up to `most`, and larger ones."""
        inside = int(np.searchsorted(self.loss, most))
        near, far = slice(0, inside), slice(inside, None)
        return Law(self.loss[near], self.mass[near], self.count), Law(self.loss[far], self.mass[far], self.count)

    def log_moments(self, tilts: Array) -> Array:
        """log E e^{tL}, from every twelfth place."""
        sizes = np.exp(np.minimum(tilts[:, None] * self.loss[::12], 600.0))
        return np.asarray(self.count * np.log(sizes @ (12 * self.mass[::12])))


def rough(parts: Sequence[tuple[Nodes, int]], gaussian: float, log_delta: float, guess: float) -> float:
    """Epsilon near or below `guess` > 0; 0 where delta(0) seems to be below delta; the guess where numbers fail."""
    try:
        with np.errstate(all="ignore"):
            found = _searched([Law.of(nodes, count) for nodes, count in parts], gaussian, log_delta, guess)
    except (ArithmeticError, ValueError, IndexError):  # a lattice without a single loss on it, too
        return guess
    return found if 0 <= found < math.inf else guess


def _searched(laws: Sequence[Law], gaussian: float, log_delta: float, guess: float) -> float:
    """Repeat a rough lattice computation until its length fits its answer.

    Stops when the lattice is about as long as the epsilon found, when it is fine enough, or when two passes agree.
    """
    found = guess
    for _ in range(PASSES):
        least = _least(laws, gaussian, guess)
        held = [Law(np.maximum(law.loss, least), law.mass, law.count) for law in laws]
        before, found = found, _pass(held, gaussian, least, log_delta, guess)
        fine = log_delta > FAINT and FINE * (SPARE * guess - least) < found < guess
        same = LEAST * guess <= found <= 1.2 * guess or abs(found - before) <= SAME * found
        if fine or same or not found > 0:
            break
        guess = max(found, guess / SHRUNK)
    return found


def _least(laws: Sequence[Law], gaussian: float, guess: float) -> float:
    """A loss below all likely ones of a run without steps whose loss is beyond twice the guess."""
    mean, square = gaussian**2 / 2, gaussian**2
    for law in laws:
        loss = np.clip(law.loss, -2 * guess, 2 * guess)
        first = float(law.mass @ loss)
        mean += law.count * first
        square += law.count * (float(law.mass @ (loss * loss)) - first**2)
    lowest = -math.inf if gaussian else math.fsum(law.count * float(law.loss[0]) for law in laws)
    return max(mean - 9 * math.sqrt(max(square, 0.0)), lowest)


def _pass(laws: Sequence[Law], gaussian: float, least: float, log_delta: float, guess: float) -> float:
    width = (SPARE * guess - least) / POINTS
    firsts = [math.floor(float(law.loss[0]) / width) - 1 for law in laws]
    sides = [law.parted(width * (first + POINTS - 2)) for law, first in zip(laws, firsts, strict=True)]
    tilts = SHARES * (-log_delta / guess)
    logs = gaussian**2 / 2 * tilts * (tilts + 1) - tilts * (TILTED * guess)
    tilt = float(tilts[int(sum((near.log_moments(tilts) for near, _ in sides), logs).argmin())])
    u = (math.pi / (POINTS * width)) * np.arange(POINTS + 1)
    spectrum = np.exp((-1j * gaussian**2 * (tilt + 0.5)) * u - (gaussian * u) ** 2 / 2)
    log_m = gaussian**2 / 2 * tilt * (tilt + 1)
    for (near, _), first in zip(sides, firsts, strict=True):
        tilted = near.mass * np.exp(tilt * (near.loss - near.loss[-1]))
        total = float(tilted.sum())
        log_m += near.count * (math.log(total) + tilt * float(near.loss[-1]))
        spectrum *= _power(fft.rfft(_placed(near.loss / width - first, tilted / total), 2 * POINTS), near.count)
    low = math.floor(least / width) - MARGIN
    start = sum(law.count * first for law, first in zip(laws, firsts, strict=True)) - low
    losses = width * (low + np.arange(2 * POINTS, dtype=np.float64))
    density = np.roll(fft.irfft(spectrum, 2 * POINTS), start % (2 * POINTS))
    mass = np.where(np.abs(density) > NOISE, density, 0.0) * np.exp(np.minimum(log_m - tilt * losses, 600.0))
    far_p = _once([(float(far.mass.sum()), far.count) for _, far in sides])
    far_q = _once([(float(far.mass @ np.exp(-far.loss)), far.count) for _, far in sides])
    return _read(losses, mass, far_p, far_q, log_delta)


def _once(chances: Sequence[tuple[float, int]]) -> float:
    """The chance of what has these chances in so many steps each to happen at least once."""
    return -math.expm1(math.fsum(count * math.log1p(-min(chance, 0.999)) for chance, count in chances))


def _placed(place: Array, mass: Array) -> Array:
    """Masses on lattice points; places are in units of the width."""
    near = np.rint(place)
    index, off = near.astype(np.int64), place - near
    total = np.bincount(index, mass * (1 - off * off), POINTS).astype(np.float64)
    for side in (-1, 1):
        total += np.bincount(index + side, mass * (off * (off + side) / 2), POINTS)
    return total


def _power(base: Complex, count: int) -> Complex:
    """base^count by squaring."""
    total = np.ones_like(base)
    while count:
        if count & 1:
            total = total * base
        count >>= 1
        base = base * base
    return total


def _read(losses: Array, mass: Array, far_p: float, far_q: float, log_delta: float) -> float:
    """A little beyond the last point where delta is above the one in question."""
    first = int(np.searchsorted(losses, 0.0))
    losses, mass = losses[first:], mass[first:]
    p, q = (np.add.accumulate(side[::-1])[::-1] for side in (mass, mass * np.exp(-losses)))
    deltas = p + far_p - np.exp(losses) * (q + far_q)
    over = np.flatnonzero(deltas > math.exp(log_delta))
    if not over.size:
        return 0.0
    last = int(over[-1])
    if last + 1 == losses.size:
        return 2 * float(losses[-1])
    above, below = math.log(float(deltas[last])), math.log(max(float(deltas[last + 1]), 1e-300))
    return float(losses[last]) + float(losses[1] - losses[0]) * (above - log_delta) / (above - below)
