"""Scaler, components, naive Bayes, k-means, additive trees and a loss of one's own: checks, costs, tables, values."""

import math
import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.linear_model import RANSACRegressor
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import tacit
from tacit import BadInput, Schema
from tacit.erm import (
    PrivateAdditiveTrees,
    PrivateERM,
    PrivateGaussianNB,
    PrivateKMeans,
    PrivateLinearRegression,
    PrivateLocalRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateStandardScaler,
)
from tacit.erm.losses import Logistic, SmoothHinge
from tacit.erm.scaling import found_bounds
from tacit.mechanism import Account

MADE = {
    "scaler": lambda **more: PrivateStandardScaler(1.0, 1e-6, bounds=(-5, 5), **{"random_state": 0, **more}),
    "scaler, bounds found": lambda **more: PrivateStandardScaler(
        1.0, 1e-6, bounds="private", **{"random_state": 0, **more}
    ),
    "components": lambda **more: PrivatePCA(2, 1.0, 1e-6, norm_bound=4.0, **{"random_state": 0, **more}),
    "k-means": lambda **more: PrivateKMeans(3, 1.0, 1e-6, norm_bound=4.0, **{"random_state": 0, **more}),
    "naive Bayes": lambda **more: PrivateGaussianNB(
        1.0, 1e-6, norm_bound=4.0, classes=[0, 1], **{"random_state": 0, **more}
    ),
    "trees": lambda **more: PrivateAdditiveTrees(
        1.0, 1e-6, bounds=(-5, 5), classes=[0, 1], **{"random_state": 0, **more}
    ),
    "own loss": lambda **more: PrivateERM(
        SmoothHinge(0.3), 1.0, 1e-6, norm_bound=4.0, classes=[0, 1], **{"random_state": 0, **more}
    ),
}
CHECKED = [
    PrivateStandardScaler(bounds=(-5, 5), random_state=0),
    PrivateStandardScaler(bounds="private", random_state=0),
    PrivatePCA(random_state=0),
    PrivateKMeans(random_state=0),
    PrivateGaussianNB(random_state=0),
    PrivateAdditiveTrees(bounds=(-10, 10), random_state=0),
    PrivateERM(random_state=0),
]
LABELS = "soundness rule 8 and design decision 6: labels_ would keep the cluster of every person in the fitted model"

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
Y = (X @ [2.0, -1.0, 0.5] + 0.3 * RNG.normal(size=3000) > 0).astype(int)


class Till:
    def __init__(self, room):
        self.room, self.asked = room, []

    def charge(self, event, *, key, purpose="", analyst=""):
        if len(self.asked) >= self.room:
            raise tacit.BudgetExceeded(asked=1.0, remaining=0.0)
        self.asked.append(event)


@parametrize_with_checks(
    CHECKED, expected_failed_checks=lambda e: {"check_clustering": LABELS} if isinstance(e, PrivateKMeans) else {}
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_them(estimator, check):
    check(estimator)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("name", MADE)
def test_the_cost_is_that_of_the_event_charged_and_at_most_epsilon(name, adjacency, tmp_path):
    till = Till(1)
    model = MADE[name](adjacency=adjacency, ledger=till).fit(X, Y)
    assert till.asked == [model.event_]
    assert model.bound_.epsilon == pytest.approx(tacit.epsilon(model.event_, delta=1e-6, adjacency=adjacency).upper)
    assert 0.98 < model.bound_.epsilon <= 1.0
    assert tacit.verify(model.evidence()).ok
    assert not any("float64" in line for line in model.evidence().not_covered)
    if adjacency == "replace":
        assert model.report(str(tmp_path / "page.html")).verdict == "untested"


@pytest.mark.parametrize("name", MADE)
def test_a_refused_charge_leaves_no_claim_and_draws_nothing(name, monkeypatch):
    model = MADE[name]().fit(X, Y)
    model.ledger = Till(0)
    monkeypatch.setattr("tacit.mechanism.draws.rounded_normal", None)
    with pytest.raises(tacit.BudgetExceeded):
        model.fit(X, Y)
    assert not hasattr(model, "bound_")
    with pytest.raises(Exception, match="not fitted"):
        model.evidence()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324])
