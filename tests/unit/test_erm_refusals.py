"""What private estimators refuse by shape and type, before anything is charged and without a word of the values."""

from array import array
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn")
from scipy import sparse

from tacit import BadInput
from tacit.erm import (
    PrivateGaussianNB,
    PrivateKMeans,
    PrivateLocalRegression,
    PrivateLogisticRegression,
    PrivateStandardScaler,
)
from tacit.erm.rows import answers, places

X = np.random.default_rng(0).normal(size=(300, 3))
Y = (X[:, 0] > 0).astype(int)
SETTINGS = {"epsilon": 1.0, "delta": 1e-6, "norm_bound": 4.0, "random_state": 0}


def test_a_value_under_a_mask_is_missing():
    """Once the number stored under the mask counted."""
    hidden = X > 1
    found = PrivateLogisticRegression(**SETTINGS, classes=[0, 1]).fit(np.ma.masked_array(X, mask=hidden), Y).coef_
    missing = PrivateLogisticRegression(**SETTINGS, classes=[0, 1]).fit(np.where(hidden, np.nan, X), Y).coef_
    assert np.array_equal(found, missing)


SHAPELESS = {
    "tuple": (777.125, 2.0, 3.0),
    "texts": ["777.125", "b", "c"],
    "typed": array("d", [777.125, 2.0, 3.0]),
    "scalar": 777.125,
    "ragged": [[777.125], [1.0, 2.0], [3.0]],
    "complex": np.array([[777.125 + 1j], [1.0], [2.0]]),
    "complex sparse": sparse.csr_matrix(np.array([[777.125 + 1j], [1.0], [2.0]])),
    "records": [{"age": 777.125}, {"age": 1.0}, {"age": 2.0}],
}


@pytest.mark.parametrize("form", SHAPELESS)
@pytest.mark.parametrize("made", [PrivateKMeans, PrivateStandardScaler, PrivateGaussianNB])
def test_rows_that_are_no_table_are_refused_without_their_values(made, form):
    """Errors of scikit-learn print the array."""
    more = {PrivateStandardScaler: {"bounds": (0, 1)}, PrivateGaussianNB: {"classes": [0, 1]}}.get(made, {})
    with pytest.raises(BadInput) as refused:
        made(delta=1e-3, **more).fit(SHAPELESS[form], [0, 1, 1])
    assert not any(value in str(refused.value) for value in ("777", "'b'"))


def test_complex_labels_are_refused_without_their_values():
    with pytest.raises(BadInput, match="Complex data not supported") as refused:
        PrivateGaussianNB(delta=1e-3, classes=[0, 1]).fit(X[:3], np.array([777.125 + 1j, 1, 0]))
    assert "777" not in str(refused.value)


def test_a_complex_word_of_a_category_is_one_label_of_none():
    """scikit-learn refused the whole column, and printed every label."""
    pd = pytest.importorskip("pandas")
    column = pd.Series([0, 777.125 + 1j, 1, 1 + 0j], dtype="category")
    assert places(answers(column), np.array([0, 1])).tolist() == [0, -1, 1, 1]
    PrivateGaussianNB(delta=1e-3, classes=[0, 1]).fit(X[:4], column)


@pytest.mark.parametrize("state", [1.5, -1, "7", np.random.RandomState(0)])
def test_a_random_state_that_is_none_is_refused_before_the_charge(state):
    charged = []
    till = SimpleNamespace(charge=lambda event, **more: charged.append(event))
    settings = {**SETTINGS, "random_state": state, "ledger": till}
    with pytest.raises(BadInput, match="random_state must be"):
        PrivateLogisticRegression(**settings, classes=[0, 1]).fit(X, Y)
    with pytest.raises(BadInput, match="random_state must be"):
        PrivateLocalRegression(target_range=(0, 1), random_state=state, ledger=till).randomized(X, Y)
    assert not charged


def test_labels_of_which_some_are_missing_ask_for_the_list_of_classes():
    """scikit-learn would compare a text with a number, and show how that ends."""
    pd = pytest.importorskip("pandas")
    labels = pd.Series(["ill", None, float("nan"), "well"] * 75, dtype=object)
    with pytest.raises(BadInput, match=r"labels of several kinds.*Give classes="):
        PrivateGaussianNB(delta=1e-3).fit(X, labels)
    PrivateGaussianNB(delta=1e-3, classes=["ill", "well"]).fit(X, labels)


def test_bounds_by_feature_are_said_to_be_all_lower_ends_first():
    with pytest.raises(BadInput, match="all lower ends first"):
        PrivateStandardScaler(bounds=[(0, 120), (10, 60)]).fit(X[:, :2])
