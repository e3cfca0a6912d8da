"""Targets, measurements and controls."""

import numpy as np
import pytest

from tacit import attacks
from tacit.attacks.measurement import POINTS
from tacit.core import BadInput, Observations, Scores


def normal_scores(n, shift, seed=0):
    rng = np.random.default_rng(seed)
    score = np.concatenate((rng.normal(shift, 1, n), rng.normal(0, 1, n)))
    return Scores(score, np.arange(2 * n) < n, attack="a", randomised=False)


def small_fleet(records=40, models=5, seed=0):
    rng = np.random.default_rng(seed)
    member = np.stack([rng.permutation(records) < records // 2 for _ in range(models)], axis=1)
    margin = rng.normal(0, 1, (records, models)) + member
    return Observations(member=member, margin=margin, loss=np.logaddexp(0, -margin))


def test_leave_one_out_attacks_each_model_with_the_others():
    seen, asked = small_fleet(), []

    def spy(target, references):
        asked.append((target.margin[0, 0], references.models))
        return attacks.loss_threshold(target)

    scores = attacks.leave_one_out(spy, seen, [3, 1])
    assert asked == [(seen.margin[0, 3], 4), (seen.margin[0, 1], 4)]
    assert scores.target.tolist() == [3] * 40 + [1] * 40
    np.testing.assert_array_equal(scores.member, np.concatenate((seen.member[:, 3], seen.member[:, 1])))


@pytest.mark.parametrize("targets", [[], [5], [-1], [1, 1]])
def test_leave_one_out_refuses_bad_targets(targets):
    with pytest.raises(BadInput):
        attacks.leave_one_out(attacks.loss_threshold, small_fleet(), targets)


def test_joining_two_attacks_is_refused():
    target = small_fleet().select(models=0)
    other = Scores([1.0], [1], attack="b", randomised=False)
    with pytest.raises(BadInput):
        attacks.joined([attacks.loss_threshold(target), other])


def test_measure_holds_rates_area_and_band():
    found = attacks.measure(normal_scores(2000, 1.5), fpr=(0.1, 0.0001))
    assert (found.members, found.nonmembers, found.targets) == (2000, 2000, 1)
    (rate, estimate), (_, unknown) = found.tpr_at_fpr
    assert rate == 0.1
    assert estimate.lower < 0.586 < estimate.upper  # Phi(1.5 - Phi^-1(0.9)) = 0.586
    assert unknown.note == "n too small"
    assert found.auc.lower < 0.8556 < found.auc.upper


@pytest.mark.parametrize("rate", [1e-320, 0.0, 1.5])
def test_a_rate_that_nobody_can_count_is_refused(rate):
    """1 in 1e320 outsiders is no number: the sentence about it ended in OverflowError."""
    with pytest.raises(BadInput, match="fpr must be"):
        attacks.measure(normal_scores(20, 1.0), (rate,))


def test_thinned_curve_keeps_its_ends_and_its_low_rates():
    found = attacks.measure(normal_scores(5000, 1.0)).roc
    fpr, tpr, lower, upper = np.array(found).T
    assert len(found) <= POINTS
    assert (fpr[0], fpr[-1], tpr[-1]) == (0.0, 1.0, 1.0)
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    assert (lower <= tpr).all()
    assert (tpr <= upper).all()
    assert (fpr < 0.01).sum() > 40


def test_a_short_curve_is_kept_whole():
    scores = Scores([3.0, 2.0, 2.0, 1.0], [1, 1, 0, 0], attack="a", randomised=False)
    assert [point[:2] for point in attacks.measure(scores).roc] == [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]


def test_null_control_catches_an_attack_that_peeks():
    seen = small_fleet(records=400)

    def peeking(target, references):
        return Scores(target.member[:, 0], target.member[:, 0], attack="peek", randomised=False)

    assert not attacks.null(peeking, seen.select(models=0), None, 0).passed


def test_planted_leak_catches_an_inverted_attack():
    seen = small_fleet(records=400)

    def inverted(target, references):
        right = attacks.loss_threshold(target)
        return Scores(-right.score, right.member, attack="inverted", randomised=False)

    assert not attacks.planted_leak(inverted, seen.select(models=0), None).passed
    assert attacks.planted_leak(attacks.loss_threshold, seen.select(models=0), None).passed


@pytest.mark.parametrize("names", [("margin",), ("loss",), ("probability",), ("loss", "margin", "probability")])
def test_leaking_touches_what_is_there(names):
    seen = small_fleet()
    arrays = {"margin": seen.margin, "loss": seen.loss, "probability": np.exp(-seen.loss)}
    told = attacks.leaking(Observations(member=seen.member, **{name: arrays[name] for name in names}))
    for name in ("margin", "loss", "probability"):
        assert (getattr(told, name) is not None) == (name in names)
    array = getattr(told, names[0]) * (-1 if names[0] == "loss" else 1)
    assert array[seen.member].min() > array[~seen.member].max()


def test_blind_baseline_loses_on_a_fair_split_and_wins_on_a_shifted_one():
    rng = np.random.default_rng(0)
    features, member = rng.normal(size=(600, 5)), np.arange(600) % 2 == 0
    measurement, control = attacks.blind_baseline(features, member, 1)
    assert control.passed
    assert measurement.attack == "blind baseline"
    shifted = features + 2.0 * member[:, None] * np.array([1, 0, 0, 0, 0])
    assert not attacks.blind_baseline(shifted, member, 1)[1].passed


def test_blind_baseline_takes_images_and_constant_features():
    rng = np.random.default_rng(1)
    images = rng.normal(size=(60, 4, 4))
    images[:, 0] = 7.0
    assert attacks.blind_baseline(images, np.arange(60) % 2 == 0, 1)[1].passed


@pytest.mark.parametrize(
    ("features", "member"),
    [(np.zeros((4, 2)), [1, 0, 0]), (np.zeros((3, 2)), [1, 0, 0]), (np.full((4, 1), np.nan), [1, 1, 0, 0])],
)
def test_blind_baseline_refuses_bad_input(features, member):
    with pytest.raises(BadInput):
        attacks.blind_baseline(features, member, 1)
