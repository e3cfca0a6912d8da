"""Answers and tables that a reader could take for something else: columns in another order, numbers as text, words."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import tacit
from tacit import BadInput, Scores
from tacit.attacks import near_duplicates
from tacit.attacks.controls import direction
from tacit.study import column_order, neural, records
from tacit.study.column_order import check_columns, check_labels
from tacit.study.forms import Form, form_of, of_one
from tacit.study.membership import read_scores
from tacit.study.models import accuracy, predictor
from tacit.study.outputs import Reading
from tacit.study.records import features, identities
from tacit.study.residuals import check_units

pytest.importorskip("sklearn")
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

torch = pytest.importorskip("torch")

N = 100
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N, 4))
Y = (X[:, :3] + 0.7 * RNG.normal(size=(2 * N, 3))).argmax(axis=1)
SIDES = (X[:N], Y[:N]), (X[N:], Y[N:])
TREE = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(*SIDES[0])


def area(predict, sides=SIDES, **more):
    return tacit.attack(predict, *sides, attacks=["loss"], references=0, rng=1, **more).measurements[0].auc.value


def test_columns_in_another_order_are_refused():
    """A function with its columns turned round hid a leak of 0.81 of the members behind a rate of 0.06."""
    with pytest.raises(BadInput, match="another order"):
        area(lambda x: TREE.predict_proba(x)[:, [1, 2, 0]])
    first = Y < 2
    two = tuple((x[y < 2], y[y < 2]) for x, y in SIDES)
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X[:N][first[:N]], Y[:N][first[:N]])
    assert area(lambda x: tree.predict_proba(x)[:, 1], two) > 0.6
    with pytest.raises(BadInput, match="another order"):
        area(lambda x: tree.predict_proba(x)[:, 0], two)


def test_labels_that_begin_with_one_and_lack_the_last_class_are_refused():
    """Labels 1 and 2 of a model with classes 1 to 3 were read as its columns 1 and 2."""
    some = [(x[y < 2], y[y < 2] + 1) for x, y in SIDES]
    assert area(TREE.predict_proba, [(x, y - 1) for x, y in some]) > 0.6
    with pytest.raises(BadInput, match="another order"):
        area(TREE.predict_proba, some)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_poor_models_are_in_no_wrong_order(classes):
    """Guesses, a model that calls everybody by one name, and members of one class."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        label = rng.integers(0, classes, 60)
        check_columns(rng.dirichlet(np.ones(classes), 60), label)
        check_columns(np.tile(np.eye(classes)[0], (60, 1)), label)
        check_columns(np.eye(classes)[rng.integers(0, classes, 60)], np.ones(60, dtype=int))
        check_columns(np.tile(np.eye(classes)[0], (60, 1)), np.ones(60, dtype=int))
    check_columns(np.zeros((4, 2000)), np.zeros(4, dtype=int))


def test_networks_that_learned_nothing_are_in_no_wrong_order(monkeypatch):
    """A random network is right about 40 % of ten classes in some order. The mutant refuses it, as we once did."""
    rng = np.random.default_rng(0)
    label = np.arange(500) % 10
    told = (np.eye(10)[label] + 0.3 * rng.normal(size=(500, 10))) @ rng.normal(size=(10, 10))
    order = column_order._sure_order(told.argmax(axis=1), label, 10)
    assert np.mean(order[told.argmax(axis=1)] == label) > np.mean(told.argmax(axis=1) == label) + 0.2
    check_columns(told, label)
    with pytest.raises(BadInput, match="set classes_ of the function"):
        check_columns(np.eye(10)[(label + 1) % 10], label)
    monkeypatch.setattr(column_order, "LEARNED", 0.0)
    with pytest.raises(BadInput, match="another order"):
        check_columns(told, label)


def test_an_owner_says_which_column_is_which():
    def predict(x):
        return TREE.predict_proba(x)[:, [1, 2, 0]]

    predict.classes_ = [1, 2, 0]
    assert area(predict) == area(TREE.predict_proba)


def test_labels_that_the_model_was_not_trained_on_are_refused():
    """An estimator that was trained on other numbers for the same classes read as an area of 0.006, without a word."""
    other = DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X[:N], (Y[:N] + 1) % 3)
    with pytest.raises(BadInput, match="was trained on other labels"):
        tacit.attack(other, *SIDES, references=2, rng=1)
    poor = DecisionTreeClassifier(max_depth=1, random_state=0)
    tacit.attack(poor.fit(X[:N], RNG.permutation(Y[:N])), *SIDES, references=2, rng=1)


