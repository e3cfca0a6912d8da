"""Tables and answers that strangers bring: texts, dates, unnamed columns, coarse tables, tensors, percentages."""

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import BadInput
from tacit.attacks import near_duplicates
from tacit.core import source
from tacit.study.bracketing import _halved

pytest.importorskip("sklearn")
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

N = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N, 4))
Y = (X[:, 0] + RNG.normal(size=2 * N) > 0).astype(int)


def attacked(model, x, y, references=0, **more):
    take = x.iloc if isinstance(x, pd.DataFrame) else x
    sides = (take[:N], y[:N]), (take[N:], y[N:])
    fitted = model.fit(*sides[0]) if isinstance(model, DecisionTreeClassifier | RandomForestRegressor) else model
    return tacit.attack(fitted, *sides, references=references, rng=1, **more)


def control(evidence, name):
    return next(test for test in evidence.controls if test.name == name)


class OfNumbers:
    """A model of a frame that looks at its column of numbers alone."""

    def __init__(self, name):
        self.name = name
        self.tree = DecisionTreeClassifier(random_state=0)

    def fit(self, x, y):
        self.tree.fit(np.asarray(x[[self.name]]), y)
        return self

    def __call__(self, x):
        return self.tree.predict_proba(np.asarray(x[[self.name]]))


TABLES = {
    "texts that are all different": {"text": [f"person number {k} said so" for k in RNG.permutation(2 * N)]},
    "dates": {"day": pd.date_range("2020", periods=2 * N)[RNG.permutation(2 * N)]},
    "whole numbers with gaps": {"age": pd.array([None if k % 7 == 0 else k for k in range(2 * N)], dtype="Int64")},
    "categories": {"kind": pd.Categorical(RNG.choice(["a", "b"], 2 * N))},
}


@pytest.mark.parametrize("name", TABLES)
def test_an_honest_split_of_any_table_is_informative(name):
    """Values were once numbered in the order of their rows, by which the blind baseline told members from others."""
    frame = pd.DataFrame({"size": X[:, 0], **TABLES[name]}).sample(frac=1, random_state=0)
    evidence = attacked(OfNumbers("size").fit(frame[:N], Y[:N]), frame, Y)
    assert evidence.verdict == "no claim"
    assert control(evidence, "blind baseline").passed


def test_categories_of_other_shares_are_seen_without_the_model():
    kind = np.where(np.arange(2 * N) < N, RNG.choice(["b", "a", "c"], 2 * N), "a")
    frame = pd.DataFrame({"size": X[:, 0], "kind": kind})
    assert not control(attacked(OfNumbers("size").fit(frame[:N], Y[:N]), frame, Y), "blind baseline").passed


def test_columns_may_be_numbered():
    frame = pd.DataFrame(X)
    evidence = attacked(DecisionTreeClassifier(random_state=0), frame, pd.Series(Y), references=4)
    assert evidence.verdict == "no claim"
    assert evidence.measurements[0].auc.value > 0.6


def test_a_regressor_of_a_frame_with_whole_numbers_as_labels():
    frame = pd.DataFrame({f"c{k}": X[:, k] for k in range(4)})
    counts = RNG.poisson(np.exp(X[:, 0]))
    evidence = attacked(RandomForestRegressor(10, random_state=0), frame, counts, references=4)
    assert evidence.measurements[0].auc.value > 0.6


def coarse(seed, members=300, outsiders=300, width=12):
    rng = np.random.default_rng(seed)
    often = rng.uniform(0.05, 0.5, width)
    x = (rng.random((members + outsiders, width)) < often).astype(float)
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-2 * (x - often) @ rng.normal(size=width)))).astype(int)
    return x, y, np.arange(len(x)) < members


def common_and_rare(seed):
    """Some combinations of values are common, most are rare; every one has its usual label."""
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, 2001)
    place = rng.choice(2000, 1400, p=often / often.sum())
    y = np.where(rng.random(1400) < 0.1, 1, 0) ^ rng.integers(0, 2, 2000)[place]
    return (rng.random((2000, 14)) < 0.3).astype(float)[place], y


def test_coarse_tables_make_no_leak_of_their_own():
    """A model of other people knows nothing. Leaving out the outsiders with a copy, and no members, would show a leak:
    those left have rare values and unlikely labels."""
    areas, one_sided, member = [], [], np.arange(600) < 300
    for seed in range(8):
        x, y = common_and_rare(seed)
        stranger = LogisticRegression().fit(x[600:], y[600:])
        x, y = pd.DataFrame(x[:600]), y[:600]
        sides = (x[member], y[member]), (x[~member], y[~member])
        evidence = tacit.attack(
            lambda x, m=stranger: m.predict_proba(np.asarray(x)), *sides, attacks=["loss"], rng=seed
        )
        assert evidence.verdict == "no claim"
        areas.append(evidence.measurements[0].auc.value)
        sure = stranger.predict_proba(np.asarray(x))[np.arange(600), y]
        inside, outside = sure[member], sure[~member & ~near_duplicates(np.asarray(x), member, y).of_members]
        one_sided.append(np.mean(inside[:, None] > outside) + np.mean(inside[:, None] == outside) / 2)
    assert abs(np.mean(areas) - 0.5) < 0.02
    assert np.mean(one_sided) > 0.55


def test_a_coarse_table_is_told_from_copied_outsiders():
    x, y, member = coarse(1, width=6)
    left, test = near_duplicates(x, member, y).settled(member)
    assert test.passed
    assert "coarse" in test.found
    assert not left.any()
    copied = np.concatenate((X[:N], X[:N]))
    member = np.arange(2 * N) < N
    left, test = near_duplicates(copied, member).settled(member)
    assert not test.passed
    assert "more outsiders" in test.found


