"""Estimators that round their shares to 0 and 1, and say in logarithms what they know."""

import numpy as np
import pytest

import tacit
from tacit.study import exact_shares
from tacit.study.exact_shares import in_full
from tacit.study.models import predictor

pytest.importorskip("sklearn")
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 20, 400)
X = (RNG.random((400, 300)) < 0.05 + 0.9 * (RNG.random((20, 300)) < 0.05)[Y]).astype(float)
SIDES = (X[:200], Y[:200]), (X[200:], Y[200:])


def rate(model, **more):
    found = tacit.attack(model, *SIDES, attacks=["lira"], references=4, rng=1, fpr=(0.05,), **more)
    return found.attacks[0].tpr_at_fpr[0][1].value


def test_naive_bayes_is_asked_for_its_logarithms():
    """Its shares are 0 and 1 and say no more than a label: they showed 0.04 of the members, logarithms 0.99."""
    model = GaussianNB().fit(*SIDES[0])
    shares = model.predict_proba(X)
    assert ((shares == 0) | (shares == 1)).mean() > 0.9
    by_shares = rate(model.predict_proba, fit=lambda x, y, rng: GaussianNB().fit(x, y).predict_proba)
    assert rate(model) > by_shares + 0.3
    for wrapped in (make_pipeline(StandardScaler(), GaussianNB()), GridSearchCV(GaussianNB(), {}, cv=2)):
        assert (predictor(wrapped.fit(*SIDES[0]))(X) < -100).any()


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (QuadraticDiscriminantAnalysis(reg_param=1e-9), 2),
        (QuadraticDiscriminantAnalysis(reg_param=1e-9), 3),
        (LogisticRegression(C=1e9, max_iter=500), 2),
    ],
)
def test_decision_values_with_the_same_shares_are_taken(model, classes):
    y = np.arange(60) % classes
    x = RNG.normal(size=(60, 2)) + 60 * np.eye(3)[y][:, :2]
    shares = model.fit(x, y).predict_proba(x)
    told = predictor(model)(x)
    assert ((shares == 0) | (shares == 1)).any()
    assert told.shape == shares.shape
    assert np.array_equal(told.argmax(axis=1), shares.argmax(axis=1))
    assert np.abs(told).max() > 1


@pytest.mark.parametrize("model", [RandomForestClassifier(5), AdaBoostClassifier(n_estimators=5), GaussianNB()])
def test_shares_stay_where_nothing_says_more(model, monkeypatch):
    """A forest has no other numbers, boosted stumps have others, and a share that is not rounded needs none."""
    x, y = RNG.normal(size=(60, 2)), np.arange(60) % 3
    if isinstance(model, AdaBoostClassifier):
        monkeypatch.setattr(exact_shares, "_logits_of", lambda target: target.decision_function)
    shares = model.fit(x, y).predict_proba(x)
    if isinstance(model, AdaBoostClassifier):
        shares = shares.round(0)
    assert in_full(model, lambda rows: shares, x) is shares


def test_a_model_that_writes_into_its_records_is_asked_about_the_same_ones():
    class Writes(GaussianNB):
        def predict_proba(self, x):
            found = super().predict_proba(x)
            x[:] = 0.0
            return found

    model = Writes().fit(*SIDES[0])
    assert np.array_equal(predictor(model)(X), GaussianNB().fit(*SIDES[0]).predict_log_proba(X))
