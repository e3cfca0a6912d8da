r"""Exact random choices among candidates, by their distance below the best: x_i = (u_max - u_i)/scale >= 0.

    exponential      P(i) proportional to e^{-x_i}: a uniform candidate is kept with probability e^{-x_i}, else again
    permute and flip a candidate at random among those whose coin of probability e^{-x_i} shows heads
    Laplace          the largest u_i + scale X_i, X_i continuous Laplace, of which as many bits are drawn as needed

Reference: docs/proofs/sampling.md, Theorem 8; McKenna and Sheldon 2020; Ding et al. 2021 (permute and flip is report
noisy max with exponential noise).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Source
from ..core.arrays import Array
from .draws import _direct
from .exact import MARGIN, Bounds, Uniform, exp_bounds, exp_flips, flips, kept, uniform_below, weight_bounds
from .inputs import MOST, Floats, array_of, is_whole, numbers, wholes

BATCH, FEW = 1 << 16, 64
TIE = 2.0**-46


@dataclass(frozen=True)
class Distances:
    """How far every candidate is below the best one, in units of the noise: roughly, and exactly on demand."""

    values: Array
    """Finite floats, 64-bit whole numbers, Python's own whole numbers, or fractions."""
    scale: Fraction

    @classmethod
    def of(cls, utilities: object, scale: Fraction) -> Distances:
        """NaN counts as 0 and infinities as the largest numbers; whole numbers stay whole."""
        if is_whole(utilities):
            return cls(wholes(utilities).ravel(), scale)
        array = array_of(utilities).ravel()
        if array.dtype == object and all(type(item) is int for item in array.tolist()):
            return cls(array, scale)
        return cls(numbers(utilities).ravel(), scale)

    @property
    def rough(self) -> Floats:
        """x_i to a relative error of 2^-50."""
        with np.errstate(over="ignore"):
            if self.values.dtype == np.float64:
                below = np.minimum(self.values.max() - self.values, MOST)
            elif self.values.dtype == np.int64:  # differences of up to 2^63, which only unsigned words hold
                below = (self.values.max().astype(np.uint64) - self.values.astype(np.uint64)).astype(np.float64)
            else:
                below = _as_floats(self.values.max() - self.values)
            return np.asarray(np.minimum(below / float(self.scale), MOST))

    def exact(self, i: int) -> Fraction:
        """x_i as an exact fraction, made of Python's integers: numpy's would overflow."""
        best, own = (Fraction(item.item() if isinstance(item, np.generic) else item) for item in self._ends(i))
        return (best - own) / self.scale

    def _ends(self, i: int) -> tuple[Any, Any]:
        return self.values.max(), self.values[i]

    def place(self, i: int) -> Fraction:
        return -self.exact(i)


def by_weight(distances: Distances, source: Source, counts: NDArray[np.int64] | None = None) -> int:
    r"""A candidate with probability proportional to count_i e^{-x_i}, counts above 0; each is 1 if none are given."""
    rough = distances.rough
    if counts is None:
        chance = np.exp(-rough)
        best = None
    else:
        logs = np.log(counts) - rough
        best = int(np.argmax(logs))
        chance = np.exp(logs - logs[best]) / 2

    def bounds(i: int) -> Bounds:
        if best is None or counts is None:
            return lambda bits: exp_bounds(distances.exact(i), bits)
        weight = Fraction(int(counts[i]), 2 * int(counts[best]))
        return weight_bounds(weight, distances.exact(i) - distances.exact(best))

    tries = int(min(max(2 * chance.size / chance.sum(), 8), BATCH))
    while True:
        which = uniform_below(source, chance.size, tries)
        heads = flips(source, chance[which], _through(bounds, which)).nonzero()[0]
        if heads.size:
            return int(which[heads[0]])


def _through(bounds: Callable[[int], Bounds], which: NDArray[np.int64]) -> Callable[[int], Bounds]:
    return lambda i: bounds(int(which[i]))


def permuted(distances: Distances, source: Source) -> int:
    """Permute and flip: flips do not depend on the order, so the first head in it is a uniform one of all heads."""
    heads = np.flatnonzero(exp_flips(source, distances.rough, distances.exact))
    return int(heads[uniform_below(source, heads.size, 1)[0]])


def by_laplace(distances: Distances, source: Source) -> int:
    """The candidate with the largest score after adding continuous Laplace noise of scale 1, exactly."""
    rough = distances.rough
    whole, part, sign, longer = _exponentials(rough.size, source)
    fraction = part.astype(np.float64) * 2.0**-64
    place = sign * (whole + fraction) - rough
    slack = TIE * (whole + rough + 1)
    with np.errstate(over="ignore"):  # a score may be farther below than floats reach: it never wins
        close = (place + slack >= (place - slack).max()).nonzero()[0]
    if close.size == 1:
        return int(close[0])
    rivals = {int(i): longer.get(int(i), Uniform(int(part[i]), 64, source)) for i in close}
    while True:
        spans = {i: _span(distances.place(i), int(whole[i]), int(sign[i]), part) for i, part in rivals.items()}
        most = max(low for low, _ in spans.values())
        rivals = {i: part for i, part in rivals.items() if spans[i][1] >= most}
        if len(rivals) == 1:
            return next(iter(rivals))
        for number in rivals.values():
            number.extend()


def _span(place: Fraction, whole: int, sign: int, part: Uniform) -> tuple[Fraction, Fraction]:
    ends = [place + sign * (whole + end) for end in part.span]
    return min(ends), max(ends)


Exponentials = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64], dict[int, Uniform]]


def _exponentials(count: int, source: Source) -> Exponentials:
    """Exponential numbers k + f with fair signs: k geometric, f real with density proportional to e^{-f} on [0, 1).

    f is the first of several uniform numbers that is kept with probability e^{-f}; of few numbers, eight at a time are
    looked at. Of f the first 64 bits are returned; where a decision took more of them, that number itself.
    """
    whole, sign = _direct(Fraction(1), count, source)
    part, longer, open_ = np.zeros(count, np.uint64), dict[int, Uniform](), np.arange(count)
    while open_.size:
        words, marks = source.words(2 * open_.size * (tries := 8 if count <= FEW else 1)).reshape(2, -1, tries)
        chance = np.exp(words * -(2.0**-64))
        uniform = marks * 2.0**-64
        heads, decided = uniform < chance, dict[tuple[int, int], Uniform]()
        for j, k in zip(*(where.tolist() for where in (np.abs(uniform - chance) <= MARGIN).nonzero()), strict=True):
            decided[j, k] = Uniform(int(words[j, k]), 64, source)
            heads[j, k] = kept(decided[j, k], Uniform(int(marks[j, k]), 64, source), lambda f: f)
        first = heads.argmax(1)
        found = heads[np.arange(first.size), first]
        done = found.nonzero()[0]
        part[open_[done]] = words[done, first[done]]
        longer |= {int(open_[j]): number for (j, k), number in decided.items() if found[j] and first[j] == k}
        open_ = open_[~found]
    return whole, part, sign, longer


def _as_floats(values: NDArray[np.generic]) -> Floats:
    return np.array([min(float(min(item, 1 << 1023)), MOST) for item in values.tolist()])
