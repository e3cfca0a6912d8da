"""Models and tables that nobody here wrote: odd answers, records that are written into, boosters, frozen parts."""

import importlib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit import BadInput
from tacit.attacks import known_split, near_duplicates
from tacit.core.randomness import Seeded
from tacit.data.codec import split
from tacit.study import asking
from tacit.study.asking import Pool
from tacit.study.augmented_queries import Copies, towards_label
from tacit.study.cloning import refit
from tacit.study.foreign_models import _run, _told
from tacit.study.forms import Form
from tacit.study.models import is_regressor, own_answers
from tacit.study.outputs import Reading
from tacit.study.pooling import pool
from tacit.study.records import features, identities, joined
from tacit.study.repeats import TrainingSets, near_repeats, repeats
from tacit.study.residuals import EXACT, Residuals
from tacit.study.subsets import subsets

pytest.importorskip("sklearn")
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N, 6))
Y = (X[:, :3] + 0.7 * RNG.normal(size=(2 * N, 3))).argmax(axis=1)
SIDES = (X[:N], Y[:N]), (X[N:], Y[N:])
FOREST = RandomForestClassifier(15, random_state=0).fit(*SIDES[0])


def area(target, sides=SIDES, attacks="loss", **more):
    found = tacit.attack(target, *sides, attacks=[attacks], rng=1, **{"references": 0, **more})
    return found.measurements[0].auc.value


def logarithms(x):
    with np.errstate(divide="ignore"):
        return np.log(FOREST.predict_proba(x))


def test_logarithms_of_shares_may_hold_zeros():
    assert area(logarithms) == pytest.approx(area(FOREST), abs=1e-9)
    with pytest.raises(BadInput, match="not finite"):
        area(lambda x: np.where(logarithms(x) == 0, np.inf, logarithms(x)))


def test_shares_that_rounding_put_below_zero():
    assert area(lambda x: FOREST.predict_proba(x) - 1e-9) == pytest.approx(area(FOREST), abs=0.01)


def test_shares_with_noise_are_asked_about_and_never_taken_for_logits():
    noise = 2e-3 * np.random.default_rng(1).normal(size=(2 * N, 3))
    with pytest.raises(BadInput, match="probabilities or logits"):
        area(lambda x: FOREST.predict_proba(x) + noise)
    assert area(lambda x: FOREST.predict_proba(x) + noise, output="probabilities") > area(FOREST) - 0.05


def test_shares_of_some_classes_are_read_as_they_are():
    """Their sum is below 1; a softmax of them would leave margins of at most 1."""
    told = np.eye(3)[[0, 1, 2, 0]] * [[0.9], [0.9], [0.04], [0.9]]
    reading = Reading.of(told, [0, 1, 2, 1], said="probabilities")
    margin = reading.observe([told], np.ones(4, dtype=bool)).need("margin")
    assert (margin[:2] > 1.5).all()
    assert margin[3] < -3.0


def test_whole_numbers_with_a_point_are_labels():
    assert Reading.of(np.array([0.0, 2.0, 1.0, 1.0]), [0, 1, 2, 1]).form is Form.LABELS
    with pytest.raises(BadInput, match="more than two classes"):
        Reading.of(np.array([0.5, 2.0, 1.0, 1.0]), [0, 1, 2, 1])


def test_predicted_words_that_no_record_has():
    with pytest.raises(BadInput, match="none of those that the records have"):
        area(lambda x: np.array(["a", "b", "c"])[FOREST.predict(x)])


def test_a_model_may_write_into_the_records_it_is_given():
    def inplace(x):
        x *= -1.0
        return FOREST.predict_proba(-x)

    def pops(frame):
        first = frame.pop("a")
        return FOREST.predict_proba(np.column_stack((first, frame)))

    before = X.copy()
    assert area(inplace) == area(FOREST)
    assert np.array_equal(X, before)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    assert area(pops, ((frame[:N], Y[:N]), (frame[N:], Y[N:]))) == area(FOREST)
    assert list(frame.columns) == list("abcdef")


