"""Exact draws against arithmetic of 200 digits: at the very words where floating point cannot tell."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from mechanism_exactly import Scripted
from tacit.core import source
from tacit.mechanism import draws, exact


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(200):
        yield


def exp(x):
    return mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)


XS = [
    Fraction(1, 3),
    Fraction(1),
    Fraction(7, 5),
    Fraction(40),
    Fraction(1, 10**12),
    Fraction(123456789, 1000),
    Fraction(0.1),
]


@pytest.mark.parametrize("x", XS)
@pytest.mark.parametrize("bits", [16, 64, 128, 512])
def test_bounds_of_the_exponential_hold_and_are_narrow(x, bits):
    low, high = exact.exp_bounds(x, bits)
    assert low <= exp(x) * mpmath.mpf(2) ** bits <= high
    assert high - low <= 3


@pytest.mark.parametrize("x", [Fraction(3, 2), Fraction(-3, 2), Fraction(-30), Fraction(0), Fraction(25)])
@pytest.mark.parametrize("weight", [Fraction(1), Fraction(2, 7), Fraction(10**6, 3)])
def test_bounds_of_a_weight_hold_and_are_narrow(x, weight):
    low, high = exact.weight_bounds(weight, x)(80)
    true = mpmath.mpf(weight.numerator) / weight.denominator * mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
    assert low <= true * mpmath.mpf(2) ** 80 <= high
    assert high - low <= 2 + 2**-60 * high


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(1), Fraction(7, 5), Fraction(20)])
def test_a_coin_is_decided_right_next_to_its_probability(x):
    """Words at the boundary and 2^-36 around it: all that floating point leaves open, and just beyond."""
    edge = int(exp(x) * 2**64)
    offsets = [0, 1, -1, 2, -2, 1000, -1000, edge >> 36, -(edge >> 36), edge >> 35, -(edge >> 35), 2**5, -(2**5)]
    for offset in offsets:
        word, tail = edge + offset, 2**63 + 12345
        found = exact.exp_flips(Scripted([word, tail]), np.array([float(x)]), lambda _: x)[0]
        true = mpmath.mpf((word << 64) + tail) / mpmath.mpf(2) ** 128 < exp(x)
        assert found == true, offset


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(10), Fraction(1000, 3), Fraction(2**20)])
def test_geometric_numbers_are_right_next_to_every_threshold(scale):
    """floor(-b log U) changes at U = e^{-k/b}: the words around it, with all bits that follow."""
    for k in (1, 2, 5, int(3 * scale) + 1):
        edge = int(exp(k / scale) * 2**63)
        for offset in (-3, -1, 0, 1, 3, edge >> 40, -(edge >> 40)):
            word, tail = edge + offset, 2**62 + 99
            found = draws._direct(scale, 1, Scripted([(word << 1) | 1, tail]))
            u = mpmath.mpf((word << 64) + tail) / mpmath.mpf(2) ** 127
            assert found[0][0] == int(mpmath.floor(-mpmath.mpf(scale.numerator) / scale.denominator * mpmath.log(u)))
            assert found[1][0] == -1


def test_words_that_are_all_zeros_reach_the_tail():
    """A uniform number of 63 zero bits, then more: the tail is not cut."""
    found, _ = draws._direct(Fraction(10), 1, Scripted([0, 0, 2**63]))
    assert found[0] == int(mpmath.floor(-10 * mpmath.log(mpmath.mpf(2) ** -128)))


def test_a_rounded_normal_number_is_right_next_to_a_half():
    """Six tries at once: k = 0 and a plus from the word 2^63, then a fraction f with s f = 1/2 up to the last bits."""
    s = Fraction(1000)
    for offset in (-2, -1, 0, 1, 2):
        part = (2**64 * 5) // 10000 + offset
        tail = 7
        found = draws.rounded_normal(s, 1, Scripted([2**63] * 6 + [part] * 6 + [0] * 6 + [tail]))
        true = int(mpmath.floor(1000 * mpmath.mpf((part << 64) + tail) / mpmath.mpf(2) ** 128 + mpmath.mpf(1) / 2))
        assert found[0] == true


@pytest.mark.parametrize("off", [2.0**-44, -(2.0**-44)])
def test_draws_do_not_depend_on_the_last_digits_of_the_library(monkeypatch, off):
    """An exp and a log that are off by 2^-44, relatively, give the same numbers, bit for bit."""

    def drawn():
        chance = source(5)
        return [
            draws.discrete_laplace(Fraction(1000), 20_000, chance).tobytes(),
            draws.discrete_laplace(Fraction(2**30), 5000, chance).tobytes(),
            draws.discrete_gaussian(Fraction(300**2), 20_000, chance).tobytes(),
            draws.rounded_normal(Fraction(5000), 20_000, chance).tobytes(),
        ]

    plain = drawn()
    true_exp, true_log = np.exp, np.log
    monkeypatch.setattr(np, "exp", lambda x: true_exp(x) * (1 + off))
    monkeypatch.setattr(np, "log", lambda x: true_log(x) * (1 + off))
    assert drawn() == plain


def test_the_library_keeps_what_is_relied_on():
    """numpy's exp and log against 200 digits, on numbers of all sizes."""
    rng = np.random.default_rng(1)
    xs = np.concatenate((rng.uniform(0, 60, 300), rng.uniform(0, 1e-3, 100)))
    us = np.concatenate((rng.uniform(0, 1, 300), 2.0 ** -rng.uniform(0, 63, 100)))
    for x, found in zip(xs.tolist(), np.exp(-xs).tolist(), strict=True):
        assert abs(mpmath.mpf(found) / mpmath.exp(-mpmath.mpf(x)) - 1) < 2.0**-50
    for u, found in zip(us.tolist(), np.log(us).tolist(), strict=True):
        assert abs(mpmath.mpf(found) - mpmath.log(mpmath.mpf(u))) < 2.0**-50 * max(1, abs(found))


def test_uniform_numbers_have_no_bias_of_a_remainder():
    """3 divides 2^64 with remainder 1: the last word is drawn anew."""
    assert exact.uniform_below(Scripted([2**64 - 1, 5]), 3, 1)[0] == 2
    assert exact.uniform_below(Scripted([2**64 - 2]), 3, 1)[0] == (2**64 - 2) % 3
    big = 2**63 - 25
    assert exact.uniform_below(Scripted([2 * big + 1, 7]), big, 1)[0] == 7
