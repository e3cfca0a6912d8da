"""Skellam noise against Bessel functions of 60 digits, Poisson numbers against their own sums."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import mechanism_exactly as exactly
from tacit import mechanism
from tacit.core import BadInput, source
from tacit.mechanism import skellam_noise


@pytest.mark.parametrize(("variance", "epsilon", "moved"), [(2, 1.0, 1), (30, 1.0, 1), (100, 0.5, 2)])
def test_the_profile_is_an_upper_end_and_a_close_one(variance, epsilon, moved):
    with mpmath.workdps(60):
        reach = int(12 * variance**0.5) + 40
        mass = {k: mpmath.besseli(abs(k), variance) * mpmath.exp(-variance) for k in range(reach + moved)}
        true = sum(
            max(mass[abs(k - moved)] - mpmath.exp(epsilon) * mass[abs(k)], 0) for k in range(-reach + moved, reach)
        )
    found = skellam_noise.profile(Fraction(variance), epsilon, moved)
    assert true <= found <= true * (1 + 1e-6) + 2e-9


def test_the_variance_is_the_least_that_fits():
    found = skellam_noise.least_variance(1.0, 1e-6, 1)
    assert skellam_noise.profile(found, 1.0, 1) <= 1e-6 < skellam_noise.profile(found - Fraction(1, 64), 1.0, 1)
    assert 14 < found < 15  # less than the 17.9 of a Gaussian: tails are heavier, so that ratios grow more slowly
    with pytest.raises(BadInput, match="2\\^14"):
        mechanism.skellam(1, sensitivity=1000, epsilon=0.1, delta=1e-6)
    with pytest.raises(BadInput, match="whole number"):
        mechanism.skellam(1.5, sensitivity=1, epsilon=1, delta=1e-6)


@pytest.mark.parametrize("mean", [Fraction(1, 3), Fraction(9), Fraction(2500)])
def test_poisson_numbers_have_the_right_probabilities(mean):
    found = skellam_noise.poisson(mean, 40_000, source(3))

    def p_value(m):
        return exactly.p_value(found, lambda k: stats.poisson.pmf(k, m))

    assert p_value(float(mean)) > exactly.P_VALUE
    for wrong in (0.9, 1.1):
        assert p_value(wrong * float(mean)) < exactly.P_VALUE


def test_poisson_bounds_hold_and_decide_next_to_every_threshold():
    from mechanism_exactly import Scripted

    mean = Fraction(7, 2)
    with mpmath.workdps(80):
        for k in (0, 1, 3, 9):
            true = mpmath.exp(-3.5) * sum(mpmath.mpf(3.5) ** j / mpmath.factorial(j) for j in range(k + 1))
            low, high = skellam_noise._below(mean, k)(90)
            assert low <= true * mpmath.mpf(2) ** 90 <= high <= low + 4
            edge = int(true * 2**64)
            for offset in (-2, -1, 1, 2, -(2**20), 2**20):
                found = skellam_noise.poisson(mean, 1, Scripted([edge + offset, 5]))[0]
                assert found == (k if offset < 0 else k + 1)


def test_a_release_keeps_its_error():
    chance = source(5)
    answers = [
        mechanism.skellam(50, sensitivity=1, epsilon=1, delta=1e-6, confidence=0.9, rng=chance) for _ in range(300)
    ]
    assert 240 <= sum(abs(answer.value - 50) <= answer.error for answer in answers) < 300
    assert np.var([answer.value for answer in answers]) == pytest.approx(14.25, rel=0.4)


@pytest.mark.parametrize("sensitivity", [500, 2**14 + 1, 10**9, 2**53])
def test_a_sensitivity_beyond_all_variances_is_refused_at_once(sensitivity):
    """Sums over as many places as the sensitivity has steps took all memory."""
    with pytest.raises(BadInput, match="Use gaussian"):
        mechanism.skellam(5, sensitivity=sensitivity, epsilon=1.0, delta=1e-6)