def test_an_estimator_with_a_trained_part_is_not_cloned():
    """Each of its clones would know the target's members: reference models would show no leak where there is one."""
    kept = CalibratedClassifierCV(FrozenEstimator(FOREST)).fit(*SIDES[1])
    assert refit(kept, None) is None
    assert refit(CalibratedClassifierCV(FOREST), None) is not None
    found = tacit.attack(kept, *SIDES, references=4, rng=1)
    assert any("reference models" in line for line in found.not_covered)


def test_columns_in_the_models_own_order():
    """CatBoost with class_names, and wrappers of other libraries, name classes in an order that is not sorted."""

    class Turned:
        classes_ = FOREST.classes_[::-1]

        def predict_proba(self, x):
            return FOREST.predict_proba(x)[:, ::-1]

    assert area(Turned()) == area(FOREST) > 0.6


def test_decision_values_for_pairs_of_classes():
    y = (np.arange(2 * N) + Y) % 4
    model = SVC(gamma=1.0, C=100.0, decision_function_shape="ovo").fit(X[:N], y[:N])
    assert area(model, ((X[:N], y[:N]), (X[N:], y[N:])), "lira", references=2) > 0.8


def test_three_pairs_of_three_classes_are_no_classes():
    """Their three columns were read as those of the classes: an area of 0.46 where members are known by heart."""
    y = (np.arange(2 * N) + Y) % 3
    sides = (X[:N], y[:N]), (X[N:], y[N:])
    pairs, classes = (SVC(gamma=1.0, C=100.0, decision_function_shape=shape).fit(*sides[0]) for shape in ("ovo", "ovr"))
    assert own_answers(pairs)(X).ndim == 1
    assert own_answers(classes)(X).shape == (2 * N, 3)
    assert area(pairs, sides) > 0.7


def test_labels_that_the_model_does_not_know():
    """Their share was 0 for everybody, which showed nothing of any leak."""

    class Named:
        def __init__(self, classes):
            self.classes_ = classes

        def get_params(self, deep=True):
            return {}

        def predict_proba(self, x):
            return FOREST.predict_proba(x)

    def played(classes, label):
        return tacit.attack(Named(classes), (X[:N], label[Y[:N]]), (X[N:], label[Y[N:]]), references=0, rng=0)

    names = list(FOREST.classes_)
    words = np.array([f"{name}" for name in names])
    for classes in (names, words, list(words), words.astype(object)):
        label = np.array(names) if classes is names else words
        assert played(classes, label).measurements[0].auc.value > 0.6
    some = f"{(Y[:N] == 0).sum()} of {N} members have a label that the model does not know"
    for classes, label, said in (
        (words, np.array([f"{name}.0" if name == 0 else f"{name}" for name in names]), some),
        (words, np.array(names), "of the kind"),
        ([words, words], words, "one label"),
        ([words, words[:1]], words, "one label"),
    ):
        with pytest.raises(BadInput, match=said):
            played(classes, label)


def test_outputs_of_onnx_sessions():
    """One output per class beside labels was read as labels alone, and so was one column for two classes."""
    label, table, column = np.array([1, 0]), np.eye(2, dtype=np.float32), np.array([[0.5], [-2.0]], dtype=np.float32)
    np.testing.assert_array_equal(_told([label, table]), table)
    np.testing.assert_array_equal(_told([label, *table]), table.T)
    np.testing.assert_array_equal(_told([label, column]), column[:, 0])
    np.testing.assert_array_equal(_told([label]), label)
    np.testing.assert_array_equal(_told([column, column]), column)


