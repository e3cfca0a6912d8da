"""What strangers did with private estimators: models that travel, masks, searches of whole fits, settings far out."""

import copy
import datetime
import pickle
import warnings

import numpy as np
import pandas
import pyarrow
import pytest

pytest.importorskip("sklearn")
import tacit
from tacit.core import BadInput
from tacit.erm import (
    PrivateAdditiveTrees,
    PrivateGaussianNB,
    PrivateGridSearchCV,
    PrivateKMeans,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateStandardScaler,
)
from tacit.erm.rows import answers, numbers, places
from tacit.events import Gaussian
from tacit.mechanism import Account

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
Y = (X[:, 0] > 0).astype(int)
MODELS = {
    "fit": lambda ledger: PrivateLogisticRegression(
        1.0, 1e-5, classes=[0, 1], norm_bound=3.0, method="output", ledger=ledger
    ),
    "account": lambda ledger: PrivateKMeans(2, 1.0, 1e-5, ledger=Account(ledger, analyst="a")),
    "search": lambda ledger: PrivateGridSearchCV(
        PrivateGaussianNB(classes=[0, 1]), {"norm_bound": [1.0, 3.0]}, 1.0, 1e-5, ledger=ledger, random_state=0
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_model_loads_where_its_ledger_is_not_and_pays_nowhere_else(name, tmp_path):
    place = tmp_path / "budget.db"
    ledger = tacit.Ledger.create(place, epsilon=50.0, delta=1e-3, unit="record")
    model = MODELS[name](ledger).fit(X, Y)
    held, said = pickle.dumps(model), model.predict(X)
    assert copy.copy(model).ledger is model.ledger
    assert len(ledger.entries()) == 1
    place.rename(tmp_path / "away.db")
    travelled = pickle.loads(held)
    again = pickle.dumps(travelled)
    assert np.array_equal(travelled.predict(X), said)
    assert travelled.evidence().not_covered == model.evidence().not_covered
    with pytest.raises(BadInput, match="could not be opened when the model was loaded"):
        travelled.fit(X, Y)
    (tmp_path / "away.db").rename(place)
    for returned in (pickle.loads(again), pickle.loads(held), copy.deepcopy(model)):
        returned.fit(X, Y)
    assert len(ledger.entries()) == 4


def test_a_model_that_is_not_fitted_needs_its_ledger(tmp_path):
    """As before: a worker process that cannot pay says so at once."""
    ledger = tacit.Ledger.create(tmp_path / "budget.db", epsilon=5.0, delta=1e-3, unit="record")
    held = pickle.dumps(PrivateLogisticRegression(classes=[0, 1], ledger=ledger))
    (tmp_path / "budget.db").unlink()
    with pytest.raises(BadInput, match="is not there"):
        pickle.loads(held)


def test_a_label_or_target_under_a_mask_is_missing():
    hidden = np.arange(300) < 200
    found = PrivateGaussianNB(1e5, 1e-5, classes=[0, 1], norm_bound=3.0).fit(X, np.ma.array(Y, mask=hidden))
    assert found.class_count_.sum() == pytest.approx(100, abs=1)
    words = np.ma.array(np.array(["a", "b"])[Y], mask=hidden)
    assert PrivateGaussianNB(1e5, 1e-5, classes=["a", "b"], norm_bound=3.0).fit(
        X, words
    ).class_count_.sum() == pytest.approx(100, abs=1)
    target = np.ma.array(np.where(hidden, 100.0, 0.5), mask=hidden)
    model = PrivateLinearRegression(1e5, 1e-5, target_range=(-1.0, 1.0), norm_bound=3.0)
    plain = np.where(hidden, np.nan, 0.5)
    assert model.fit(X, target).intercept_ == pytest.approx(model.fit(X, plain).intercept_, abs=1e-3)


@pytest.mark.parametrize("strength", [1e-100, 1e-30, 1e-17])
def test_a_tiny_regularisation_is_predicted_too(strength):
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], regularization=strength, norm_bound=3.0).fit(X, Y)
    assert model.method_ == "gradient"


@pytest.mark.parametrize("bounds", [(-1e300, 1e300), (0.0, 5e-324), ([0.0] * 3, [1.0, 1.0, np.inf]), (0.0, np.nan)])
def test_bounds_have_a_width_that_can_be_certified(bounds):
    for made in (PrivateStandardScaler(bounds=bounds), PrivateAdditiveTrees(bounds=bounds, classes=[0, 1])):
        with pytest.raises(BadInput, match="width"):
            made.fit(X, Y)


def test_a_search_takes_rows_or_a_frame():
    searched = PrivateGridSearchCV(PrivateGaussianNB(classes=[0, 1]), {"norm_bound": [1.0]}, 1.0, 1e-5)
    with pytest.raises(BadInput, match="rows or a data frame, got generator"):
        searched.fit((row for row in X), Y)