@pytest.mark.parametrize("poor", [0, 1])
def test_one_exchanged_reference_tells_that_models_are_poor(poor):
    label, rows = np.tile([0, 1], 40), np.ones(80, dtype=bool)
    right, wrong = np.eye(2)[label], np.eye(2)[1 - label]
    games = [(wrong, rows), (right, rows), ((right, wrong)[poor], rows)]
    if poor:
        check_labels(np.asarray, label, games)
    else:
        with pytest.raises(BadInput, match="right about 0% of its members, and reference models"):
            check_labels(np.asarray, label, games)


def test_exchanged_sides_are_not_called_harmless():
    """Members and outsiders in each other's place had an area of 0 and "no better than guessing"."""
    found = tacit.attack(TREE, *SIDES[::-1], attacks=["loss"], references=0, rng=1)
    assert found.verdict.value == "uninformative"
    assert "direction did not behave" in found.sentence
    assert "Are members and outsiders exchanged" in found.sentence
    assert all(control.passed for control in tacit.attack(TREE, *SIDES, attacks=["loss"], rng=1).controls)


def test_a_file_of_losses_in_place_of_scores(tmp_path):
    lines = [f"{k % 10 + 3 * (k % 2)},{k % 2 == 0:d}" for k in range(200)]
    (tmp_path / "scores.csv").write_text("score,member\n" + "\n".join(lines) + "\n", encoding="utf-8")
    found = read_scores(str(tmp_path / "scores.csv"))
    assert not found.controls[0].passed
    assert "lower for members" in found.sentence


@pytest.mark.parametrize(("one", "other", "fails"), [(-2, -3, True), (-2, 0, True), (-1, 3, False), (0, 0, False)])
def test_the_stronger_direction_decides(one, other, fails):
    """Two attacks, by how many standard deviations each scores members higher."""
    rng, member = np.random.default_rng(0), np.arange(400) % 2 == 1
    scores = [
        Scores(rng.normal(size=400) + by * member, member, attack=name, randomised=False)
        for name, by in (("one", one), ("other", other))
    ]
    assert bool(direction(scores)) == fails
    assert direction([]) == ()


def test_an_order_is_judged_on_other_records_than_it_was_chosen_on(monkeypatch):
    """Some order always fits guesses among many classes better where it was chosen; the mutant judges it there."""
    rng = np.random.default_rng(2)
    told, label = rng.dirichlet(np.ones(30), 1500), rng.integers(0, 30, 1500)
    monkeypatch.setattr(column_order, "LEARNED", 0.0)
    check_columns(told, label)
    best = column_order._best_order
    monkeypatch.setattr(column_order, "_best_order", lambda *half: best(told.argmax(axis=1), label, 30))
    with pytest.raises(BadInput, match="another order"):
        check_columns(told, label)


@pytest.mark.parametrize("kind", ["in turns", "many small classes", "one rare class", "labels from 1 on"])
def test_other_orders_that_were_not_seen(kind):
    """Classes in turns, 200 classes of 3 members, a class of 4 members, and predicted places in place of labels."""
    rng = np.random.default_rng(3)
    if kind == "in turns":
        label, told = np.tile([0, 1], 40), np.eye(2)[np.tile([1, 0], 40)]
    elif kind == "many small classes":
        label = np.tile(np.arange(200), 3)
        told = np.eye(200)[(label + 1) % 200]
    elif kind == "one rare class":
        label = (np.arange(150) < 4).astype(int)
        second = np.where(label == 1, 0.6, 0.9) + 0.05 * rng.random(150)
        told = np.stack((1 - second, second), axis=1)
        check_columns(told[:, ::-1], label)
    else:
        sides = [(x, y + 1) for x, y in SIDES]
        with pytest.raises(BadInput, match="another order"):
            area(lambda x: TREE.predict_proba(x).argmax(axis=1), sides)
        return
    check_columns(np.eye(told.shape[1])[label], label)
    with pytest.raises(BadInput, match="another order"):
        check_columns(told, label)


def test_shares_written_as_text_are_numbers():
    """They were read as labels: the alphabetically last share of each record."""
    texts = area(lambda x: np.char.mod("%.6f", TREE.predict_proba(x)))
    assert texts == pytest.approx(area(lambda x: TREE.predict_proba(x)), abs=1e-3)
    with pytest.raises(BadInput, match="one label for each record"):
        area(lambda x: np.array([["a", "b", "c"]] * len(x)))


@pytest.mark.parametrize("answer", [np.linspace(0, 100, 50), -np.linspace(0.01, 9, 50)], ids=["percent", "logarithm"])
def test_one_column_on_one_side_of_zero_is_asked_about(answer):
    y = np.arange(50) % 2
    with pytest.raises(BadInput, match="one side of 0"):
        form_of(answer, y, None)
    assert form_of(answer, y, Form.LOGITS) is Form.LOGITS
    assert form_of(answer - answer.mean(), y, None) is Form.LOGITS


