"""Auditing plain mechanisms: wrong scales, values that should not be told, holes of floating point."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.audits import audit_mechanism, controls, verify
from tacit.audits.features import binned, exact, grain, projection
from tacit.audits.scoring import scored
from tacit.core import BadInput, NotFinished, Verdict
from tacit.core.events import Gaussian, Laplace

GRID = 2.0**-20


def on_grid(value):
    """Rounding to a coarse grid hides the floating-point grain of the noise."""
    return np.round(np.asarray(value) / GRID) * GRID


def laplace(scale):
    return lambda data, rng: on_grid(np.sum(data) + rng.laplace(0, scale))


PAIR = (np.array([1.0, 0.0]), np.array([0.0, 0.0]))


@pytest.mark.parametrize("data", [PAIR[0], [1, 2], ["a", [1]], 3.0, {"age": 1}, object()])
def test_one_data_set_twice_is_refused(data):
    """It was called consistent: no release can tell a data set from itself, however little noise there is."""
    for other in (data, data.copy()) if isinstance(data, np.ndarray | list) else (data,):
        with pytest.raises(BadInput, match="are the same"):
            audit_mechanism(laplace(1.0), (data, other), claim=(1.0, 0.0), runs=400, rng=1)


def test_a_right_laplace_scale_is_consistent():
    evidence = audit_mechanism(laplace(1.0), PAIR, claim=(1.0, 0.0), runs=8000, rng=1)
    assert evidence.verdict is Verdict.CONSISTENT
    assert 0.7 < evidence.lower.bound.epsilon <= 1.0
    assert verify(evidence).ok


def test_a_mechanism_is_called_by_its_own_name():
    def count(data, rng):
        return len(data) + rng.laplace()

    evidence = audit_mechanism(count, ([1], [1, 1]), claim=(1.0, 0.0), runs=200, rng=1)
    assert evidence.subject == "count"  # not the functions around it


@pytest.mark.parametrize("release", [lambda data: 1.0, lambda data, rng, more: 1.0])
def test_a_release_that_cannot_be_called_is_told_how_it_is_called(release):
    with pytest.raises(BadInput, match=r"cannot be called as release\(data, rng\)"):
        audit_mechanism(release, PAIR, claim=(1.0, 0.0), runs=100, rng=1)


def test_too_little_noise_that_a_histogram_shows_is_not_said_to_depend_on_the_data():
    evidence = audit_mechanism(laplace(0.5), PAIR, claim=(1.0, 0.0), runs=8000, rng=1)
    seen = replace(evidence.lower, canary="histogram of value 0")
    reason = evidence.with_(demonstrations=(seen,)).reason
    assert "noise is missing, too small" in reason
    assert "varies differently" not in reason


def test_a_wrong_laplace_scale_is_refuted():
    evidence = audit_mechanism(laplace(0.5), PAIR, claim=(1.0, 0.0), runs=8000, rng=1)
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.lower.bound.assumes is None


def test_a_claimed_event_is_tested_by_its_curve():
    wrong = audit_mechanism(laplace(0.7), PAIR, claim=Laplace(1.0), runs=6000, rng=1, delta=0.0)
    right = audit_mechanism(laplace(1.0), PAIR, claim=Laplace(1.0), runs=6000, rng=1, delta=0.0)
    assert wrong.verdict is Verdict.REFUTED
    assert wrong.lower.bound.assumes == "Laplace"
    assert right.verdict is Verdict.CONSISTENT


def test_vectors_are_read_along_the_likelihood_ratio():
    shift = np.full(20, 1 / np.sqrt(20))

    def gaussian(data, rng):
        return on_grid(data * shift + rng.normal(0, 0.5, 20))

    evidence = audit_mechanism(gaussian, (1.0, 0.0), claim=Gaussian(1.0), runs=4000, rng=1)
    assert evidence.verdict is Verdict.REFUTED
    assert "projection" in evidence.demonstrations[0].canary


def noisy_max(scores, rng, noise=2.0):
    return np.asarray(scores, float) + rng.laplace(0, noise, len(scores))


SCORES = ((1.0, 1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0))


def test_noisy_max_that_returns_the_value_is_refuted_and_the_index_is_not():
    """With Lap(2/epsilon) the index is epsilon-DP; the value beside it is not (four counts move at once)."""
    value = audit_mechanism(
        lambda d, rng: on_grid(noisy_max(d, rng).max()), SCORES, claim=(1.0, 0.0), runs=12_000, rng=1
    )
    index = audit_mechanism(lambda d, rng: noisy_max(d, rng).argmax(), SCORES, claim=(1.0, 0.0), runs=4000, rng=1)
    assert value.verdict is Verdict.REFUTED
    assert index.verdict is Verdict.CONSISTENT


def test_a_selection_that_is_too_sure_is_refuted():
    pair = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    evidence = audit_mechanism(lambda d, rng: noisy_max(d, rng, 0.3).argmax(), pair, claim=(1.0, 0.0), runs=4000, rng=1)
    assert evidence.verdict is Verdict.REFUTED


def test_floating_point_holes_are_found():
    """Textbook Laplace noise in doubles: 0 + noise reaches numbers that 1 + noise cannot (Mironov 2012)."""
    naive = audit_mechanism(lambda d, rng: d + rng.laplace(0, 1.0), (1.0, 0.0), claim=(1.0, 0.0), runs=8000, rng=1)
    assert naive.verdict is Verdict.REFUTED
    assert "grain" in naive.demonstrations[0].canary


def test_failed_releases_count_against_refutation():
    def shaky(data, rng):
        if rng.random() < 0.1:
            raise ValueError("no")
        return float(np.sum(data))

    evidence = audit_mechanism(shaky, PAIR, claim=(1.0, 0.0), runs=1000, rng=1)
    counts = evidence.demonstrations[0].counts
    assert counts.true_positives < counts.n_in
    assert counts.false_positives > 0
    assert evidence.demonstrations[0].failed > 50
    with pytest.raises(NotFinished, match="raised ZeroDivisionError"):
        audit_mechanism(lambda data, rng: 1 / 0, PAIR, claim=(1.0, 0.0), runs=100, rng=1)


def test_bad_pairs_are_refused():
    with pytest.raises(BadInput, match="pair"):
        audit_mechanism(laplace(1.0), PAIR[0][0], claim=(1.0, 0.0), rng=1)


def test_grain_by_hand():
    assert grain(np.array([[1.0, 3.0, 0.5, 6.0, 0.0, 1.0 + 2.0**-52]])).tolist() == [[0, 0, -1, 1, 2000, -52]]


def test_histograms_and_exact_values_are_log_ratios():
    inside, outside = np.array([0.0] * 9 + [1.0]), np.array([0.0] + [1.0] * 9)
    assert binned(inside, outside)(np.array([0.0]))[0] == pytest.approx(np.log(9.5 / 1.5))
    told = exact(inside[:, None], outside[:, None])(np.array([[0.0], [1.0], [7.0]]))
    assert told == pytest.approx([np.log(9.5 / 1.5), -np.log(9.5 / 1.5), 0.0])


def test_projection_whitens():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4000, 2)) * [10.0, 0.1]
    along = projection(noise[:2000] + [1.0, 0.1], noise[2000:])
    direction = along(np.eye(2))
    assert abs(direction[1]) > 50 * abs(direction[0])


@pytest.mark.parametrize("elsewhere", [0.0, 0.3])
def test_errors_that_tell_of_a_record_are_named(elsewhere):
    """A run that fails counts against refutation: that one data set makes them fail was called consistent."""

    def release(data, rng):
        if rng.random() < (0.3 if len(data) == 4 else elsewhere):
            raise ValueError
        return round(sum(data) + rng.laplace(), 1)

    found = audit_mechanism(release, ([1, 0, 1, 1], [1, 0, 1]), claim=(1.0, 0.0), runs=800, rng=1)
    assert [item.name for item in found.controls[2:]] == ["failed runs"] * (elsewhere == 0.0)
    assert ("runs with the record failed, 0 of 200 without it" in found.sentence) == (elsewhere == 0.0)
    assert found.verdict != "consistent" or elsewhere


def test_failures_that_fall_on_both_sides_alike_are_no_sign():
    """500 draws, some with few runs or uneven sides; and a refuted claim stays refuted."""
    rng, seen = np.random.default_rng(0), 0
    for _ in range(500):
        sizes, rate = rng.integers(2, 60, 2), rng.uniform(0, 1)
        coins = np.repeat([True, False], sizes)
        score = np.where(rng.random(coins.size) < rate, np.nan, 0.0)
        seen += bool(controls.failing(scored(score, coins), refuted=False))
    assert seen == 0
    one_sided = scored(np.where(np.arange(100) % 2 == 0, np.nan, 1.0), np.arange(100) % 2 == 0)
    assert controls.failing(one_sided, refuted=False)
    assert controls.failing(one_sided, refuted=True) == ()