def test_many_records_in_one_place_are_compared_quickly():
    x = np.concatenate((1e-6 * RNG.normal(size=(12_000, 3)), RNG.normal(size=(18_000, 3))))[RNG.permutation(30_000)]
    found = near_duplicates(x, np.arange(30_000) < 15_000)
    assert 11_000 < found.of_members.sum() < 14_000


def shares(x):
    p = 1 / (1 + np.exp(-x[:, 0]))
    return np.stack((1 - p, p), axis=1)


def test_a_function_may_answer_with_a_tensor_that_has_a_gradient():
    torch = pytest.importorskip("torch")
    weight = torch.ones((), requires_grad=True, dtype=torch.float64)
    found = attacked(lambda x: weight * torch.as_tensor(shares(x)), X, Y)
    plain = attacked(shares, X, Y)
    assert found.measurements[0].auc.value == plain.measurements[0].auc.value
    assert attacked(lambda x: torch.as_tensor(shares(x)).bfloat16(), X, Y).measurements[0].auc.value is not None


def test_percentages_are_shares():
    model = RandomForestClassifier(20, random_state=0).fit(X[:N], Y[:N])

    def fit(x, y, rng):
        return RandomForestClassifier(20, random_state=int(rng.integers(2**31))).fit(x, y).predict_proba

    plain = attacked(model.predict_proba, X, Y, references=4, fit=fit)
    found = attacked(lambda x: 100 * model.predict_proba(x), X, Y, references=4, fit=fit)
    for one, other in zip(plain.measurements, found.measurements, strict=True):
        assert one.auc.value == pytest.approx(other.auc.value, abs=0.01)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: attacked(DecisionTreeClassifier(), X, np.zeros(2 * N, dtype=int)), "have one class"),
        (lambda: attacked(shares, np.ones_like(X), Y), "have the same features"),
        (lambda: attacked(lambda x: np.full((len(x), 2), np.nan), X, Y), "not finite for 400 of 400"),
        (
            lambda: attacked(LogisticRegression().fit(X[:N], np.arange(N) == 5), X, np.arange(2 * N) == 5, 4),
            "all of one class",
        ),
    ],
)
def test_degenerate_data_get_a_sentence(call, said):
    with pytest.raises(BadInput, match=said):
        call()


@pytest.mark.parametrize(("inside", "outside", "side"), [(5, 100, "members"), (100, 5, "outsiders")])
def test_a_control_that_fails_for_want_of_records_says_of_whom(inside, outside, side):
    model = DecisionTreeClassifier(random_state=0).fit(X[:inside], Y[:inside])
    rows = slice(N, N + outside)
    found = tacit.attack(model, (X[:inside], Y[:inside]), (X[rows], Y[rows]), references=0, rng=1)
    assert f"more {side} are needed" in control(found, "planted leak").found


@pytest.mark.parametrize(
    ("model", "x", "y", "said"),
    [
        (LogisticRegression(), X, np.zeros(2 * N, dtype=int), "have one class"),
        (LogisticRegression(), np.ones_like(X), Y, "have the same features"),
        (LogisticRegression(), X, (np.arange(2 * N) == 5).astype(int), "all of one class"),
        (LogisticRegression(), np.where(np.arange(4) == 1, np.nan, X), Y, "missing values"),
        (RandomForestRegressor(5), X, X[:, 0], "can only be attacked"),
    ],
)
def test_degenerate_data_of_a_bracket_get_a_sentence(model, x, y, said):
    with pytest.raises(BadInput, match=said):
        tacit.bracket(model, (x, y), references=2, runs=16, rng=1)


def test_an_audit_with_too_few_runs_asks_for_more():
    found = tacit.bracket(DecisionTreeClassifier(random_state=0), (X, Y), references=2, runs=24, rng=1)
    assert "more runs" in control(found, "audit: planted leak").found
    assert "more runs" in found.sentence


def test_records_that_are_nearly_all_alike_are_not_blamed_on_the_training():
    """Copies stay in one half of the data, so a few different records can leave a half with one class."""

    def fit(x, y, rng):
        centres = [x[y == label][0] for label in (0, 1)]
        return lambda q: np.stack([-np.abs(q - centre).sum(1) for centre in centres], axis=1)

    y = np.arange(60) % 2
    with pytest.raises(tacit.BadInput, match="fewer than eight differ"):
        tacit.bracket(fit, (np.stack([y, y], axis=1).astype(float), y), references=3, runs=24, rng=0)
    x = np.zeros((60, 2))
    x[y == 1] = np.arange(30)[:, None] + 1.0  # 31 different records; one of them is a whole class
    told = []
    for seed in range(8):  # its half is trained on, or it is not
        try:
            assert set(y[_halved(x, y, source(seed))]) == {0, 1}
        except BadInput as error:
            told.append(str(error))
    assert 0 < len(told) < 8
    assert all("holds one class" in text for text in told)


@pytest.mark.parametrize(
    ("attacks", "said"), [("lyra", "is not known"), ("white-box-gradients", "needs a torch module")]
)
def test_attacks_that_cannot_be_run_are_refused_before_any_training(attacks, said):
    """A word that was spelt wrongly was refused after sixteen reference models."""

    class Never(DecisionTreeClassifier):
        def fit(self, x, y):
            raise AssertionError

    with pytest.raises(BadInput, match=said):
        tacit.attack(Never(), (X[:N], Y[:N]), (X[N:], Y[N:]), attacks=attacks)
