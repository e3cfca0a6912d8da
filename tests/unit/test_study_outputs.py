"""Strangers' models: every form of answer and of table goes in, and what cannot is one sentence."""

import importlib

import numpy as np
import pytest

import tacit
from tacit import BadInput
from tacit.study.forms import Form
from tacit.study.models import usual_form
from tacit.study.outputs import Reading
from tacit.study.records import features, identities, joined, take

pytest.importorskip("sklearn")
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))
X, Y = X[ORDER] / 16, Y[ORDER]
IN, OUT = (X[:400], Y[:400]), (X[400:800], Y[400:800])
FOREST = RandomForestClassifier(20, random_state=0).fit(*IN)
YES = [(x, (y < 5).astype(int)) for x, y in (IN, OUT)]
BINARY = RandomForestClassifier(20, random_state=0).fit(*YES[0])


def loss_area(target, sides=(IN, OUT), **more):
    found = tacit.attack(target, *sides, attacks=["loss"], references=0, rng=1, **more)
    return found.measurements[0].auc.value


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: BINARY.predict_proba(x)[:, 1],
        lambda x: BINARY.predict_proba(x)[:, 1:],
        lambda x: BINARY.predict_proba(x)[:, 1].astype("f4"),
        lambda x: BINARY.predict_proba(x)[:, 1].tolist(),
        lambda x: BINARY.predict_proba(x).round(3),
    ],
)
def test_one_column_is_the_second_class(answer):
    assert loss_area(answer, YES) == pytest.approx(loss_area(BINARY, YES), abs=5e-3)


def test_one_column_of_logits():
    told = lambda x: np.log(BINARY.predict_proba(x)[:, 1] + 0.0125) - np.log(BINARY.predict_proba(x)[:, 0] + 0.0125)  # noqa: E731
    assert loss_area(told, YES) == pytest.approx(loss_area(BINARY, YES), abs=5e-3)


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_printed_shares_are_not_read_as_logits(decimals):
    told = lambda x: FOREST.predict_proba(x).round(decimals)  # noqa: E731
    assert loss_area(told) == pytest.approx(loss_area(FOREST), abs=0.01)


def test_words_for_labels():
    words = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    sides = [(x, words[y]) for x, y in (IN, OUT)]
    model = RandomForestClassifier(20, random_state=0).fit(*sides[0])
    assert loss_area(model, sides) == pytest.approx(loss_area(model.predict_proba, sides))
    right = [float((model.predict(x) == y).mean()) for x, y in sides]
    assert loss_area(model.predict, sides) == pytest.approx(0.5 + (right[0] - right[1]) / 2)


def test_what_could_be_two_things_is_asked():
    one_against_rest = lambda x: FOREST.predict_proba(x) * 0.7  # noqa: E731
    with pytest.raises(BadInput, match="output="):
        loss_area(one_against_rest)
    assert loss_area(one_against_rest, output="probabilities") > 0.7
    with pytest.raises(BadInput, match="one of auto, labels"):
        loss_area(FOREST, output="certainties")
    with pytest.raises(BadInput, match="more than two classes"):
        loss_area(lambda x: x[:, 20])


@pytest.mark.parametrize("model", [RandomForestRegressor(20, random_state=0), DecisionTreeRegressor(random_state=0)])
def test_regressions_are_attacked_by_their_residuals(model):
    x, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    sides = [(x[rows], y[rows]) for rows in (order[:220], order[220:])]
    found = tacit.attack(model.fit(*sides[0]), *sides, references=4, rng=2)
    assert max(item.auc.lower for item in found.attacks) > 0.7
    assert {"loss", "lira", "student", "combined"} <= {item.attack for item in found.attacks}
    assert all(control.passed for control in found.controls)


