"""Sensitivity of matrix mechanisms against every pattern of participation and every choice of signs."""

import itertools

import mpmath
import numpy as np
import pytest

from tacit.core import BadInput
from tacit.core.events import BandedFactorisation, Gaussian, MatrixFactorisation, Poisson, Repeat
from tacit.loss import Plan, privacy_loss
from tacit.loss.factorised import banded_sensitivity, sensitivity


def rows(matrix):
    return tuple(tuple(map(float, row[: k + 1])) for k, row in enumerate(matrix))


def square_root(steps):
    """The Toeplitz square root of prefix sums: coefficients binom(2k, k)/4^k."""
    first = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, steps))])
    return np.array([[first[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


def patterns(steps, participations, separation):
    for count in range(1, participations + 1):
        for places in itertools.combinations(range(steps), count):
            if all(b - a >= separation for a, b in itertools.pairwise(places)):
                yield places


def brute(matrix, participations, separation):
    """The largest |sum of +-columns|, and the largest bound over patterns."""
    seen = bound = 0.0
    for places in patterns(len(matrix), participations, separation):
        products = matrix[:, places].T @ matrix[:, places]
        bound = max(bound, np.abs(products).sum())
        for signs in itertools.product((1, -1), repeat=len(places)):
            seen = max(seen, np.linalg.norm(matrix[:, places] @ signs))
    return seen, np.sqrt(bound)


@pytest.mark.parametrize("participations", [1, 2, 3])
@pytest.mark.parametrize("separation", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_between_what_is_seen_and_what_is_possible(participations, separation, seed):
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.normal(size=(7, 7)))
    event = MatrixFactorisation(1.0, rows(matrix), participations, separation)
    attained, bound = sensitivity(event)
    seen, exact = brute(matrix, participations, separation)
    assert attained <= seen * (1 + 1e-9)
    assert exact <= bound * (1 + 1e-9)


@pytest.mark.parametrize(("participations", "separation"), [(1, 1), (2, 3), (3, 2), (3, 3)])
def test_positive_matrices_are_exact_where_participations_are_equally_good(participations, separation):
    matrix = square_root(8)
    attained, bound = sensitivity(MatrixFactorisation(1.0, rows(matrix), participations, separation))
    seen, _ = brute(matrix, participations, separation)
    assert attained <= seen * (1 + 1e-9)
    assert seen <= bound * (1 + 1e-9)
    assert bound <= 1.1 * attained


def test_bands_no_wider_than_the_separation_are_exact():
    matrix = np.tril(square_root(9)) * (np.subtract.outer(np.arange(9), np.arange(9)) < 3)
    attained, bound = sensitivity(MatrixFactorisation(1.0, rows(matrix), 3, 3))
    assert attained == pytest.approx(brute(matrix, 3, 3)[0])
    assert bound == pytest.approx(attained)


def test_the_identity_is_ordinary_training():
    event = MatrixFactorisation(4.0, rows(np.eye(6)), 6, 1)
    for adjacency in ("add-remove", "replace"):
        ours, plain = (privacy_loss(e, adjacency).epsilon(1e-5) for e in (event, Repeat(Gaussian(4.0), 6)))
        assert ours.upper == pytest.approx(plain.upper, rel=1e-12)


def test_where_signs_matter_both_ends_are_honest():
    event = MatrixFactorisation(2.0, ((1.0,), (1.0, -1.0)), 2, 1)
    attained, bound = sensitivity(event)
    assert attained < bound == pytest.approx(np.sqrt(5))
    found, exact = (privacy_loss(e, "add-remove").epsilon(1e-5) for e in (event, Gaussian(2.0 / np.sqrt(5))))
    assert found.lower < exact.upper <= found.upper * 1.001


@pytest.mark.parametrize("steps", [1, 3, 6, 7])
@pytest.mark.parametrize(("participations", "separation"), [(1, 1), (1, 3), (2, 2), (3, 2), (2, 3), (9, 3)])
def test_a_banded_matrix_need_not_be_written_out(steps, participations, separation):
    """Against every pattern and choice of signs of the matrix written out, and against its own bound."""
    rng = np.random.default_rng(steps)
    for bands in range(1, separation + 1):
        shares = tuple(map(float, rng.normal(size=bands)))
        matrix = np.array([[shares[k - i] if 0 <= k - i < bands else 0.0 for i in range(steps)] for k in range(steps)])
        found = banded_sensitivity(BandedFactorisation(1.0, shares, steps, participations, separation))
        seen, _ = brute(matrix, participations, separation)
        assert found == pytest.approx(seen, rel=1e-12)
        attained, bound = sensitivity(MatrixFactorisation(1.0, rows(matrix), participations, separation))
        assert attained <= found * (1 + 1e-12)
        assert found <= bound * (1 + 1e-12)


def gaussian_delta(mu, epsilon):
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.e**epsilon * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("steps", [100, 300])
def test_ends_hold_the_exact_epsilon_of_prefix_sums(steps):
    """The lower end was 1e-13 above the truth: an upper end of the sensitivity served both."""
    event = MatrixFactorisation(3.0, rows(np.tril(np.ones((steps, steps)))), 1, steps)
    found = privacy_loss(event, "add-remove").epsilon(1e-5)
    with mpmath.workdps(40):
        mu = mpmath.sqrt(steps) / 3
        assert gaussian_delta(mu, mpmath.mpf(found.upper)) <= 1e-5 <= gaussian_delta(mu, mpmath.mpf(found.lower))
    assert found.gap < 1e-11


def test_a_sensitivity_that_is_nearly_reached_is_not_reached():
    """Three columns of which two have a product of -1e-10: nobody moves the sum as far as the bound says."""
    a = 1e-10
    matrix = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [-a, 1.0, 1.0]])
    attained, bound = sensitivity(MatrixFactorisation(1.0, rows(matrix), 3, 1))
    assert attained < bound
    event = MatrixFactorisation(1.0, rows(matrix), 3, 1)
    found = privacy_loss(event, "add-remove").epsilon(1e-5)
    with mpmath.workdps(40):
        columns = mpmath.matrix(matrix.tolist())
        products = columns.T * columns
        mu = mpmath.sqrt(sum(products)) + mpmath.mpf(10) ** -15  # other directions gain less than that
        assert found.lower < found.upper * (1 - 1e-11)
        assert gaussian_delta(mu, mpmath.mpf(found.lower)) >= 1e-5


def test_a_matrix_on_a_sample_has_both_ends():
    event = MatrixFactorisation(3.0, ((1.0,), (1.0, 1.0), (-1.0, 1.0, 0.5)), 3, 1)
    low, high = (Repeat(Poisson(0.1, Gaussian(3.0 / end)), 10) for end in sensitivity(event))
    found = privacy_loss(Repeat(Poisson(0.1, event), 10), "add-remove").epsilon(1e-5)
    ends = [privacy_loss(one, "add-remove").epsilon(1e-5) for one in (low, high)]
    assert found.lower == pytest.approx(ends[0].lower, rel=1e-9)
    assert found.upper == pytest.approx(ends[1].upper, rel=1e-9)


def test_a_banded_event_costs_what_the_written_out_one_costs():
    shares = (1.0, 0.5, 0.375)
    matrix = np.array([[shares[k - i] if 0 <= k - i < 3 else 0.0 for i in range(20)] for k in range(20)])
    for adjacency in ("zero-out", "replace"):
        banded = privacy_loss(BandedFactorisation(4.0, shares, 20, 5, 4), adjacency).epsilon(1e-5)
        written = privacy_loss(MatrixFactorisation(4.0, rows(matrix), 5, 4), adjacency).epsilon(1e-5)
        assert banded.upper == pytest.approx(written.upper, rel=1e-9)
        assert banded.lower == pytest.approx(written.lower, rel=1e-9)


def test_long_cyclic_plans_are_quick():
    made = Plan(60_000, 0.01, 20_000, 1.0, adjacency="replace", sampling="cyclic", bands=64)
    assert made.calibrated(epsilon=8.0, delta=1e-6).bound(1e-6).epsilon == pytest.approx(8.0, rel=1e-6)
    assert len(repr(made.event)) < 5000
    with pytest.raises(BadInput, match="at most 100 bands"):
        Plan(60_000, 0.01, 20_000, 1.0, adjacency="replace", sampling="cyclic", bands=101)
