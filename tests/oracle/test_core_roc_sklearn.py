"""Our ROC against scikit-learn's, on tied and untied scores."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from tacit.core import Scores


@pytest.mark.parametrize("levels", [2, 5, 40, None])
def test_curve_and_area_agree(levels):
    rng = np.random.default_rng(levels or 0)
    score = rng.normal(size=600) if levels is None else rng.integers(0, levels, 600).astype(float)
    member = rng.random(600) < 0.4
    ours = Scores(score, member, attack="a", randomised=False)
    fpr, tpr, _ = roc_curve(member, score, drop_intermediate=False)
    np.testing.assert_allclose(ours.roc().fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(ours.roc().tpr, tpr, atol=1e-12)
    assert ours.auc().value == pytest.approx(roc_auc_score(member, score), abs=1e-12)