@pytest.mark.parametrize(("batch", "asked"), [(1, [1] * 7), (3, [3, 3, 3]), (10, [10]), (7, [7]), ("rows", [7])])
def test_onnx_models_of_one_batch_size_are_asked_in_such_batches(batch, asked):
    """torch.onnx.export fixes the rows of its example: such a model ended in InvalidArgument."""
    sizes = []

    class Session:
        def get_inputs(self):
            return [SimpleNamespace(name="x", shape=[batch, 2], type="tensor(float)")]

        def run(self, names, fed):
            sizes.append(len(fed["x"]))
            return [fed["x"] * 2, [{0: float(row[0])} for row in fed["x"]]]

    x = np.arange(14.0).reshape(7, 2)
    table, maps = _run(Session(), {"x": x})
    assert sizes == asked
    np.testing.assert_array_equal(table, 2 * x)
    assert maps == [{0: float(row[0])} for row in x]


def test_labels_of_any_series():
    """Arrays of Arrow and of pandas beside a frame ended in a traceback, and so did a gap of pandas."""
    import pyarrow as pa

    frame = pd.DataFrame({"a": [1.0, 2.0]})
    plain = [pd.array([1, 0], dtype="Int64"), pd.Index([1, 0]), pa.array([1, 0]), pd.Series([1, 0])]
    for given in plain:
        np.testing.assert_array_equal(split((frame, given), None)[1], [1, 0])
    with pytest.raises(BadInput, match="record 2 has none"):
        split((frame, pd.array([1, None], dtype="Int64")), None)


def test_categories_of_two_frames_become_one_list():
    one, other = (pd.DataFrame({"k": pd.Categorical(list(words))}) for words in ("aab", "bcc"))
    found = joined(one, other)["k"]
    assert list(found) == list("aabbcc")
    assert list(found.dtype.categories) == ["a", "b", "c"]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_columns_of_numbers_may_differ_in_type(library):
    module = importlib.import_module(library)
    make = module.DataFrame if library == "polars" else module.table
    assert features(joined(make({"v": [1, 2]}), make({"v": [0.5, 1.5]}))).ravel().tolist() == [1.0, 2.0, 0.5, 1.5]
    with pytest.raises(BadInput, match="same types"):
        joined(make({"v": [1, 2]}), make({"v": [["a"], ["b"]]}))


def test_columns_of_frames_as_numbers():
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "t": pd.date_range("2020", periods=3, tz="UTC")})
    found = features(frame)
    assert found[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert found[:, 1].tolist() == [0.0, 1.0, 0.0]
    assert np.ptp(np.diff(found[:, 2])) == 0
    twice = pd.concat((frame[["n"]], frame[["n"]]), axis=1)
    assert features(twice).shape == (3, 4)
    with pytest.raises(BadInput, match="no columns"):
        features(frame[[]])


@pytest.mark.parametrize("label", [np.array(["a", np.nan], dtype=object), pd.array([1, None], dtype="Int64")])
def test_missing_labels_are_no_class(label):
    with pytest.raises(BadInput, match="1 labels are missing"):
        pool((X[:2], label), (X[2:4], label[:1].repeat(2)))


@pytest.mark.needs("catboost")
def test_catboost_with_categories_and_without_a_kind():
    import catboost

    say = {"iterations": 8, "verbose": 0, "thread_count": 1, "allow_writing_files": False}
    frame = pd.DataFrame({"v": X[:, 0], "k": np.where(X[:, 1] > 0, "yes", "no")})
    model = catboost.CatBoostClassifier(cat_features=["k"], **say).fit(frame[:N], Y[:N])
    assert area(model, ((frame[:N], Y[:N]), (frame[N:], Y[N:])), "lira", references=2) > 0.4
    bare = catboost.train(catboost.Pool(*SIDES[0]), {"loss_function": "MultiClass", **say})
    assert area(bare, attacks="lira", references=2) > 0.6


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("xgboost", "lightgbm")]
)
def test_objectives_of_boosters(library):
    module = importlib.import_module(library)
    counts = np.random.default_rng(1).poisson(2.0, 2 * N)

    def booster(objective, y, **more):
        given = {"objective": objective, "nthread": 1, "verbosity": 0 if library == "xgboost" else -1, **more}
        return module.train(given, (module.DMatrix if library == "xgboost" else module.Dataset)(X[:N], y[:N]), 8)

    model = booster("count:poisson" if library == "xgboost" else "poisson", counts)
    assert is_regressor(model)
    assert 0.3 < area(model, ((X[:N], counts[:N]), (X[N:], counts[N:]))) < 1.0
    many = booster("multi:softprob" if library == "xgboost" else "multiclassova", Y, num_class=3)
    assert not is_regressor(many)
    assert area(many) > 0.6


