"""Private estimators inside scikit-learn's meta-estimators: which are refused, and which claims stay true."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.cluster import Birch
from sklearn.ensemble import AdaBoostRegressor, BaggingClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV, permutation_test_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from tacit import BadInput
from tacit.erm import PrivateGaussianNB, PrivateKMeans, PrivateLinearRegression, PrivateLogisticRegression

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


class Twice:
    """A sampler as imbalanced-learn has them: every record is there twice."""

    def fit_resample(self, x, y):
        return np.repeat(x, 2, axis=0), np.repeat(y, 2)


class Sampling(Pipeline):
    """A pipeline that samples, as imbalanced-learn's does."""

    def fit(self, X, y=None):
        (_, sampler), (_, model) = self.steps
        model.fit(*sampler.fit_resample(X, y))
        return self


def test_rows_that_were_sampled_anew_are_refused():
    """Every record was there twice, and the claim said one row of one person."""
    model = PrivateGaussianNB(norm_bound=4.0, classes=[0, 1], random_state=0)
    for pipeline in (
        Sampling([("twice", Twice()), ("model", model)]),
        Sampling([("x", Twice()), ("y", Deeper(model))]),
    ):
        with pytest.raises(BadInput, match="for one row of one person"):
            pipeline.fit(X, Y)
    make_pipeline(model).fit(X, Y)


class Deeper:
    """An estimator that fits another."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        return self.model.fit(X, y)


def test_means_of_many_records_are_no_rows():
    with pytest.raises(BadInput, match="for one row of one person"):
        Birch(n_clusters=PrivateKMeans(2, norm_bound=4.0, random_state=0), threshold=0.3).fit(X)


def test_rows_with_labels_of_other_people_are_refused():
    """Every fit on exchanged labels was charged for one row of a person who is in two."""
    charged = []
    till = SimpleNamespace(charge=lambda event, **more: charged.append(event))
    with pytest.raises(BadInput, match="permutation_test_score"):
        permutation_test_score(
            PrivateGaussianNB(norm_bound=4.0, classes=[0, 1], ledger=till), X, Y, n_permutations=2, cv=2
        )
    assert charged == []


def test_the_seeds_of_an_ensemble_do_not_replace_the_system_s_source():
    """They have 31 bits: whoever tries all of them takes the noise away."""
    whole = {"n_estimators": 2, "bootstrap": False, "random_state": 0}
    model = PrivateGaussianNB(norm_bound=4.0, classes=[0, 1])
    drawn = [BaggingClassifier(each, **whole).fit(X, Y) for each in (model, model, make_pipeline(model))]
    parts = [part[-1] if isinstance(part, Pipeline) else part for found in drawn for part in found.estimators_]
    assert {part.random_state for part in parts} == {None}
    assert {part.randomness_ for part in parts} == {"cryptographic, from the operating system"}
    assert len({part.theta_[0, 0] for part in parts}) == len(parts)
    asked = BaggingClassifier(PrivateGaussianNB(norm_bound=4.0, classes=[0, 1], random_state=0), **whole).fit(X, Y)
    assert all(part.randomness_.startswith("seeded") for part in asked.estimators_)


def test_an_ensemble_that_numbers_labels_is_not_covered():
    """One record of a second class gives all others another number."""
    model = PrivateGaussianNB(norm_bound=4.0, classes=[0, 1], random_state=0).fit(X, Y)
    assert any("numbers that an ensemble gives" in line for line in model.evidence().not_covered)
