"""ROC, rates and areas, worked by hand; ties are one block (peer defect D4)."""

import numpy as np
import pytest

from tacit.core import BadInput, Scores


def scores(members, nonmembers):
    both = [*members, *nonmembers]
    return Scores(both, [1] * len(members) + [0] * len(nonmembers), attack="a", randomised=False)


def test_worked_by_hand():
    roc = scores([3, 2, 2], [2, 1]).roc()
    assert roc.threshold.tolist() == [np.inf, 3, 2, 1]
    assert roc.fpr.tolist() == [0, 0, 0.5, 1]
    assert roc.tpr.tolist() == [0, pytest.approx(1 / 3), 1, 1]
    assert roc.at(0.49) == pytest.approx(1 / 3)
    assert roc.at(0.5) == 1.0


def test_two_valued_scores_without_leakage():
    """Keeping the first of a tied block gives area 0.124 here; the truth is near a half, the curve ends at (1, 1)."""
    rng = np.random.default_rng(0)
    made = Scores(rng.integers(0, 2, 4000), np.arange(4000) % 2, attack="label", randomised=False)
    assert made.auc().lower < 0.5 < made.auc().upper
    assert (made.roc().fpr[-1], made.roc().tpr[-1]) == (1.0, 1.0)
    assert len(made.roc().fpr) == 3


def test_area_counts_ties_half():
    # pairs: 3>2, 3>1, 2=2, 2>1 -> (1 + 1 + 0.5 + 1) / 4
    assert scores([3, 2], [2, 1]).auc().value == 0.875


def test_area_has_room_at_the_end_of_the_scale():
    perfect = scores([2.0] * 10, [1.0] * 10).auc()
    assert perfect.value == 1.0
    assert perfect.lower < 0.8


def test_rate_at_low_fpr_says_when_it_cannot_say():
    estimate = scores(np.arange(100.0), np.arange(100.0)).tpr(0.01)
    assert estimate.value is None
    assert (estimate.lower, estimate.upper, estimate.note) == (0.0, 1.0, "n too small")


def test_rate_lies_in_its_interval_and_pays_for_the_threshold():
    rng = np.random.default_rng(1)
    estimate = scores(rng.normal(1, 1, 2000), rng.normal(0, 1, 2000)).tpr(0.01)
    assert estimate.lower < estimate.value < estimate.upper
    assert estimate.upper - estimate.lower > 0.06  # the members' counts alone would claim 0.03


def test_ties_never_help():
    assert scores([1.0] * 1000, [1.0] * 1000).tpr(0.01).lower == 0.0


def test_one_sided_scores_are_refused():
    with pytest.raises(BadInput, match="at least one member"):
        Scores([1.0, 2.0], [1, 1], attack="a", randomised=False).roc()