def _table(rows=400):
    names = np.array([f"name {k}" for k in range(rows)], dtype=object)
    return pd.DataFrame({"name": names, "kind": np.arange(rows) % 2})


def test_people_with_different_names_are_different_people():
    """Names were told apart by 24 hashed values alone: most outsiders were called copies of members."""
    table, y = _table(), np.zeros(400, dtype=int)
    assert len(set(identities(table, y))) == 400
    found = near_duplicates(features(table), np.arange(400) < 200, y)
    assert (found.of_members | found.of_outsiders).mean() < 0.01


def test_few_hashed_values_are_a_mutant(monkeypatch):
    whole = records._column
    monkeypatch.setattr(records, "_column", lambda values: whole(values)[:, : records.CATEGORIES + 1])
    found = near_duplicates(features(_table()), np.arange(400) < 200, np.zeros(400, dtype=int))
    assert (found.of_members | found.of_outsiders).mean() > 0.9


@pytest.mark.parametrize("kind", ["array", "objects", "frame", "sparse", "dictionary"])
def test_identities_are_equal_where_records_are(kind):
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 1.5], [np.nan, 1.0], [np.nan, 1.0]])
    made = {
        "array": rows,
        "objects": rows.astype(object) + 0.0,
        "frame": pd.DataFrame(rows + 0.0),
        "sparse": sparse.csr_matrix(rows),
        "dictionary": {"a": rows[:, :1], "b": rows[:, 1:]},
    }[kind]
    first, *others = identities(made, np.zeros(5, dtype=int))
    assert [other == first for other in others] == [True, False, False, False]
    assert others[2] == others[3]
    assert identities(made, np.arange(5))[1] != first


def test_votes_are_shares():
    """Whole numbers with one sum in all rows were read as logits, which lost a seventh of what they say."""
    votes = np.random.default_rng(0).multinomial(40, (0.7, 0.2, 0.1), size=60)
    for answer in (votes, votes.astype(float), 1000 * np.array([[0.25, 0.75], [0.5, 0.5]])):
        assert np.array_equal(of_one(answer), answer / answer.sum(axis=1)[0])
    ranks = np.argsort(np.random.default_rng(0).random((60, 3)), axis=1).astype(float)
    for other in (ranks, votes + 0.5, votes + np.arange(60)[:, None], np.eye(3)[[0, 1, 2]]):
        assert np.array_equal(of_one(other), other)


@pytest.mark.parametrize("scores", [np.arange(0, 1000, 10), np.arange(100)])
def test_whole_scores_are_no_predicted_labels(scores):
    """A risk from 0 to 1000 in whole numbers was taken for a label, of which two records seldom have the same."""
    y = np.arange(100) % 2
    with pytest.raises(BadInput, match="Scores are no labels"):
        Reading.of(scores, y)
    assert Reading.of(np.where(np.arange(100) < 70, y, 5), y).form == "labels"


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_booster_with_an_objective_of_its_owners_own_is_asked_about(library):
    """XGBoost calls it a regression, and a residual of a logit says little: 0.07 of members were found, not 0.19."""
    module = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)

    def slope(margin, data):
        share = 1 / (1 + np.exp(-margin))
        return share - data.get_label(), share * (1 - share)

    if library == "xgboost":
        settings = {"max_depth": 6, "eta": 0.5, "base_score": 0.0, "nthread": 1}
        model = module.train(settings, module.DMatrix(x[:100], y[:100]), 20, obj=slope)
    else:
        settings = {"objective": "cross_entropy_lambda", "min_data_in_leaf": 2, "verbose": -1, "num_threads": 1}
        model = module.train(settings, module.Dataset(x[:100], y[:100]), 80)
    sides = (x[:100], y[:100]), (x[100:], y[100:])
    with pytest.raises(BadInput, match='Say output="logits"'):
        tacit.attack(model, *sides, references=0, rng=0)
    for output in ("logits", "values"):
        assert tacit.attack(model, *sides, references=0, rng=0, output=output).attacks


def test_accuracy_reads_answers_as_an_attack_does():
    """One column, or words for labels, gave accuracies of 0 on the page and in the picture of the gap."""
    share, y = np.array([0.1, 0.9, 0.8, 0.3]), np.array([0, 1, 0, 0])
    words = np.array(["no", "yes"])[y]
    both = np.stack((1 - share, share), axis=1)
    for answer in (share, share[:, None], share - 0.5, both, (share > 0.5).astype(int), (share > 0.5) * 1.0):
        assert accuracy(lambda x, answer=answer: answer, np.zeros((4, 1)), y) == 0.75
    for answer in (share, both, np.array(["no", "yes"])[(share > 0.5).astype(int)]):
        assert accuracy(lambda x, answer=answer: answer, np.zeros((4, 1)), words) == 0.75
    assert accuracy(lambda x: both, np.zeros((4, 1)), 3 + 4 * y) == 0.75