def test_labels_only_with_references():
    fit = lambda x, y, rng: DecisionTreeClassifier().fit(x, y)  # noqa: E731
    found = tacit.attack(FOREST.predict, IN, OUT, fit=fit, references=4, attacks=["label", "lira"], rng=3)
    assert all(0.4 < item.auc.value <= 1 for item in found.attacks)


def mixed(library):
    frames = importlib.import_module(library)
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.data))
    columns = {f"c{k}": data.data[order, k] for k in range(4)}
    columns["size"] = np.where(data.data[order, 5] > np.median(data.data[:, 5]), "large", "small")
    if library == "pandas":
        table = frames.DataFrame(columns)
        table.loc[3, "c1"] = np.nan
    else:
        table = frames.DataFrame(columns) if library == "polars" else frames.table(columns)
    return table, data.target[order]


@pytest.mark.needs("pandas")
def test_a_pipeline_on_a_mixed_table():
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    table, y = mixed("pandas")
    columns = make_column_transformer((OneHotEncoder(), ["size"]), remainder="passthrough")
    model = make_pipeline(columns, SimpleImputer(), RandomForestClassifier(10, random_state=0))
    sides = (table.iloc[:280], y[:280]), (table.iloc[280:], y[280:])
    found = tacit.attack(model.fit(*sides[0]), *sides, references=4, rng=1)
    assert max(item.auc.lower for item in found.attacks) > 0.55
    assert all(control.passed for control in found.controls)


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("pandas", "polars", "pyarrow")]
)
def test_rows_of_tables(library):
    table, y = mixed(library)
    first, second = take(table, np.arange(5)), take(table, np.arange(569) >= 564)
    both = joined(first, second)
    assert type(both) is type(table)
    assert features(both).shape[0] == 10
    assert np.isfinite(features(table)).all()
    names = identities(joined(first, both), y[:15])
    assert [name for name, _ in names[:5]] == [name for name, _ in names[5:10]]
    assert len({name for name, _ in names}) == 10
    with pytest.raises(BadInput, match="of one kind"):
        joined(first, np.zeros((3, 5)))


def test_sparse_and_dictionaries():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.random(50, 3000, 0.01, format="csr", random_state=0)
    assert features(joined(take(matrix, np.arange(20)), take(matrix, np.arange(20, 50)))).shape == (50, 256)
    tokens = {"input_ids": np.arange(20).reshape(10, 2), "mask": np.ones((10, 2))}
    assert features(joined(take(tokens, np.arange(4)), take(tokens, np.arange(4, 10)))).shape == (10, 4)


def test_forms_are_read_off():
    y = np.array([0, 1, 1, 0])
    forms = [
        (np.array([0, 1, 0, 0]), Form.LABELS),
        (np.array(["a", "b", "a", "a"]), Form.LABELS),
        (np.array([0.1, 0.9, 0.5, 0.0]), Form.PROBABILITIES),
        (np.array([[-1.0], [2.0], [0.0], [5.0]]), Form.LOGITS),
        (np.array([[0.5, 0.5]] * 4), Form.PROBABILITIES),
        (np.array([[0.5, 2.5]] * 4), Form.LOGITS),
    ]
    for answer, form in forms:
        assert Reading.of(answer, y if answer.dtype.kind != "U" else np.array(list("abba"))).form is form
    assert Reading.of(np.array([1.0, 2.5]), np.array([0.5, 3.1])).form is Form.VALUES


@pytest.mark.parametrize(
    ("labels", "words"),
    [(np.array([None] * 400), "missing"), (np.full(400, np.nan), "missing"), (np.zeros((400, 2)), "one per record")],
)
def test_labels_that_are_none(labels, words):
    with pytest.raises(BadInput, match=words):
        tacit.attack(FOREST, (IN[0], labels), OUT, references=0)


@pytest.mark.parametrize("kind", ["half", "double", "bfloat16"])
def test_torch_in_any_precision(kind):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 10)
    plain = loss_area(model)
    assert loss_area(getattr(model, kind)()) == pytest.approx(plain, abs=0.02)