@pytest.mark.parametrize("name", MADE)
def test_no_value_of_a_person_raises_or_reaches_another(name, value):
    x, y = X[:400].copy(), Y[:400].astype(float)
    x[7], x[8, 1], y[9] = value, value, value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MADE[name]().fit(x, y)
        out = model.predict(x) if hasattr(model, "predict") else model.transform(x)
    assert np.isfinite(np.asarray(out, dtype=float)).all()
    assert all(np.isfinite(v).all() for v in vars(model).values() if isinstance(v, np.ndarray) and v.dtype.kind == "f")


def test_the_scaler_finds_means_and_spreads():
    x = X * [1.0, 0.5, 2.0] + [3.0, -1.0, 0.0]
    for bounds in ((-12, 12), ([-1, -4, -8], [7, 2, 8]), "private"):
        scaler = PrivateStandardScaler(2.0, 1e-6, bounds=bounds, random_state=0).fit(x)
        assert np.allclose(scaler.mean_, [3.0, -1.0, 0.0], atol=0.25)
        assert np.allclose(scaler.scale_, [1.0, 0.5, 2.0], rtol=0.35)
        found = scaler.transform(x)
        assert np.linalg.norm(found, axis=1).max() <= scaler.norm_bound_
        assert np.allclose(scaler.inverse_transform(found), np.clip(x, scaler.low_, scaler.high_))
    with pytest.raises(BadInput, match="public bounds"):
        PrivateStandardScaler().fit(x)
    with pytest.raises(BadInput, match="low below high"):
        PrivateStandardScaler(bounds=(1, 0)).fit(x)


def test_bounds_found_hold_frequent_values_and_no_rare_one():
    x = np.concatenate([np.full(3000, 5.0), [1e9]])[:, None] * [1.0, -1.0]
    low, high = found_bounds(x, 3.0, tacit.core.source(1))
    assert (low[0], high[0]) == (0.0, 8.0)
    assert (low[1], high[1]) == (-8.0, 0.0)


def test_components_are_those_of_the_data():
    x = X * [3.0, 1.0, 0.2] + 0.5
    model = PrivatePCA(2, 3.0, 1e-6, norm_bound=8.0, random_state=0).fit(x)
    assert np.abs(model.components_[0] @ [1.0, 0.0, 0.0]) > 0.99
    assert np.allclose(model.components_ @ model.components_.T, np.eye(2))
    assert np.allclose(model.mean_, 0.5, atol=0.3)
    assert model.explained_variance_[0] == pytest.approx(9.0, rel=0.25)
    with pytest.raises(BadInput, match="at most the number of features"):
        PrivatePCA(4).fit(x)


def test_k_means_finds_clusters_and_keeps_nobody():
    centres = np.array([[2.0, 0.0, 0.0], [-2.0, 1.0, 0.0], [0.0, -2.0, 1.0]])
    own = RNG.integers(0, 3, 3000)
    x = centres[own] + 0.2 * RNG.normal(size=(3000, 3))
    model = PrivateKMeans(3, 4.0, 1e-6, norm_bound=4.0, random_state=3).fit(x)
    near = np.linalg.norm(model.cluster_centers_[:, None] - centres[None], axis=2).min(axis=0)
    assert near.max() < 0.5
    assert not any(isinstance(v, np.ndarray) and len(v) == len(x) for v in vars(model).values())
    assert len(model.fit_predict(x)) == len(x)


def test_naive_bayes_and_trees_predict():
    bayes = MADE["naive Bayes"]().fit(X, Y)
    assert bayes.score(X, Y) > 0.85
    assert np.allclose(bayes.predict_proba(X).sum(axis=1), 1)
    wave = (np.sin(3 * X[:, 0]) > 0).astype(int)  # no line tells these apart
    linear = PrivateLogisticRegression(3.0, 1e-6, norm_bound=4.0, classes=[0, 1], random_state=0).fit(X, wave)
    trees = PrivateAdditiveTrees(3.0, 1e-6, bounds=(-4, 4), classes=[0, 1], random_state=0).fit(X, wave)
    assert roc_auc_score(wave, linear.decision_function(X)) < 0.75
    assert roc_auc_score(wave, trees.decision_function(X)) > 0.85
    parts = trees.contributions(X)
    assert parts.shape == X.shape
    assert np.allclose(parts.sum(axis=1) + trees.intercept_, trees.decision_function(X))


