"""Clopper and Pearson limits, worked by hand and held to their law."""

import numpy as np
import pytest
from scipy import stats

from tacit.core import BadInput, clopper_pearson, lower_proportion, upper_proportion


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
