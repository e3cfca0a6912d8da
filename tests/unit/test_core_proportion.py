"""Clopper and Pearson limits, worked by hand and held to their law."""

import numpy as np
import pytest
from scipy import stats

from tacit.core import BadInput, clopper_pearson, fewer_limits, lower_proportion, upper_proportion


def test_no_success_has_the_closed_form():
    # P[Bin(n, p) = 0] = (1 - p)^n = 0.05 at the limit
    assert upper_proportion(0, 100, 0.95) == pytest.approx(1 - 0.05 ** (1 / 100))
    assert lower_proportion(0, 100, 0.95) == 0.0


def test_only_successes_mirror_none():
    assert lower_proportion(100, 100, 0.95) == pytest.approx(0.05 ** (1 / 100))
    assert upper_proportion(100, 100, 0.95) == 1.0


def test_limits_are_where_the_binomial_tail_has_the_error():
    k, n = np.array([1, 7, 40]), 50
    low, high = lower_proportion(k, n, 0.99), upper_proportion(k, n, 0.99)
    np.testing.assert_allclose(stats.binom.sf(k - 1, n, low), 0.01, rtol=1e-8)
    np.testing.assert_allclose(stats.binom.cdf(k, n, high), 0.01, rtol=1e-8)


def test_two_sided_halves_the_error():
    low, high = clopper_pearson(7, 50, 0.95)
    assert low == lower_proportion(7, 50, 0.975)
    assert high == upper_proportion(7, 50, 0.975)


@pytest.mark.parametrize("p", [0.001, 0.03, 0.5, 0.97])
def test_coverage_is_exact_arithmetic_not_a_simulation(p):
    """Sum the binomial weights of the counts whose limit misses p: at most the error, for every p."""
    n = 60
    k = np.arange(n + 1)
    weight = stats.binom.pmf(k, n, p)
    assert weight[lower_proportion(k, n, 0.95) > p].sum() <= 0.05 + 1e-12
    assert weight[upper_proportion(k, n, 0.95) < p].sum() <= 0.05 + 1e-12


def test_confidence_is_checked():
    with pytest.raises(BadInput):
        lower_proportion(1, 2, 1.5)


def shared(records, missed, copies):
    """Effective rows of `records`, each there `copies` times, of which `missed` are never found."""
    n, fewer = records * copies, 1.6 * copies
    return n - missed * copies, n, fewer


@pytest.mark.parametrize("records", [2, 3, 5, 10, 20])
def test_limits_of_rows_that_count_fewer_hold_on_both_sides(records):
    """One record is missed: rates above the limit have such a sample at most one time in 40; the mirror image too."""
    hits, n, fewer = shared(records, 1, 8)
    low, high = fewer_limits(hits, hits, n, fewer, 0.975)
    assert 1 - float(high) ** records <= 0.025
    mirrored = fewer_limits(n - hits, n - hits, n, fewer, 0.975)
    assert float(mirrored[0]) == pytest.approx(1 - float(high), abs=1e-15)
    assert float(mirrored[1]) == pytest.approx(1 - float(low), abs=1e-15)


def test_mutant_with_fractions_of_failures_is_too_short():
    """What was done before: the fraction of a failure counted as a whole one."""
    hits, n, fewer = shared(5, 1, 8)
    assert 1 - float(upper_proportion(hits / fewer, n / fewer, 0.975)) ** 5 > 0.025


def test_independent_rows_have_the_limits_of_clopper_and_pearson():
    k = np.arange(31)
    low, high = fewer_limits(k, k, 30, 1.0, 0.975)
    np.testing.assert_array_equal(low, lower_proportion(k, 30, 0.975))
    np.testing.assert_allclose(high, upper_proportion(k, 30, 0.975), rtol=1e-12)
