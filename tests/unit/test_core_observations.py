"""Observations: signals from logits, parts, and what is refused."""

import numpy as np
import pytest

from tacit.core import BadInput, Observations


def test_signals_worked_by_hand():
    seen = Observations.from_logits([[np.log(6.0), np.log(3.0), np.log(1.0)]], [0])
    assert seen.probability[0, 0] == pytest.approx(0.6)
    assert seen.loss[0, 0] == pytest.approx(-np.log(0.6))
    assert seen.margin[0, 0] == pytest.approx(np.log(0.6) - np.log(0.4))


def test_margin_is_stable_where_the_single_probability_is_not():
    """log p - log(1 - p) of a float p is infinite once p rounds to 1 (peer defect D11); ours keeps its digits."""
    seen = Observations.from_logits([[60.0, 0.0, 0.0], [80.0, 0.0, 0.0]], [0, 0])
    np.testing.assert_allclose(seen.margin[:, 0], [60 - np.log(2), 80 - np.log(2)])
    assert seen.probability[0, 0] == 1.0


def test_probabilities_and_logits_agree():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    np.testing.assert_allclose(
        Observations.from_probabilities(p, [0, 1]).margin, Observations.from_logits(np.log(p), [0, 1]).margin
    )
    assert np.isfinite(Observations.from_probabilities([[1.0, 0.0]], [0]).margin).all()


def test_select_takes_records_and_models():
    member = np.array([[1, 0, 1], [0, 1, 0]], bool)
    seen = Observations(member=member, loss=np.arange(6.0).reshape(2, 3), label=np.array([4, 5]))
    part = seen.select(records=[1], models=[0, 2])
    assert part.loss.tolist() == [[3.0, 5.0]]
    assert part.member.tolist() == [[False, False]]
    assert part.label.tolist() == [5]
    assert seen.select(models=2).loss.tolist() == [[2.0], [5.0]]


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"loss": np.zeros(3)},
        {"loss": np.zeros((3, 2)), "margin": np.zeros((2, 3))},
        {"loss": np.zeros((3, 2)), "label": np.zeros(2, np.int64)},
    ],
)
def test_shapes_must_fit(arrays):
    with pytest.raises(BadInput):
        Observations(**arrays)


@pytest.mark.parametrize("label", [[2], [-1]])
def test_labels_must_be_classes(label):
    with pytest.raises(BadInput, match="below the number of classes"):
        Observations.from_logits([[0.0, 1.0]], label)


def test_negative_probabilities_are_refused():
    with pytest.raises(BadInput):
        Observations.from_probabilities([[1.2, -0.2]], [0])


@pytest.mark.parametrize("label", [[0.5, 1.0], [np.nan, 1.0], ["a", "b"], [0, 2], [-1, 0]])
def test_labels_that_name_no_column_are_refused(label):
    with pytest.raises(BadInput, match="number of classes"):
        Observations.from_logits([[1.0, 0.0], [0.0, 1.0]], label)


def test_membership_the_wrong_way_round_is_refused():
    """Reshaped it would pass, and say of each record what is true of others."""
    with pytest.raises(BadInput, match="records x models"):
        Observations.from_logits(np.zeros((3, 2, 4)), [0, 1, 2], member=np.ones((2, 3)))
    assert Observations.from_logits(np.zeros((3, 4)), [0, 1, 2], member=[1, 0, 1]).member.shape == (3, 1)
