"""Tables of rounded normal numbers against mpmath, and their sum against the normal distribution, digit by digit."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacit.core import BadInput, Source
from tacit.train.noise.keys import Keystream
from tacit.train.noise.rounded import BITS, NARROW, Rounded, _cells, _discrete, _exp, _Table

mpmath.mp.prec = 500


def real(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / number.denominator


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 10**9), Fraction(1, 3), Fraction(2), Fraction(98)])
def test_the_exponential_is_right_to_the_last_bits(x: Fraction) -> None:
    assert abs(mpmath.mpf(_exp(x)) / 2**BITS - mpmath.exp(-real(x))) < mpmath.mpf(2) ** -(BITS - 4)


def test_cells_hold_the_normal_mass_between_half_numbers() -> None:
    cells = _cells(NARROW)
    total, scale = 2 * sum(cells) - cells[0], mpmath.sqrt(real(NARROW))
    for j, cell in enumerate(cells):
        ends = [mpmath.ncdf((j + half) / scale) for half in (mpmath.mpf(-1) / 2, mpmath.mpf(1) / 2)]
        assert abs(mpmath.mpf(cell) / total - (ends[1] - ends[0])) < mpmath.mpf(2) ** -140


def test_the_discrete_gaussian_is_right_far_out() -> None:
    variance = Fraction(12345, 7)
    weights = _discrete(variance)
    for j in (0, 1, 50, 300, len(weights) - 1):
        exact = mpmath.exp(-(mpmath.mpf(j) ** 2) / (2 * real(variance)))
        assert abs(mpmath.mpf(weights[j]) / 2**BITS - exact) < mpmath.mpf(2) ** -(BITS - 30)
    assert weights[-1] < 2 ** (BITS - 138)


@pytest.mark.parametrize("variance", [Fraction(1024), Fraction(5000), Fraction(98765, 3)])
def test_the_parts_add_up_to_one_rounded_normal_number(variance: Fraction) -> None:
    """P(sum = y) from the tables' own weights, exactly, against the normal mass of [y - 1/2, y + 1/2]."""
    made = Rounded(variance)
    rest = variance - NARROW
    small = 9 * made.step**2
    halves = [_cells(NARROW), _discrete(Fraction(small)), _discrete((rest - small) / made.step**2)]
    first, second, third = ([*half[:0:-1], *half] for half in halves)
    scale = mpmath.sqrt(real(variance))

    def mass(y: int) -> mpmath.mpf:
        found = 0
        for place, top in enumerate(third, start=1 - len(halves[2])):
            left = y - made.step * place
            for near, cell in enumerate(first, start=1 - len(halves[0])):
                if abs(left - near) < len(halves[1]):
                    found += top * cell * second[left - near + len(halves[1]) - 1]
        return mpmath.mpf(found) / (mpmath.mpf(sum(first)) * sum(second) * sum(third))

    for y in (0, 1, 17, int(3 * scale)):
        cell = mpmath.ncdf((y + mpmath.mpf(1) / 2) / scale) - mpmath.ncdf((y - mpmath.mpf(1) / 2) / scale)
        assert abs(mass(y) / cell - 1) < mpmath.mpf(2) ** -110


class Words(Source):
    name, cryptographic = "given", False

    def __init__(self, *words: int) -> None:
        self.given = list(words)

    def words(self, count: int) -> np.ndarray:
        found, self.given = self.given[:count], self.given[count:]
        return np.array(found, dtype=np.uint64)

    def spawn(self, count: int) -> list[Source]:
        raise NotImplementedError


def test_equal_high_words_are_told_apart_by_the_low_ones() -> None:
    """Weights 1, 2, 1: thresholds at a quarter and three quarters of 2^128."""
    table = _Table([2, 1])
    quarter = 1 << 62
    high, low = [0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter], [0, 2**64 - 1, 0, 5, 0]
    assert table(5, Words(*high, *low)).tolist() == [-1, -1, 0, 0, 1]
    third = _Table([1, 1])  # thresholds 2^128 // 3 and 2^129 // 3, whose low words are not zero
    end = 2**128 // 3
    words = [end >> 64, end >> 64, end & (2**64 - 1), (end & (2**64 - 1)) - 1]
    assert third(2, Words(*words)).tolist() == [0, -1]


@pytest.mark.parametrize("variance", [Fraction(1024), Fraction(2) ** 40])
def test_draws_follow_the_normal_distribution(variance: Fraction) -> None:
    """Fixed seed, errs with probability below 1e-6; wrong scales by 2 % are caught."""
    values = Rounded(variance)(200_000, Keystream(bytes(32)))
    scale = float(variance) ** 0.5
    edges = np.rint(scale * stats.norm.ppf(np.arange(1, 64) / 64)) + 0.5

    def fits(sd: float) -> bool:
        found = np.diff(np.searchsorted(np.sort(values), edges), prepend=0, append=len(values))
        found[-1] = len(values) - np.searchsorted(np.sort(values), edges[-1])
        masses = np.diff(stats.norm.cdf(edges / sd), prepend=0, append=1)
        return bool(stats.chisquare(found, masses * len(values)).pvalue > 1e-6)

    assert fits(scale)
    assert not fits(0.98 * scale)
    assert not fits(1.02 * scale)


def test_a_coarse_grid_is_refused() -> None:
    with pytest.raises(BadInput, match="too coarse"):
        Rounded(Fraction(100))
