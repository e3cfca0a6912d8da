r"""Whole numbers distributed as a normal number rounded to the nearest whole one, without a floating-point step.

Floating-point noise has holes: which numbers x + noise can reach depends on x (Mironov 2012). Here every number comes
from 128 random bits compared with tables of whole-number thresholds, and sums of whole numbers are exact.

A normal number of variance v may be made of parts. With D(w) the discrete Gaussian of variance parameter w, of
probability proportional to e^{-j^2/2w} on the whole numbers, and Y = k J + X,

    J ~ D(w), X ~ N(0, u):       density of Y  =  that of N(0, u + k^2 w) times  \sum_j e^{-(j - c)^2/2t} / const
    J ~ D(w), X ~ D(u):          the same, on whole numbers,     t = u w/(u + k^2 w),  c = a multiple of y

and by Poisson's summation the last factor varies by at most 1 + 5 e^{-2 pi^2 t}, below 1 + 2^-130 for t >= 4.7.
Hence, to that factor, round(N(0, v)) = round(N(0, NARROW)) + D(v - NARROW), since round(x + j) = round(x) + j, and
D(v - NARROW) = D(u) + k D(w). Each of the three has a short table.

Guarantee: total distance from a rounded normal number below 2^-100 for each number drawn.
Reference: docs/proofs/training.md, Lemma 1; Canonne, Kamath and Steinke 2020 (the discrete Gaussian).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...core import BadInput, Source

BITS = 320
"""Precision of the tables' fixed-point arithmetic; thresholds keep 128."""
REACH = 14
"""Tables end this many standard deviations out; the probability beyond is less than 2^-140."""
NARROW = Fraction(9)
Whole = NDArray[np.int64]


class Rounded:
    """round(N(0, variance)), for a standard deviation of at least 32."""

    def __init__(self, variance: Fraction) -> None:
        if variance < 1024:
            raise BadInput("The grid is too coarse for its noise.")
        rest = variance - NARROW
        self.step = 1 << round(math.log2(float(rest) / 9) / 4)  # makes the two tables about equally long
        small = 9 * Fraction(self.step) ** 2
        self.tables = (
            _Table(_cells(NARROW)),
            _Table(_discrete(small)),
            _Table(_discrete((rest - small) / self.step**2)),
        )

    def __call__(self, count: int, source: Source) -> Whole:
        narrow, small, large = (table(count, source) for table in self.tables)
        return narrow + small + self.step * large


class _Table:
    """Whole numbers -m .. m with given weights, from 128 random bits each."""

    def __init__(self, half: list[int]) -> None:
        weights = half[:0:-1] + half
        total, seen, ends = sum(weights), 0, []
        for weight in weights[:-1]:
            seen += weight
            ends.append((seen << 128) // total)
        self.ends, self.first = ends, 1 - len(half)
        self.high = np.array([end >> 64 for end in ends], dtype=np.uint64)

    def __call__(self, count: int, source: Source) -> Whole:
        """Count the thresholds that are at most the random number; ties in the high words are broken by the low
        ones.
        """
        high, low = source.words(2 * count).reshape(2, count)
        place = np.searchsorted(self.high, high, side="right").astype(np.int64)
        tied = np.flatnonzero((place > 0) & (self.high[place - 1] == high))
        for row in tied:
            number = (int(high[row]) << 64) | int(low[row])
            while place[row] > 0 and self.ends[place[row] - 1] > number:
                place[row] -= 1
        return place + self.first


def _discrete(variance: Fraction) -> list[int]:
    """e^{-j^2/2v} for j = 0, 1, ... in fixed point, by e_{j+1} = e_j r_j, r_{j+1} = r_j s."""
    ratio, shrink = _exp(1 / (2 * variance)), _exp(1 / variance)
    weight, found = 1 << BITS, []
    for _ in range(REACH * (math.isqrt(math.ceil(variance)) + 1)):
        found.append(weight)
        weight = weight * ratio >> BITS
        ratio = ratio * shrink >> BITS
    return found


def _cells(variance: Fraction) -> list[int]:
    """Normal mass of [j - 1/2, j + 1/2] for j = 0, 1, ... times a constant, by differences of the error integral."""
    count = REACH * math.isqrt(math.ceil(variance))
    below = [_integral(Fraction(2 * j + 1, 2) ** 2 / variance, Fraction(2 * j + 1, 2)) for j in range(count)]
    return [2 * below[0], *(after - before for before, after in pairwise(below))]


def _integral(square: Fraction, x: Fraction) -> int:
    r"""\int_0^x e^{-y^2/2v} dy = x e^{-s/2} \sum_n s^n/(3 5 ... (2n + 1)), s = x^2/v, in fixed point."""
    term = total = (x.numerator << BITS) // x.denominator
    n = 1
    while term:
        term = term * square.numerator // (square.denominator * (2 * n + 1))
        total += term
        n += 1
    return total * _exp(square / 2) >> BITS


def _exp(x: Fraction) -> int:
    """e^{-x} for x >= 0 in fixed point: the series at x/2^h, squared h times, with bits to spare."""
    halvings = max(0, math.ceil(math.log2(max(float(x), 1e-9))) + 8)
    extra = BITS + 2 * halvings + 32
    part = (x.numerator << extra) // (x.denominator << halvings)
    term = total = 1 << extra
    n = 1
    while term:
        term = -(term * part >> extra) // n if term > 0 else (-term * part >> extra) // n
        total += term
        n += 1
    for _ in range(halvings):
        total = total * total >> extra
    return total >> (extra - BITS)