def test_tables_go_in_as_they_are():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"age": 40 + 10 * X[:, 0], "town": np.where(X[:, 1] > 0, "A", "B"), "buys": np.where(Y, "y", "n")}
    )
    frame.loc[3, "age"] = math.nan
    columns = (
        tacit.Column("age", range=(0, 100)),
        tacit.Column("town", kind="category", words=("A", "B")),
        tacit.Column("buys", kind="category", words=("n", "y")),
    )
    schema = Schema(columns, label="buys")
    for made in (PrivateGaussianNB, PrivateAdditiveTrees, PrivateERM):
        model = made(epsilon=2.0, schema=schema, random_state=0).fit(frame)
        assert np.mean(model.predict(frame) == frame["buys"]) > 0.75
    assert PrivatePCA(2, 2.0, schema=schema, random_state=0).fit(frame).transform(frame).shape == (3000, 2)
    assert len(PrivateKMeans(2, 2.0, schema=schema, random_state=0).fit(frame).predict(frame)) == 3000
    regression = PrivateLinearRegression(2.0, 1e-6, schema=schema, target_range=(-5, 5), random_state=0)
    assert regression.fit(frame, X[:, 0]).score(frame, X[:, 0]) > 0.5
    with pytest.raises(BadInput, match="targets as y"):
        regression.fit(frame)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (type("Steep", (Logistic,), {"lipschitz": 0.5})(0.5), "steeper"),
        (type("Bent", (Logistic,), {})(1.0, 0.1), "curved"),
        (type("Falls", (Logistic,), {"slope": lambda self, m: -np.asarray(Logistic().slope(-m))})(), "slope"),
        (type("Other", (Logistic,), {"value": lambda self, m: np.asarray(m) ** 2})(), "slope"),
        (object(), "needs a function"),
    ],
)
def test_a_loss_that_contradicts_its_constants_is_refused(wrong, said):
    with pytest.raises(BadInput, match=said):
        PrivateERM(wrong, classes=[0, 1]).fit(X, Y)


def test_penalties_without_a_proof_are_refused():
    with pytest.raises(BadInput, match="Xu"):
        PrivateERM(penalty="l1", classes=[0, 1]).fit(X, Y)


def test_searches_of_any_library_are_refused():
    """They clone, then set_params; no name of a function is needed to see it, and a worker process changes nothing."""
    base = PrivateLogisticRegression(norm_bound=4.0, classes=[0, 1], random_state=0)
    for trial in (
        clone(base).set_params(regularization=0.1),
        pickle.loads(pickle.dumps(clone(base).set_params(regularization=0.1))),
        clone(clone(base).set_params(regularization=0.1)),
        clone(make_pipeline(base)).set_params(privatelogisticregression__regularization=0.1),
    ):
        with pytest.raises(BadInput, match="has no proof"):
            trial.fit(X, Y)
    clone(base).set_params(random_state=1).fit(X, Y)
    base.set_params(regularization=0.1).fit(X, Y)  # one's own settings, not those of a copy
    whole = GridSearchCV(make_pipeline(base), {"privatelogisticregression": [base]}, cv=2, error_score="raise")
    chosen = SequentialFeatureSelector(base, n_features_to_select=1, cv=2)
    elsewhere = SequentialFeatureSelector(base, n_features_to_select=1, cv=2, n_jobs=2)  # no frame of it is there
    for search in (whole, chosen, elsewhere, RFECV(base, cv=2), TunedThresholdClassifierCV(base, cv=2)):
        with pytest.raises((BadInput, ValueError), match="has no proof"):  # some wrap what every fit raised
            search.fit(X, Y)
    numbers = PrivateLinearRegression(norm_bound=4.0, target_range=(-4.0, 4.0), random_state=0)
    with pytest.raises(BadInput, match="has no proof"):
        RANSACRegressor(make_pipeline(numbers), min_samples=20).fit(X, X[:, 0])
    with pytest.raises(BadInput, match="has no proof"):
        SelfTrainingClassifier(base, criterion="k_best").fit(X, np.where(np.arange(len(Y)) % 2, Y, -1))


