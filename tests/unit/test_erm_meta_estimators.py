"""Private estimators inside scikit-learn's meta-estimators: which are refused, and which claims stay true."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.ensemble import AdaBoostRegressor
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

from tacit import BadInput
from tacit.erm import PrivateLinearRegression, PrivateLogisticRegression

X = np.random.default_rng(0).normal(size=(600, 3))
Y = (X[:, 0] > 0).astype(int)


def test_a_search_for_a_threshold_is_refused_before_anything_is_paid():
    """Once its first fit, on all records, was charged."""
    charged = []
    till = SimpleNamespace(charge=lambda event, **more: charged.append(event))
    model = PrivateLogisticRegression(norm_bound=4.0, classes=[0, 1], ledger=till)
    with pytest.raises(BadInput, match="has no proof"):
        TunedThresholdClassifierCV(model, cv=2).fit(X, Y)
    FixedThresholdClassifier(model, threshold=0.3).fit(X, Y)  # a public threshold is no search
    assert len(charged) == 1


def test_boosting_that_draws_rows_by_their_errors_is_refused():
    numbers = PrivateLinearRegression(norm_bound=4.0, target_range=(-4.0, 4.0), random_state=0)
    with pytest.raises(BadInput, match="one person several times"):
        AdaBoostRegressor(numbers, n_estimators=2).fit(X, X[:, 0])


def test_a_fit_on_a_part_of_the_records_asks_for_a_public_size():
    """How many records have one of two classes, or a value, is private."""
    model = PrivateLogisticRegression(norm_bound=4.0, classes=[0, 1], random_state=0)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    with pytest.raises(BadInput, match="Give public_size"):
        OneVsOneClassifier(model).fit(X, three)
    OneVsOneClassifier(model.set_params(public_size=len(X))).fit(X, three)
    OneVsRestClassifier(PrivateLogisticRegression(norm_bound=4.0, classes=[0, 1], random_state=0)).fit(X, three)
