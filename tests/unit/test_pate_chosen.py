"""PATE runs of strangers: one that won a private search, teachers that hide what they can, and a strict NumPy."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
import tacit
from tacit.core import BadInput
from tacit.pate import PATE, FixMatch, GNMax

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2))
Y = (X[:, 0] > 0).astype(int)
PUBLIC = rng.normal(size=(60, 2))


def made(teacher, **more):
    return PATE(teacher, teachers=10, aggregator=GNMax(4.0), queries=30, delta=1e-6, classes=[0, 1], **more)


def fitted_by_mean(x, y, rng):
    middle = x.mean(axis=0)
    return lambda asked: (asked @ (x[y == 1].mean(axis=0) - middle) > 0).astype(int)


def test_a_run_that_won_a_search_has_the_claim_of_the_search():
    own = made(fitted_by_mean).fit(X, Y, PUBLIC)

    def make_run(choose, source):
        return made(fitted_by_mean, choose=choose, random_state=source).fit(X, Y, PUBLIC), 0.0

    found = tacit.search(make_run, ["first", "spread"], event=own.event_, delta=1e-6, shape=1, rng=0)
    won = found.result
    assert won.bound_ == found.evidence.upper
    assert won.bound_.epsilon > 1.5 * own.bound_.epsilon
    evidence = won.evidence()
    assert evidence.upper.epsilon == found.evidence.upper.epsilon
    assert "private selection" in evidence.provenance["settings"]
    assert set(found.evidence.not_covered) < set(evidence.not_covered)
    assert not any("settings (noise" in line for line in evidence.not_covered)
    assert tacit.verify(evidence).ok
    with pytest.raises(BadInput, match="chosen among others"):
        won.release_bound(epsilon=0.5, propose=100.0)
    assert "settings" not in won.fit(X, Y, PUBLIC).evidence().provenance


def test_an_estimator_that_hides_what_it_can_before_it_is_fitted_is_a_teacher():
    from sklearn.ensemble import StackingClassifier
    from sklearn.naive_bayes import GaussianNB

    stacked = StackingClassifier([("bayes", GaussianNB())], cv=2)
    assert not hasattr(stacked, "predict")
    run = made(stacked, random_state=0).fit(X, Y, PUBLIC)
    assert np.mean(run.predict(PUBLIC) == (PUBLIC[:, 0] > 0)) > 0.7


def test_a_student_that_scales_in_place_is_taught_again_on_what_was_given():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    public = 100 + 20 * PUBLIC
    labels = np.where(np.arange(60) < 40, (PUBLIC[:, 0] > 0).astype(int), -1)
    given = public.copy()
    how = FixMatch(make_pipeline(StandardScaler(copy=False), LogisticRegression()))
    student = how.taught(given, labels, 2, np.random.default_rng(0))
    assert np.array_equal(given, public)
    assert np.mean(student(public.copy()).argmax(axis=1) == (PUBLIC[:, 0] > 0)) > 0.8


@pytest.mark.parametrize("fleet", [False, True])
def test_no_value_raises_where_numpy_was_told_to_raise(fleet):
    """With `numpy.seterr(all="raise")` one record's tiny value stopped a fleet, or a table, after the charge."""
    from tacit.pate import Network, private_predictions

    def network():
        from torch import nn

        return nn.Linear(2, 2)

    odd = X.copy()
    odd[:3] = [[5e-324, 1e-310], [1e300, -1e300], [np.nan, np.inf]]
    teacher = Network(network, steps=3) if fleet else fitted_by_mean
    columns = tacit.Column("a", range=(0, 1e6)), tacit.Column("b", range=(-3, 3))
    label = tacit.Column("y", "category", words=("0", "1"))
    schema = tacit.Schema((*columns, label), label="y")
    frame = pd.DataFrame({"a": odd[:, 0], "b": odd[:, 1], "y": Y.astype(str)})
    with np.errstate(all="raise"):
        assert len(made(teacher, random_state=0).fit(odd, Y, PUBLIC).predict(odd)) == len(odd)
        by_table = PATE(fitted_by_mean, teachers=10, aggregator=GNMax(4.0), queries=30, delta=1e-6, schema=schema)
        assert by_table.fit(frame, None, frame[100:160]).answered_ == 30
        found = private_predictions(
            fitted_by_mean, frame, None, frame[:2], schema=schema, epsilon=1.0, teachers=10, rng=0
        )
    assert len(found.value) == 2
