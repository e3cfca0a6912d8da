"""Attack rules worked by hand, and the peer defects that concern them (D1, D5, D6, D11)."""

import numpy as np
import pytest
from scipy import stats

from tacit import attacks
from tacit.attacks.likelihood import ENOUGH
from tacit.attacks.moments import moments
from tacit.attacks.predictive import inverse_trigamma, predictive, variance_prior
from tacit.attacks.relative import offline_prior, relative, slope
from tacit.attacks.threshold import best_threshold, share_above
from tacit.core import Observations


def seen(member, **arrays):
    return Observations(
        member=np.atleast_2d(np.array(member, bool)),
        **{name: np.atleast_2d(np.array(array, float)) for name, array in arrays.items()},
    )


def test_loss_threshold_has_the_right_sign():
    """A peer negates a softmax instead of a loss, and its area is 0.348 where 0.652 is right (D1)."""
    scores = attacks.loss_threshold(seen([[1], [0]], loss=[[0.1], [2.0]]))
    assert scores.auc().value == 1.0


def test_entropy_and_modified_entropy_by_hand():
    p = np.array([[0.5, 0.3, 0.2]])
    target = Observations.from_probabilities(p, [0], member=[[1]])
    entropy = -(0.5 * np.log(0.5) + 0.3 * np.log(0.3) + 0.2 * np.log(0.2))
    mentr = -(0.5 * np.log(0.5)) - (0.3 * np.log(0.7) + 0.2 * np.log(0.8))
    assert attacks.entropy(target).score == pytest.approx([-entropy])
    assert attacks.modified_entropy(target).score == pytest.approx([-mentr])


def test_modified_entropy_punishes_a_sure_wrong_answer():
    target = Observations.from_probabilities([[0.999, 0.001], [0.999, 0.001]], [0, 1], member=[[1], [0]])
    entropy, modified = attacks.entropy(target).score, attacks.modified_entropy(target).score
    assert entropy[0] == pytest.approx(entropy[1])
    assert modified[0] > modified[1] + 5


def test_calibrated_by_hand():
    references = seen([[0, 0, 1], [1, 0, 1]], loss=[[3.0, 5.0, 1.0], [1.0, 2.0, 1.0]])
    target = seen([[1], [0]], loss=[[2.0], [2.0]])
    assert attacks.calibrated(target, references).score.tolist() == [2.0, 0.0]
    assert attacks.calibrated_online(target, references).score.tolist() == [0.5, -0.5]


def test_reference_share_by_hand():
    references = seen([[0, 0, 0, 1]], loss=[[1.0, 2.0, 3.0, 0.0]])
    score = attacks.reference(seen([[1]], loss=[[1.5]]), references).score[0]
    assert abs(score - 2 / 3) < 0.5 / 3  # two of three are above; the tie-break moves by less than half a step


def test_population_share_is_per_class_and_monotone():
    known = np.array([1.0, 2.0, 3.0])
    share = share_above(np.array([-5.0, 0.5, 1.5, 2.5, 3.5, 9.0]), known)
    assert (np.diff(share) < 0).all()
    assert share_above(np.array([2.0]), known) == pytest.approx([0.5])


def test_lira_by_hand():
    rng = np.random.default_rng(0)
    margin = rng.normal(0, 1, (5, 8))
    member = np.tile([1, 0], (5, 4)).astype(bool)
    margin[member] += 2
    references, target = seen(member, margin=margin), seen(np.ones((5, 1)), margin=np.full((5, 1), 1.0))
    means = {
        side: np.array([row[mask == side].mean() for row, mask in zip(margin, member, strict=True)]) for side in (1, 0)
    }
    pooled = {
        side: sum(
            ((row[mask == side] - row[mask == side].mean()) ** 2).sum()
            for row, mask in zip(margin, member, strict=True)
        )
        / 15
        for side in (1, 0)
    }
    hand = stats.norm.logpdf(1.0, means[1], pooled[1] ** 0.5) - stats.norm.logpdf(1.0, means[0], pooled[0] ** 0.5)
    np.testing.assert_allclose(attacks.lira(target, references).score, hand)
    np.testing.assert_allclose(attacks.lira_offline(target, references).score, (1.0 - means[0]) / pooled[0] ** 0.5)


