r"""Exact draws of noise on the whole numbers, many at once.

    discrete Laplace of scale b     P(k) proportional to e^{-|k|/b}
    discrete Gaussian of variance v P(k) proportional to e^{-k^2/2v}
    rounded normal of deviation s   round(N(0, s^2)): the normal mass of [k - 1/2, k + 1/2]

A geometric number of ratio e^{-1/b} is floor(-b log U); a discrete Laplace one is such a number with a sign, and -0 is
drawn anew. The discrete Gaussian keeps discrete Laplace numbers with the right probability (Canonne, Kamath and Steinke
2020, Algorithm 3). A half-normal number x = k + f is made of a geometric k and a uniform f, kept with probability
e^{-(x^2/2 - k + 1/2)}. Every comparison is exact (`exact.py`), so every distribution is, with distance 0.
Reference: docs/proofs/sampling.md, Theorems 3 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Source
from .exact import MARGIN, Uniform, exp_bounds, exp_flips, kept

Whole = NDArray[np.int64]
Signed = tuple[Whole, Whole]
DIRECT = 2**20
"""Largest scale whose geometric numbers come from one logarithm."""
LARGEST = 2.0**46
"""Largest scale: draws stay below 2^53, where floating point holds every whole number."""
CHUNK = 1 << 15
"""Draws at a time: what they need stays in the cache."""
HALF = Fraction(1, 2)


def discrete_laplace(scale: Fraction, count: int, source: Source) -> Whole:
    """Independent numbers with P(k) proportional to e^{-|k|/scale}."""
    check_scale(scale)
    nothing = min(1 / float(scale), 700.0)
    keep = 1 - 0.5 * -math.expm1(-nothing)  # what is not -0
    draw = _direct if scale <= DIRECT else _split
    return _filled(count, keep, lambda size: _two_sided(*draw(scale, size, source)))


def discrete_gaussian(variance: Fraction, count: int, source: Source) -> Whole:
    """Independent numbers with P(k) proportional to e^{-k^2/(2 variance)}."""
    check_scale(math.sqrt(variance))
    t = math.isqrt(int(variance)) + 1
    deviation, middle = math.sqrt(variance), float(variance / t)

    def accepted(size: int) -> Whole:
        found = discrete_laplace(Fraction(t), size, source)
        x = ((np.abs(found) - middle) / deviation) ** 2 / 2

        def exact(i: int) -> Fraction:
            return (abs(int(found[i])) - variance / t) ** 2 / (2 * variance)

        return found[exp_flips(source, x, exact)]

    return _filled(count, 0.7 if variance > 1 else 0.4, accepted)


def rounded_normal(deviation: Fraction, count: int, source: Source) -> Whole:
    """Independent numbers distributed as round(N(0, deviation^2))."""
    check_scale(deviation)
    scale = float(deviation)

    def accepted(size: int) -> Whole:
        k, sign = _direct(Fraction(1), size, source)
        parts, marks = source.words(2 * size).reshape(2, size)
        x = k + parts.astype(np.float64) * 2.0**-64
        chance = np.exp(k - x * x / 2 - 0.5)
        uniform = marks.astype(np.float64) * 2.0**-64
        heads = uniform < chance
        y = scale * x + 0.5
        found = np.floor(y)
        slack = (y + 1) * 2.0**-48
        unclear = (np.abs(uniform - chance) <= chance * MARGIN + 2.0**-60) | (heads & (np.abs(y - np.rint(y)) <= slack))
        found = found.astype(np.int64)
        for i in np.flatnonzero(unclear).tolist():
            number = Uniform(int(parts[i]), 64, source)
            mark = Uniform(int(marks[i]), 64, source)
            heads[i] = kept(number, mark, partial(_exponent, int(k[i])))
            found[i] = _rounded(deviation, int(k[i]), number) if heads[i] else 0
        return np.asarray((found * sign)[heads])

    return _filled(count, 0.45, accepted)


def _exponent(k: int, part: Fraction) -> Fraction:
    """x^2/2 - k + 1/2, x = k + part: at least 0, since x^2/2 - x + 1/2 is a square over 2."""
    return (k + part) ** 2 / 2 - k + HALF


def _rounded(deviation: Fraction, k: int, part: Uniform) -> int:
    """floor(deviation (k + part) + 1/2)."""
    while True:
        low, high = (math.floor(deviation * (k + end) + HALF) for end in part.span)
        if low == high:
            return low
        part.extend()


def _direct(scale: Fraction, size: int, source: Source) -> Signed:
    """Geometric numbers floor(-b log U) of ratio e^{-1/b}, and fair signs: one word for both."""
    words = source.words(size)
    sign = 1 - 2 * (words & np.uint64(1)).astype(np.int64)
    words = words >> np.uint64(1)
    b = float(scale)
    x = -b * np.log((words.astype(np.float64) + 0.5) * 2.0**-63)
    found = np.floor(x)
    off, slack = x - found, b * 2.0**-41
    unclear = (off < slack) | (off > 1 - slack) | (words < np.uint64(1 << 44))
    found = found.astype(np.int64)
    for i in unclear.nonzero()[0].tolist():
        found[i] = _geometric(scale, int(found[i]), Uniform(int(words[i]), 63, source))
    return found, sign


def _geometric(scale: Fraction, near: int, uniform: Uniform) -> int:
    """floor(-b log U): the largest k with U < e^{-k/b}, looked for around `near`."""

    def reached(k: int) -> bool:
        return k <= 0 or uniform.below(lambda bits: exp_bounds(k / scale, bits))

    while not reached(near):
        near -= 1
    while reached(near + 1):
        near += 1
    return near


def _split(scale: Fraction, size: int, source: Source) -> Signed:
    """Geometric numbers t Q + R of a large scale b: Q of ratio e^{-t/b}, and R on 0 .. t - 1 of weight e^{-R/b}."""
    bits = int(scale).bit_length() - 11
    high, sign = _direct(scale / (1 << bits), size, source)
    b = float(scale)

    def accepted(count: int) -> Whole:
        low = (source.words(count) >> np.uint64(64 - bits)).astype(np.int64)
        return low[exp_flips(source, low / b, lambda i: int(low[i]) / scale)]

    return (high << bits) + _filled(size, 0.999, accepted), sign


def _two_sided(size: Whole, sign: Whole) -> Whole:
    return np.asarray((size * sign)[(size > 0) | (sign > 0)])


def _filled(count: int, rate: float, accepted: Callable[[int], Whole]) -> Whole:
    """`count` accepted draws, where about `rate` of the draws are accepted."""
    parts, missing = [], count
    while missing > 0:
        size = min(CHUNK, int(missing / rate * 1.02) + 4)
        found = accepted(size)[:missing]
        parts.append(found)
        missing -= found.size
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def check_scale(*scales: Fraction | float) -> None:
    """Refuse noise that is too wide to be drawn: to be called before the charge, so that nothing is paid for it."""
    for scale in scales:
        if not 0 < scale <= LARGEST:
            raise BadInput(
                f"The noise would have to span {float(scale):.3g} steps of its grid; at most 2^46 are drawn here.",
                fix="Give a larger epsilon.",
            )