@pytest.mark.parametrize("paid", [False, True])
def test_an_estimator_that_won_a_search_has_the_claim_of_the_search(paid, tmp_path):
    ledger = tacit.Ledger.create(tmp_path / "b.db", epsilon=50.0, delta=1e-3, unit="record") if paid else None
    own = PrivateGaussianNB(1.0, 1e-6, classes=[0, 1]).fit(X, Y)

    def make_run(bound, source):
        return PrivateGaussianNB(1.0, 1e-6, classes=[0, 1], norm_bound=bound, random_state=source).fit(X, Y), bound

    found = tacit.search(make_run, [1.0, 3.0], event=own.event_, delta=1e-6, shape=1, rng=0, ledger=ledger)
    won = found.result
    assert won.bound_ == found.evidence.upper
    assert won.bound_.epsilon > 1.5 * own.bound_.epsilon
    assert (won.event_, won.receipt_, won.utility_) == (found.evidence.claim.event, found.receipt, {})
    evidence = won.evidence()
    assert evidence.upper == found.evidence.upper
    assert evidence.provenance["settings"] == found.evidence.provenance["settings"]
    assert any("other releases" in line for line in evidence.not_covered) is not paid
    assert set(found.evidence.not_covered) < set(evidence.not_covered)
    assert tacit.verify(evidence).ok
    assert pickle.loads(pickle.dumps(won)).bound_ == won.bound_
    assert "settings" not in won.fit(X, Y).evidence().provenance  # a later fit is one of its own
    assert won.bound_.epsilon == own.bound_.epsilon


def test_a_search_of_searches_says_both():
    def make_run(mean, source):
        made = PrivateGridSearchCV(
            PrivateGaussianNB(classes=[0, 1]), {"norm_bound": [1.0, 3.0]}, 1.0, 1e-6, trials=mean, random_state=source
        )
        return made.fit(X, Y), 0.0

    found = tacit.search(make_run, [10.0], event=Gaussian(1.0), delta=1e-6, shape=1, rng=0)
    assert found.result.evidence().provenance["settings"].count("private selection") == 2


def tiny_and_huge():
    x = X.copy()
    x[:4] = [[5e-324, 1e-310, 1e-200], [1e300, -1e300, 1e-310], [np.nan, np.inf, 5e-324], [1.7e308, 1.7e308, 0.0]]
    return x


STRICT = {
    "linear": lambda: PrivateLogisticRegression(classes=[0, 1], norm_bound=3.0),
    "softmax": lambda: PrivateLogisticRegression(classes=[0, 1, 2], norm_bound=3.0),
    "bayes": lambda: PrivateGaussianNB(classes=[0, 1], norm_bound=3.0),
    "regression": lambda: PrivateLinearRegression(norm_bound=3.0, target_range=(-1.0, 1.0)),
    "means": lambda: PrivateKMeans(2, norm_bound=3.0),
    "scaler": lambda: PrivateStandardScaler(bounds="private"),
    "trees": lambda: PrivateAdditiveTrees(bounds=(-3.0, 3.0), classes=[0, 1]),
}


@pytest.mark.parametrize("name", STRICT)
def test_no_value_raises_where_numpy_was_told_to_raise(name):
    """`numpy.seterr(all="raise")` is in many programs; then one record's tiny value stopped the fit."""
    made, odd = STRICT[name](), tiny_and_huge()
    with np.errstate(all="raise"):
        made.fit(odd, Y)
        for say in ("predict", "predict_proba", "transform"):
            assert getattr(made, say, len)(odd) is not None
        assert np.geterr()["under"] == "raise"


def test_warnings_point_at_the_line_that_fits():
    with pytest.warns(tacit.PrivacyWarning) as told:
        PrivateGaussianNB(1.0, 0.5).fit(X, Y)
    assert {line.filename for line in told} == {__file__}


@pytest.mark.parametrize("far", [2**62, -(2**62), 10**15])
def test_a_time_that_python_does_not_have_is_no_number_and_no_label(far):
    times = pyarrow.array([86_400_000, 172_800_000] * 20 + [far], pyarrow.int64()).view(pyarrow.date64())
    column = pandas.Series(pandas.arrays.ArrowExtensionArray(times))
    frame = pandas.DataFrame({"a": np.arange(41.0), "d": column})
    model = PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], norm_bound=50.0, random_state=1)
    with pytest.warns(UserWarning, match="not of a number type"):
        found = model.fit(frame, np.arange(41) % 2)
    assert found.coef_.shape == (1, 2)
    days = [datetime.date(1970, 1, 2), datetime.date(1970, 1, 3)]
    assert places(answers(column), answers(days)).tolist() == [0, 1] * 20 + [-1]


@pytest.mark.parametrize("odd", [np.ma.masked, np.complex64(1), np.complex128(1j), [1], np.array([1])], ids=range(5))
@pytest.mark.parametrize("kind", [list, lambda rows: pandas.DataFrame(rows, dtype=object)])
def test_no_entry_and_no_label_makes_numpy_warn(kind, odd):
    """A warning that one person's value makes tells of it, as an error would."""
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, odd]]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = numbers(kind(rows))
        places(answers([0, 1, odd]), answers([0, 1]))
    assert [str(item.message) for item in told if "not of a number type" not in str(item.message)] == []
    assert found[:2].tolist() == rows[:2]