def test_lira_takes_each_variance_from_its_own_side():
    """The official code sets the out-spread from the in-scores (D6): here the in-side is far wider."""
    margin = np.array([[0.0, 100.0, -100.0, 0.01, -0.01, 0.0]])
    references = seen([[1, 1, 1, 0, 0, 0]], margin=margin)
    offline = attacks.lira_offline(seen([[1]], margin=[[1.0]]), references).score[0]
    assert offline == pytest.approx(1.0 / 0.01)


def test_lira_offline_is_one_sided():
    """Far below the models without the record is no sign of membership; a two-sided density says it is (D6)."""
    references = seen([[0, 0, 0, 0]] * 3, margin=[[0.0, 1.0, 2.0, 1.0]] * 3)
    low, middle, high = attacks.lira_offline(seen([[0], [0], [1]], margin=[[-50.0], [1.0], [50.0]]), references).score
    assert low < middle < high


def test_lira_uses_own_variances_only_with_enough_references():
    rng = np.random.default_rng(1)
    scale = np.array([[0.1], [10.0]])
    few, many = (seen(np.zeros((2, k)), margin=scale * rng.normal(size=(2, k))) for k in (ENOUGH - 1, ENOUGH))
    target = seen([[1], [1]], margin=[[1.0], [1.0]])
    few_score, many_score = (attacks.lira_offline(target, references).score for references in (few, many))
    assert few_score[0] < 1
    assert many_score[0] > 5


def test_rmia_offline_ignores_models_that_saw_the_record():
    """A peer averages p(z) over models with and without the record in the offline attack (D5)."""
    clean = seen([[0, 0, 1], [0, 1, 0]], probability=[[0.2, 0.3, 0.9], [0.5, 0.9, 0.4]])
    other = seen([[0, 0, 1], [0, 1, 0]], probability=[[0.2, 0.3, 0.1], [0.5, 0.1, 0.4]])
    target = seen([[1], [0]], probability=[[0.8], [0.6]])
    first, second = (attacks.rmia_offline(target, references).score for references in (clean, other))
    assert slope(clean) == slope(other)
    np.testing.assert_array_equal(first, second)


def test_rmia_by_hand():
    ratio = relative(np.array([[0.8], [0.4], [0.6]]), np.array([0.4, 0.4, 0.4]))[:, 0]
    # ratios 2, 1, 1.5: three, one and two records are at or below each
    assert np.floor(ratio * 3).tolist() == [3.0, 1.0, 2.0]
    assert offline_prior(np.array([0.4]), 0.5) == pytest.approx(0.55)


def test_rmia_breaks_ties_without_turning_an_order():
    rng = np.random.default_rng(2)
    probability, prior = rng.random((500, 1)), rng.random(500)
    score = relative(probability, prior)[:, 0]
    assert np.unique(score).size == 500
    np.testing.assert_array_equal(np.argsort(score), np.argsort(probability[:, 0] / prior))


def test_moments_survive_missing_sides():
    found = moments(np.array([[1.0, 3.0], [7.0, 8.0]]), np.array([[1, 1], [0, 0]], bool))
    assert found.count.tolist() == [2, 0]
    assert found.mean.tolist() == [2.0, 2.0]
    assert found.squares.tolist() == [2.0, 0.0]
    assert found.variance().tolist() == [2.0, 2.0]


def test_variance_prior_finds_what_it_was_made_from():
    rng = np.random.default_rng(3)
    d0, v0, records = 6.0, 2.0, 20_000
    variance = d0 * v0 / rng.chisquare(d0, records)
    values = rng.normal(0, np.sqrt(variance)[:, None], (records, 5))
    found_d0, found_v0 = variance_prior(moments(values, np.ones((records, 5), bool)))
    assert found_d0 == pytest.approx(d0, rel=0.15)
    assert found_v0 == pytest.approx(v0, rel=0.05)


def test_inverse_trigamma():
    from scipy.special import polygamma

    for x in (0.01, 0.7, 3.0, 500.0):
        assert inverse_trigamma(float(polygamma(1, x))) == pytest.approx(x, rel=1e-8)


def test_predictive_is_wider_with_fewer_references():
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, (1000, 40))
    few, many = (predictive(moments(values[:, :k], np.ones((1000, k), bool)), np.zeros(1000)) for k in (2, 40))
    assert few.freedom[0] < many.freedom[0]
    assert np.median(few.scale) > 0.95 * np.median(many.scale)


def test_best_threshold_by_hand():
    assert best_threshold(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0])) == 2.0
