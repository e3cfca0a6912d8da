"""Truncated Poisson sampling against all subsets and all cuts, one by one."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import special

from tacit.core.events import Gaussian, Poisson, Repeat, TruncatedPoisson
from tacit.loss import privacy_loss
from tacit.loss.binomial import at_least, at_most
from tacit.loss.truncated import cut, kept

GRID = np.linspace(-40.0, 40.0, 8_001)
EPSILONS = (0.0, 1.0)


def output(records, rate, cap, noise):
    """The exact density of a noisy sum over a truncated Poisson sample; None is a record that is not there."""
    records = [record for record in records if record is not None]
    weights = {}
    for drawn in itertools.product((0, 1), repeat=len(records)):
        chosen = [record for record, inside in zip(records, drawn, strict=True) if inside]
        chance = math.prod(rate if inside else 1 - rate for inside in drawn)
        batches = list(itertools.combinations(chosen, min(cap, len(chosen))))
        for batch in batches:
            weights[sum(batch)] = weights.get(sum(batch), 0.0) + chance / len(batches)
    density = sum(w * np.exp(-((GRID - place) ** 2) / (2 * noise**2)) for place, w in weights.items())
    return density / (noise * math.sqrt(2 * math.pi)) * (GRID[1] - GRID[0])


NEIGHBOURS = {
    "add-remove": [((1,), (None,)), ((-1,), (None,))],
    "zero-out": [((1,), (0,)), ((-1,), (0,))],
    "replace": [((1,), (-1,)), ((1,), (0,))],
}


@pytest.mark.parametrize("adjacency", NEIGHBOURS)
@pytest.mark.parametrize(("rate", "cap", "noise"), [(0.5, 2, 0.7), pytest.param(0.3, 1, 1.0, marks=pytest.mark.slow)])
def test_no_data_exceeds_the_bound(adjacency, rate, cap, noise):
    found = privacy_loss(TruncatedPoisson(rate, cap, Gaussian(noise), 5), adjacency)
    bounds = [found.delta(epsilon) for epsilon in EPSILONS]
    worst = np.zeros(len(EPSILONS))
    for others in itertools.combinations_with_replacement((-1, 0, 1), 4):
        for here, there in NEIGHBOURS[adjacency]:
            p, q = (output((*others, *one), rate, cap, noise) for one in (here, there))
            for place, epsilon in enumerate(EPSILONS):
                sides = [np.maximum(a - math.exp(epsilon) * b, 0.0).sum() for a, b in ((p, q), (q, p))]
                worst[place] = max(worst[place], *sides)
    assert all(value <= bound.upper + 1e-5 for value, bound in zip(worst, bounds, strict=True))
    assert all(value >= bound.lower - 1e-5 for value, bound in zip(worst, bounds, strict=True))


def test_a_cut_costs_more_than_poisson():
    """All others contribute -1: the record exchanges one of them, which Poisson accounting does not know."""
    p, q = (output((-1, -1, -1, -1, one), 0.5, 1, 0.5) for one in (1, None))
    seen = np.maximum(p - math.exp(6) * q, 0.0).sum()
    assert seen > 3 * privacy_loss(Poisson(0.5, Gaussian(0.5)), "add-remove").delta(6.0).upper
    assert seen <= privacy_loss(TruncatedPoisson(0.5, 1, Gaussian(0.5), 5), "add-remove").delta(6.0).upper + 1e-5


def test_the_chances():
    event, size = TruncatedPoisson(0.3, 2, Gaussian(1.0), 6), 6
    law = [math.comb(size - 1, m) * 0.3**m * 0.7 ** (size - 1 - m) for m in range(size)]
    stays = 0.3 * sum(chance * (1 if m < 2 else 2 / (m + 1)) for m, chance in enumerate(law))
    assert kept(event, size) == pytest.approx(stays)
    assert cut(event, size) >= sum(law[2:])


def exact_tail(k, n, p):
    """P(Bin(n, p) >= k) with 50 digits, by the ratios of its terms from the side where they fall."""
    with mpmath.workdps(50):
        p = mpmath.mpf(p)
        up = k > n * p
        j = k if up else k - 1
        term = mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j)
        total = term
        while term > total * mpmath.mpf(10) ** -40 and 0 < j < n:
            term *= (n - j) / (j + 1) * p / (1 - p) if up else j / (n - j + 1) * (1 - p) / p
            j += 1 if up else -1
            total += term
        return total if up else 1 - total


SIZES = [
    (2920623, 6503533, 0.44905744169520084),  # 5e-6 off by scipy.special.bdtrc
    (494158, 5386922, 0.09174295460252445),
    (9470049, 9649704, 0.9809516732262011),
    (20303090, 20304280, 0.9999372536732092),
    (120, 1000, 1e-3), (1, 5, 1e-12), (5, 5, 0.999), (3, 10**6, 1e-6), (40, 100, 0.9),
]  # fmt: skip


@pytest.mark.parametrize(("k", "n", "p"), SIZES)
def test_both_ends_of_a_tail_hold_the_exact_one(k, n, p):
    truth = exact_tail(k, n, p)
    for (low, high), exact in ((at_least(k, n, p), truth), (at_most(k - 1, n, p), 1 - truth)):
        assert low <= exact <= high
        assert float(high - low) <= 1e-8 * high


def test_a_library_s_tail_would_have_been_too_small():
    k, n, p = SIZES[0]
    assert special.bdtrc(k - 1, n, p) * (1 + 1e-6) < exact_tail(k, n, p) <= at_least(k, n, p)[1]


def test_tails_of_odd_numbers():
    assert at_least(0, 5, 0.5) == at_most(5, 5, 0.5) == (1.0, 1.0)
    assert at_least(6, 5, 0.5) == at_most(-1, 5, 0.5) == (0.0, 0.0)
    low, high = at_least(1, 3, 1e-310)
    assert low <= 3e-310 <= high < 1e-299
    assert at_most(0, 3, 1e-310)[0] > 1 - 1e-15
    assert at_least(10**14 // 2 + 10**7, 10**14, 0.5)[1] < 1.0


def test_a_cap_that_never_cuts_is_poisson():
    plain = privacy_loss(Repeat(Poisson(0.1, Gaussian(1.0)), 20), "add-remove").epsilon(1e-5)
    assert privacy_loss(Repeat(TruncatedPoisson(0.1, 300, Gaussian(1.0), 300), 20), "add-remove").epsilon(1e-5) == plain
    rare = privacy_loss(Repeat(TruncatedPoisson(0.1, 120, Gaussian(1.0), 300), 20), "add-remove").epsilon(1e-5)
    assert plain.upper == pytest.approx(rare.upper, rel=2e-3)
    assert rare.lower <= plain.upper
