r"""Exact coin flips: floating point proposes, whole numbers decide.

A coin of probability p is U < p for a uniform real number U, of which 64 random bits are drawn first. Floating point
knows p up to a relative error far below MARGIN; where U is farther from p than that, the outcome is certain. In the
rare other case more bits of U are drawn and compared with whole-number bounds of p, as many as it takes. So the outcome
has probability p exactly: nothing is truncated, and the total variation distance is 0.

Relies on: numpy's exp and log within a relative error of 2^-44 (they keep 2^-50), and a uniform source of words.
Reference: docs/proofs/sampling.md, Lemmas 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core import Source

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Bounds = Callable[[int], tuple[int, int]]
"""bits -> whole numbers lower <= 2^bits p <= upper that come together as bits grow."""

MARGIN = 2.0**-36
"""How far, relative to itself, a probability in floating point may be off before whole numbers are asked."""


class Uniform:
    """A uniform real number in [0, 1), of which more bits are drawn when they are needed."""

    def __init__(self, word: int, bits: int, source: Source) -> None:
        self.word, self.bits, self._source = word, bits, source

    def extend(self) -> None:
        """Draw 64 more bits."""
        self.word = (self.word << 64) | int(self._source.words(1)[0])
        self.bits += 64

    def below(self, bounds: Bounds) -> bool:
        """Whether this number is below the p of these bounds."""
        while True:
            lower, upper = bounds(self.bits)
            if self.word + 1 <= lower:
                return True
            if self.word >= upper:
                return False
            self.extend()

    @property
    def span(self) -> tuple[Fraction, Fraction]:
        """The interval that this number is known to be in."""
        return Fraction(self.word, 1 << self.bits), Fraction(self.word + 1, 1 << self.bits)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    r"""Whole numbers lower <= 2^bits e^{-x} <= upper for x >= 0, at most 3 apart.

    e^{-x} = (e^{-x/2^h})^{2^h}: the series at x/2^h <= 2^-8, then h squarings, in fixed point, h + 40 bits to spare.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:
        return 0, 1
    halvings = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1) + 8
    extra = bits + halvings + 40
    part = (x.numerator << extra) // (x.denominator << halvings)
    term = total = 1 << extra
    n = 1
    while term:
        term = (term * part >> extra) // n
        total += -term if n % 2 else term
        n += 1
    for _ in range(halvings):
        total = total * total >> extra
    found = total >> (extra - bits)
    return max(found - 1, 0), found + 2


def weight_bounds(weight: Fraction, x: Fraction) -> Bounds:
    """Bounds of weight e^{-x}, for weight >= 0 and x of either sign."""

    def bounds(bits: int) -> tuple[int, int]:
        more = bits + 8
        if x >= 0:
            more += max(weight.numerator.bit_length() - weight.denominator.bit_length(), 0)
            low, high = (Fraction(end, 1 << more) * weight for end in exp_bounds(x, more))
        else:
            more += 2 * (-x.numerator // x.denominator + 2)
            above, below = exp_bounds(-x, more)
            low, high = weight * Fraction(1 << more, below), weight * Fraction(1 << more, max(above, 1))
        return int(low * (1 << bits)), -int(-high * (1 << bits) // 1)

    return bounds


def kept(part: Uniform, mark: Uniform, exponent: Callable[[Fraction], Fraction]) -> bool:
    """Whether `mark` is below e^{-exponent(part)}, for an exponent that is at least 0 and rises with `part`."""
    while True:
        near, far = (exponent(end) for end in part.span)
        if mark.word + 1 <= exp_bounds(far, mark.bits)[0]:
            return True
        if mark.word >= exp_bounds(near, mark.bits)[1]:
            return False
        part.extend()
        mark.extend()


def flips(source: Source, chance: Floats, bounds: Callable[[int], Bounds]) -> Flags:
    """Independent coins with probability `chance[i]`, decided by `bounds(i)` where floating point cannot tell."""
    words = source.words(chance.size)
    uniform = words.astype(np.float64) * 2.0**-64
    slack = chance * MARGIN + 2.0**-60
    heads = uniform < chance
    for i in (np.abs(uniform - chance) <= slack).nonzero()[0].tolist():
        heads[i] = Uniform(int(words[i]), 64, source).below(bounds(i))
    return np.asarray(heads)


def exp_flips(source: Source, x: Floats, exact: Callable[[int], Fraction]) -> Flags:
    """Coins of probability e^{-x[i]}, x >= 0; `exact(i)` is x[i] as the fraction that it stands for.

    The numbers x may be off by a relative error of 2^-44 and, above that, by 2^-38 where x is at most 64.
    """
    return flips(source, np.exp(-x), lambda i: lambda bits: exp_bounds(exact(i), bits))


def uniform_below(source: Source, high: int, count: int) -> NDArray[np.int64]:
    """Whole numbers uniform on 0 .. high - 1, high <= 2^63: words beyond the last whole multiple are drawn anew."""
    last = (1 << 64) // high * high
    words = source.words(count)
    while last < 1 << 64 and (again := (words >= np.uint64(last)).nonzero()[0]).size:
        words = words.copy()
        words[again] = source.words(again.size)
    return np.asarray((words % np.uint64(high)).astype(np.int64))