def test_an_exported_program_has_one_mode():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)

    class Exported(torch.nn.Linear):
        """torch.export gives modules whose mode cannot be changed."""

        def eval(self):
            raise NotImplementedError

        def train(self, mode=True):
            raise NotImplementedError

    layer, program = torch.nn.Linear(6, 3), Exported(6, 3)
    program.load_state_dict(layer.state_dict())
    assert area(program) == area(layer)


def test_residuals_of_target_and_references_are_in_the_same_units():
    y = np.random.default_rng(1).normal(size=50)
    told = y + 0.1 * np.random.default_rng(1).normal(size=50)
    reading = Reading.of(told, y)
    assert reading.form is Form.VALUES
    one = reading.observe([told], np.ones(50, dtype=bool))
    both = reading.observe([told + 3.0, told], np.ones((50, 2), dtype=bool))
    assert np.allclose(one.need("loss")[:, 0], both.need("loss")[:, 1])


def test_printed_values_are_no_closer_than_their_last_digit():
    """Labels and answers with one decimal often agree; that is no sign of an exact fit."""
    y = np.round(np.random.default_rng(1).normal(size=50), 1)
    rule = Residuals.of(np.round(y + 0.1 * np.random.default_rng(1).normal(size=50), 1), y)
    assert rule.least == pytest.approx(0.025)
    exact = rule.observe([y, y + 1e-9], y, np.ones((50, 2), dtype=bool)).need("margin")
    assert np.ptp(exact) == 0
    assert Residuals.of(y + 1e-3, np.full(50, 2.0)).least > 0
    huge = Residuals.of(1e300 * (y + 0.01234567891), 1e300 * y)
    assert np.isfinite(huge.observe([1e300 * y], 1e300 * y, np.ones(50, dtype=bool)).need("margin")).all()
    spread = 1.4826 * np.median(np.abs(y - np.median(y)))
    assert Residuals.of(y + np.random.default_rng(1).normal(size=50), y).least == pytest.approx(EXACT * spread)