def test_an_account_in_front_of_a_ledger_hides_no_neighbours(tmp_path):
    """Once, a pure event for one record more or less went through an account to a replace budget at half its price."""
    ledger = tacit.Ledger.create(tmp_path / "ledger.db", epsilon=1.5, delta=1e-4, unit="record", adjacency="replace")
    account = Account(ledger, analyst="ann")
    model = PrivateLogisticRegression(1.0, 0.0, norm_bound=4.0, classes=[0, 1], ledger=account, random_state=0)
    with pytest.raises(tacit.TacitError):
        model.fit(X, Y)
    model.set_params(adjacency="replace").fit(X, Y)
    assert [entry.analyst for entry in ledger.entries()] == ["ann"]


WRONG = [
    ("scaler", {"bounds": ([0, 0], [1, 1])}),
    ("scaler", {"bounds": "guess"}),
    ("scaler", {"bounds": 5}),
    ("scaler", {"bounds": ("a", "b")}),
    ("naive Bayes", {"classes": 5}),
    ("naive Bayes", {"classes": "yes"}),
    ("scaler, bounds found", {"delta": 0.0}),
    ("components", {"n_components": 9}),
    ("components", {"norm_bound": 0.0}),
    ("k-means", {"max_iter": 0}),
    ("k-means", {"n_clusters": 2.5}),
    ("naive Bayes", {"classes": [1, 1]}),
    ("trees", {"bins": 1}),
    ("trees", {"bounds": ([0, 0], 1)}),
    ("own loss", {"regularization": "much"}),
    ("own loss", {"penalty": "l1"}),
]


@pytest.mark.parametrize(("name", "settings"), WRONG)
def test_bad_settings_are_refused_before_anything_is_paid(name, settings):
    till = Till(9)
    model = MADE[name](ledger=till)
    for key, value in settings.items():
        setattr(model, key, value)
    with pytest.raises(BadInput):
        model.fit(X, Y)
    assert till.asked == []


@pytest.mark.parametrize("made", [PrivateLinearRegression, PrivateLocalRegression])
def test_bad_ridges_are_refused_before_anything_is_paid(made):
    till = Till(9)
    with pytest.raises(BadInput, match="regularization"):
        made(delta=1e-6, target_range=(0, 1), regularization="much", ledger=till).fit(X, Y)
    assert till.asked == []


def test_people_with_several_records_are_not_promised_anything(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": 40 + 10 * X[:, 0], "who": np.arange(len(X)) // 3, "buys": np.where(Y, "y", "n")})
    columns = (tacit.Column("age", range=(0, 100)), tacit.Column("buys", kind="category", words=("n", "y")))
    schema = Schema(columns, label="buys", unit="who")
    model = PrivateLogisticRegression(1.0, 1e-6, schema=schema, random_state=0).fit(frame)
    assert any("not one who" in line for line in model.evidence().not_covered)
    ledger = tacit.Ledger.create(tmp_path / "users.db", epsilon=9.0, delta=1e-4, unit="user")
    with pytest.raises(tacit.Mismatch, match="one user"):
        PrivateGaussianNB(1.0, 1e-6, classes=[0, 1], ledger=ledger).fit(X, Y)
    with pytest.raises(tacit.Mismatch, match="one user"):
        tacit.search(lambda c, r: (c, 0.0), [1], event=tacit.events.Gaussian(9.0), delta=1e-6, ledger=ledger)


def test_components_keep_what_the_theorem_promises():
    """The variance that the best components hold more, beside the bound, over fits; a fortieth of it would fail."""
    x = RNG.normal(size=(4000, 6)) * [2.0, 1.5, 1.0, 0.5, 0.5, 0.5] / 8 + 0.2
    best = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1][:2].sum()
    lost = []
    for seed in range(30):
        model = PrivatePCA(2, 0.3, 1e-6, norm_bound=2.0, random_state=seed).fit(x)
        lost.append(best - np.trace(model.components_ @ np.cov(x.T, bias=True) @ model.components_.T))
    (promised,) = model.utility_.values()
    assert promised / 40 < max(lost) <= promised


def test_naive_bayes_and_regression_bound_their_generalisation_gap():
    naive = PrivateGaussianNB(1.0, 1e-6, classes=[0, 1], norm_bound=4.0, random_state=0).fit(X, Y)
    line = PrivateLinearRegression(1.0, 1e-6, target_range=(-1, 1), norm_bound=4.0, random_state=0).fit(X, X[:, 0])
    for model in (naive, line):
        (gap,) = model.utility_.values()
        assert gap == tacit.privacy_loss(model.event_, "replace").delta(0.0).upper < 0.5