def test_torch_with_one_sigmoid():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 1), torch.nn.Sigmoid())
    assert 0.3 < loss_area(model, YES) < 0.7


@pytest.mark.parametrize(
    "library", [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("xgboost", "lightgbm")]
)
def test_bare_boosters(library):
    module = importlib.import_module(library)
    if library == "xgboost":
        model = module.train({"objective": "binary:logistic", "nthread": 1}, module.DMatrix(*YES[0]), 20)
    else:
        data = module.Dataset(*YES[0])
        model = module.train({"objective": "binary", "num_threads": 1, "verbosity": -1}, data, 20)
    assert loss_area(model, YES) > 0.6


@pytest.mark.needs("catboost")
def test_catboost_is_cloned():
    import catboost

    model = catboost.CatBoostClassifier(iterations=20, verbose=0, thread_count=1, allow_writing_files=False)
    found = tacit.attack(model.fit(*YES[0]), *YES, references=2, attacks=["lira"], rng=1)
    assert found.measurements[0].auc.value > 0.55


@pytest.mark.needs("onnxruntime")
@pytest.mark.needs("skl2onnx")
@pytest.mark.parametrize("zipmap", [True, False])
def test_onnx_sessions(zipmap):
    import onnxruntime
    import skl2onnx

    made = skl2onnx.to_onnx(FOREST, X[:1].astype(np.float32), options={id(FOREST): {"zipmap": zipmap}})
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    assert loss_area(session) == pytest.approx(loss_area(FOREST), abs=0.02)


def test_small_logits_of_a_network_are_logits():
    """A network's weights may leave all its logits within [0, 1]: its kind says what they are."""
    torch = pytest.importorskip("torch")
    answer = np.random.default_rng(0).uniform(0.1, 0.9, (40, 3))
    y = np.arange(40) % 3
    network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    assert Reading.of(answer, y, usual=usual_form(network)).form is Form.LOGITS
    for unsure in (torch.nn.Sequential(network, torch.nn.Sigmoid()), lambda x: x):
        with pytest.raises(BadInput, match="probabilities or logits"):
            Reading.of(answer, y, usual=usual_form(unsure))


@pytest.mark.parametrize("answer", [[[0.3, -2.0], [1.5, 4.0]], [[True, False], [False, True]], [[5, 1], [2, 3]]])
@pytest.mark.parametrize("y", [[0, 1], ["a", "b"]])
def test_the_label_of_a_column_per_class_is_its_largest(answer, y):
    """Every score was taken for a label of its own, so that an attack on labels found nobody."""
    found = Reading.of(np.array(answer), np.array(y), said="labels")
    assert (found.classes, found.labels.tolist()) == (2, [0, 1])
    assert np.array_equal(found.table(np.array(answer)), np.eye(2)[np.argmax(answer, axis=1)])


def test_scores_in_one_column_are_no_labels():
    with pytest.raises(BadInput, match="Scores are no labels"):
        Reading.of(np.linspace(-3, 3, 40)[:, None], np.arange(40) % 2, said="labels")


@pytest.mark.parametrize("said", ["probabilities", "logits"])
@pytest.mark.parametrize("kind", [int, bool, np.uint8])
def test_whole_numbers_are_read_as_their_owner_says(said, kind):
    """It raised OverflowError."""
    y = np.arange(40) % 2
    found = tacit.attack(lambda x: (x[:, 0] > 0).astype(kind), (np.eye(40), y), (-np.eye(40), y),
                         references=0, output=said, rng=1)  # fmt: skip
    assert found.measurements


@pytest.mark.parametrize("said", ["probabilities", "logits"])
def test_words_are_no_numbers(said):
    with pytest.raises(BadInput, match="answered with words"):
        Reading.of(np.array(["a", "b"]), np.array(["a", "b"]), said=said).table(np.array(["a", "b"]))