@pytest.mark.parametrize("tail", ["one huge value", "a heavy tail"])
def test_huge_values_of_a_regression_hide_nobody(tail):
    """One value of 1e15, or incomes over eight powers of ten, read as an area of 0.50 or 0.65 where it was 0.85."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=400)
    value = np.where(np.arange(400) == 7, 1e15, y) if tail == "one huge value" else np.exp(3 * y)
    told = value * np.where(np.arange(400) < 200, 1.01, 1.3)
    seen = Reading.of(told, value).observe([told], np.arange(400) < 200)
    for name in ("loss", "margin", "probability"):
        assert np.unique(seen.need(name)).size == 400
    assert seen.need("probability").min() > 0


def moved(x, k):
    return x + 0.4 * k


def test_copies_are_asked_about_where_training_saw_them():
    """A model that remembers the moved records, and is wrong about the others."""

    def fit(x, y, rng):
        return DecisionTreeClassifier(random_state=0).fit(moved(x, 1), y)

    target = fit(*SIDES[0], None)
    game = {"fit": fit, "references": 4, "attacks": "lira"}
    plain, copies = area(target, **game), area(target, augment=Copies(moved, 2), **game)
    assert copies > plain + 0.1
    assert area(target, augment=Copies(moved, 1), **game) == pytest.approx(plain)
    labels = area(target.predict, augment=Copies(moved, 3), **game)
    assert labels > 0.6


def test_copies_that_move_towards_their_label():
    x, y = np.array([[0.0, 0.0], [4.0, 0.0], [1.0, 1.0]]), np.array(["a", "a", "b"])
    asked = towards_label(x, y, (0.0, 0.5))
    np.testing.assert_array_equal(asked.of(x), [[0, 0], [4, 0], [1, 1], [1, 0], [3, 0], [1, 1]])
    with pytest.raises(BadInput, match="other records"):
        asked.of(x[:2])
    for label, parts in ((y[:2], (0.1,)), (y, ()), (y, (1.0,))):
        with pytest.raises(BadInput, match="one label per record"):
            towards_label(x, label, parts)


def test_copies_of_a_regression_and_bad_ones():
    y = X[:, 0]
    assert area(lambda x: x[:, 0] + 0.1, ((X[:N], y[:N]), (X[N:], y[N:])), augment=Copies(moved, 2)) < 0.6
    with pytest.raises(BadInput, match="one copy of every record"):
        area(FOREST, augment=Copies(lambda x, k: x[k:], 2))
    with pytest.raises(BadInput, match="must be a function"):
        Copies(3)


def test_rows_of_one_record_are_one_record():
    member = np.arange(8) < 5
    known = [(name.encode(), "0") for name in "aaaabcdefg"]
    assert repeats(known, np.arange(10) < 5).tolist() == [0, 0, 0, 0, *range(4, 10)]
    coarse = [(name.encode(), "0") for name in "ababaaba"]
    assert repeats(coarse, member).tolist() == list(range(8))


def test_an_oversampled_training_set_hides_nothing():
    """Reference models were once trained on some copies of a record and asked about the others, which they knew."""
    picked = np.tile(np.arange(40), 4)
    sides = (X[picked], Y[picked]), (X[N : N + 100], Y[N : N + 100])
    target = DecisionTreeClassifier(random_state=0).fit(*sides[0])
    found = tacit.attack(target, *sides, attacks=["lira"], references=8, rng=1)
    same = tacit.attack(target, (X[:40], Y[:40]), sides[1], attacks=["lira"], references=8, rng=1)
    ours, once = (evidence.measurements[0].auc for evidence in (found, same))
    assert ours.value == pytest.approx(once.value, abs=0.06)
    assert found.scores[0].member.sum() == 40  # a record is judged once
    assert all(control.passed for control in found.controls)
    assert found.provenance["rows_that_repeat_a_record"] == 120


def _of_a_stranger():
    """LiRA's area where members are there ten times and the model saw nobody."""
    picked = np.repeat(np.arange(N), 10)
    sides = (X[picked], Y[picked]), (X[N:], Y[N:])

    def fit(x, y, rng):
        return DecisionTreeClassifier(min_samples_leaf=10, random_state=0).fit(x, y)

    others = np.random.default_rng(5).normal(size=(120, 6))
    stranger = fit(others, others[:, :3].argmax(axis=1), None)
    return tacit.attack(stranger, *sides, fit=fit, attacks=["lira"], references=16, rng=1).measurements[0].auc


def test_how_often_a_record_is_there_tells_nothing_of_a_model_that_saw_nobody():
    found = _of_a_stranger()
    assert found.lower < 0.5 < found.upper


def test_references_that_get_members_oftener_than_outsiders_are_a_mutant(monkeypatch):
    """Members that references know ten times have other spreads than outsiders that they know once."""

    def of(record, inside, y, count, rng):
        first, place = np.unique(record, return_inverse=True)
        sets = subsets(first.size, count, int(inside[first].sum()), rng)[place]
        return TrainingSets(sets.astype(np.int64), sets)

    monkeypatch.setattr(TrainingSets, "of", of)
    found = _of_a_stranger()
    assert found.upper < 0.5 or found.lower > 0.5