@pytest.mark.parametrize("other", [np.log1p, lambda y: (y - y.mean()) / y.std(), lambda y: 100 * y, lambda y: -y])
def test_labels_of_a_regression_in_other_units_are_refused(other):
    """Of a model that knows 0.72 of its members at 1 % nothing was found where its labels were standardised."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 3))
    y = np.exp(2 + x[:, 0] + 0.1 * rng.normal(size=160))
    moved, tree = (DecisionTreeRegressor(random_state=0).fit(x[:80], label[:80]) for label in (other(y), y))
    for target, label in ((moved, y), (tree, other(y))):
        for model in (target, target.predict):
            with pytest.raises(BadInput, match="in other units"):
                tacit.attack(model, (x[:80], label[:80]), (x[80:], label[80:]), references=0, rng=0)
    said = tacit.attack(tree, (x[:80], other(y)[:80]), (x[80:], other(y)[80:]), references=0, rng=0, output="values")
    assert said.attacks


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_poor_regressions_are_in_the_right_units(noise):
    """Biased values (a high quantile, a constant, noise) are those of a poor model, and no other units."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=400)
    for told in (y + 2 * noise * rng.random(400), np.full(400, 3.0), noise * rng.normal(size=400), y.mean() + 0 * y):
        if noise == 0.1 or np.corrcoef(told + 1e-9 * y, y)[0, 1] < 0.9:
            check_units(told, y)


class _Shaped(torch.nn.Module):
    """A linear layer whose answer is given in some shape."""

    def __init__(self, shape):
        super().__init__()
        self.layer, self.shape = torch.nn.Linear(4, 3), shape

    def forward(self, x):
        return self.shape(self.layer(x))


@pytest.mark.parametrize(
    "shape", [lambda z: z.squeeze(), lambda z: z[:, None], lambda z: z[:, :, None], lambda z: (z,)]
)
def test_answers_with_axes_of_one(shape, monkeypatch):
    """The last of 501 rows was asked about alone: an answer that was squeezed had no row."""
    monkeypatch.setattr(neural, "ROWS", 5)
    x, model = X[:11].astype(np.float32), _Shaped(shape)
    np.testing.assert_allclose(predictor(model)(x), model.layer(torch.as_tensor(x)).detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("shape", [lambda z: (z.new_zeros(len(z), 8), z), lambda z: {"features": z[:, :2], "out": z}])
def test_features_are_not_taken_for_logits(shape):
    """A leak of 0.13 read as an area of 0.5 where a module answers with its features first."""
    with pytest.raises(BadInput, match=r"several tables\. Wrap it"):
        tacit.attack(_Shaped(shape), *SIDES, references=0, rng=0)
    named = predictor(_Shaped(lambda z: {"features": z[:, :2], "logits": z}))
    assert named(X[:4]).shape == (4, 3)


def test_shares_in_steps_of_eight_bits_are_shares():
    """Each is rounded by itself, so rows have different sums: read as logits they showed a fourth of the members."""
    shares = np.random.default_rng(0).dirichlet(np.ones(10), 80)
    for step, kind in ((255, np.uint8), (100, np.int64), (255, np.float32)):
        told = np.round(step * shares).astype(kind)
        assert len(set(told.sum(axis=1).tolist())) > 1
        assert form_of(of_one(told.astype(float)), np.arange(80) % 10, None) is Form.PROBABILITIES
        assert np.abs(of_one(told) - shares).max() < 0.05
    counts = np.random.default_rng(0).integers(0, 30, (80, 10))
    assert of_one(counts) is counts


def test_two_columns_that_rank_backwards_are_told_so():
    """The share of right answers is no reason there: one sentence said 54 % as it is, and 46 % the other way round."""
    label = np.arange(200) % 2
    share = 0.2 + 0.1 * (label == 0) + 0.001 * np.arange(200) / 200  # the likeliest label is the first for everybody
    with pytest.raises(BadInput, match="smaller share of it than it gives the others"):
        check_columns(np.stack((1 - share, share), axis=1), label)


@pytest.mark.parametrize("lazy", [object(), iter([1, 2])])
def test_records_that_are_no_table_get_a_sentence(lazy):
    with pytest.raises(BadInput, match="one row per record"):
        tacit.attack(TREE, (lazy, Y[:N]), SIDES[1], references=0)


def test_a_frame_beside_three_things_gets_a_sentence():
    with pytest.raises(BadInput, match="must be a pair"):
        tacit.attack(TREE, (*SIDES[0], 1), (pd.DataFrame(X[N:]), Y[N:]), references=0)