def _jittered():
    """Every member twice, the second time with a little noise, as a stored augmented training set holds them."""
    again = X[:N] + 1e-4 * np.random.default_rng(3).normal(size=(N, 6))
    sides = (np.concatenate((X[:N], again)), np.tile(Y[:N], 2)), (X[N:], Y[N:])

    def fit(x, y, rng):
        return DecisionTreeClassifier(random_state=0).fit(x, y)

    return tacit.attack(fit(*sides[0], None), *sides, fit=fit, attacks=["lira"], references=16, rng=1)


def test_rows_that_repeat_a_record_in_all_but_a_digit_are_one_record():
    found = _jittered()
    once = tacit.attack(DecisionTreeClassifier(random_state=0).fit(*SIDES[0]), *SIDES, attacks=["lira"], rng=1)
    assert found.measurements[0].auc.value == pytest.approx(once.measurements[0].auc.value, abs=0.06)
    assert found.provenance["rows_that_repeat_a_record"] == N
    assert found.measurements[0].members == N


def test_references_that_know_a_record_by_its_jittered_copy_are_a_mutant(monkeypatch):
    found = _jittered().measurements[0].auc.value
    monkeypatch.setattr(asking, "near_repeats", lambda found, member: np.arange(member.size))
    assert _jittered().measurements[0].auc.value < found - 0.05


def test_near_records_of_one_side_are_linked_and_chance_links_nobody():
    x = np.array([[0.0, 0], [5, 5], [0.001, 0], [9, 1], [0.002, 0], [4, 8], [0.001, 0.001], [7, 7], [2, 9], [8, 4]])
    member = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0], dtype=bool)
    found = near_duplicates(x, member)
    assert found.first.tolist() == [0, 1, 0, 3, 0, 5, 6, 7, 8, 9]
    for seed in range(20):  # in one dimension many records have a near one, on either side
        drawn = np.random.default_rng(seed).normal(size=(400, 1))
        side = np.arange(400) < 200
        close = near_duplicates(drawn, side)
        assert (close.first != np.arange(400)).any()
        assert (near_repeats(close, side) != np.arange(400)).mean() < 0.1


def test_training_sets_of_repeated_records():
    record = np.array([0, 0, 0, 3, 4, 5, 6, 7, 8, 9])  # a member that is there three times, and one that is there once
    inside, y = np.arange(10) < 5, np.array([1, 1, 1, 0, 0, 1, 0, 1, 0, 1])
    sets = TrainingSets.of(record, inside, y, 6, Seeded(3))
    assert (sets.member[0] == sets.member[1]).all()
    for k in range(6):
        rows = sets.rows(k)
        assert np.unique(rows).size == 3  # as many records as the target knows
        assert all(np.count_nonzero(rows == row) == (3 if y[row] else 1) for row in np.unique(rows))
    rows, sides = sets.together(slice(0, 6))
    for k in range(6):
        assert sorted(rows[sides[:, k]]) == sorted(sets.rows(k))
    plain = TrainingSets.of(np.arange(10), inside, y, 4, Seeded(3))
    assert (plain.times == subsets(10, 4, 5, Seeded(3))).all()
    assert plain.together(slice(0, 4))[0].tolist() == list(range(10))
    values = TrainingSets.of(record, inside, y + 0.5, 4, Seeded(3))
    assert all(values.rows(k).size in (3, 5) for k in range(4))


def test_copies_stay_on_one_side_of_every_split():
    pooled = Pool.of((np.tile(X[:20], (3, 1)), np.tile(Y[:20], 3)), (X[N:], Y[N:]))
    assert (pooled.once.size, pooled.repeated) == (20 + N, 40)
    seen = tacit.Observations(member=pooled.member[:, None], loss=np.zeros((60 + N, 1)), record=pooled.record)
    judged, known = known_split(seen, 0)
    assert not np.intersect1d(judged.record, known.record).size
    assert identities(pooled.x, pooled.y)[0] == identities(pooled.x, pooled.y)[20]
