"""`tacit.attack`: finds what an overfitted model gives away, nothing where there is nothing, and refuses bad input."""

import numpy as np
import pytest

import tacit
from tacit import BadInput

sklearn = pytest.importorskip("sklearn")
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402

X, Y = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(X))  # the file is ordered by writer: the blind baseline would see it
X, Y = X[ORDER], Y[ORDER]
IN, OUT = (X[:400], Y[:400]), (X[400:800], Y[400:800])


def forest():
    return RandomForestClassifier(10, random_state=0)


def names(evidence):
    return [item.attack for item in evidence.measurements]


def test_an_overfitted_forest_leaks_and_the_controls_behave():
    evidence = tacit.attack(forest().fit(*IN), IN, OUT, references=4, rng=1)
    best = max(item.auc.lower for item in evidence.measurements)
    assert best > 0.7
    assert all(control.passed for control in evidence.controls)
    assert evidence.verdict == "no claim"
    assert {"null", "planted leak", "blind baseline"} == {control.name for control in evidence.controls}


def test_a_model_of_other_data_gives_nothing_away():
    """Conditional on this fixed seed; the interval is a 95 % one."""
    evidence = tacit.attack(forest().fit(X[800:], Y[800:]), IN, OUT, references=4, rng=2)
    assert all(item.auc.lower < 0.5 for item in evidence.measurements)


def test_members_that_differ_without_any_model_make_it_uninformative():
    shifted = (OUT[0] + 3.0, OUT[1])
    evidence = tacit.attack(forest().fit(*IN), IN, shifted, references=0, rng=3)
    assert evidence.verdict == "uninformative"
    assert "blind baseline" in evidence.sentence


def test_a_plain_function_gets_reference_free_attacks_only():
    model = LogisticRegression(max_iter=500).fit(X[:400] / 16, Y[:400])
    evidence = tacit.attack(lambda x: model.predict_proba(x / 16), IN, OUT, rng=4)
    assert names(evidence) == ["loss", "modified-entropy", "blind baseline"]


def test_a_function_with_fit_gets_references():
    def fit(x, y, rng):
        return forest().fit(x, y).predict_proba

    evidence = tacit.attack(fit(*IN, None), IN, OUT, fit=fit, references=2, attacks=["lira", "loss"], rng=5)
    assert names(evidence) == ["lira", "loss", "blind baseline"]


def test_a_torch_module_is_attacked_by_its_logits():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(64, 10)
    evidence = tacit.attack(model, IN, OUT, rng=6)
    assert abs(evidence.measurements[0].auc.value - 0.5) < 0.1


def test_a_model_that_says_labels_only():
    """The gap attack on 0 and 1: what it is by hand from two accuracies."""
    model = forest().fit(*IN)
    evidence = tacit.attack(model.predict, IN, OUT, attacks=["label", "loss"], rng=4)
    right = [float((model.predict(x) == y).mean()) for x, y in (IN, OUT)]
    expected = 0.5 + (right[0] - right[1]) / 2
    assert [item.auc.value for item in evidence.measurements[:2]] == pytest.approx([expected, expected])


@pytest.mark.parametrize("classes", [2, 10])
def test_an_estimator_with_decision_values(classes):
    from sklearn.svm import LinearSVC

    sides = [(x / 16, y % classes) for x, y in (IN, OUT)]
    model = LinearSVC(C=100.0, max_iter=50_000).fit(*sides[0])
    evidence = tacit.attack(model, *sides, attacks=["loss"], references=0, rng=4)
    decision = model.decision_function(sides[0][0])
    decision = decision if decision.ndim == 2 else np.stack((0 * decision, decision), 1)
    loss = np.log(np.exp(decision - decision[np.arange(400), sides[0][1]][:, None]).sum(1))
    score = evidence.scores[0]
    np.testing.assert_allclose(-score.members, loss, atol=1e-9)


def test_attacks_that_learn_from_known_records_are_judged_on_the_others():
    evidence = tacit.attack(forest().fit(*IN), IN, OUT, attacks=["quantile", "loss"], references=0, rng=6)
    found = {item.attack: item for item in evidence.measurements}
    assert (found["quantile"].members, found["quantile"].nonmembers) == (200, 200)
    assert (found["loss"].members, found["loss"].nonmembers) == (400, 400)
    assert found["quantile"].auc.lower > 0.6
    assert "membership of 400 other records" in evidence.threat["attacker sees"]
    assert all(control.passed for control in evidence.controls)


@pytest.mark.slow
def test_a_torch_module_can_be_looked_into():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    x, y = (
        torch.as_tensor(IN[0] / 16, dtype=torch.float32),
        torch.as_tensor(np.random.default_rng(0).permutation(IN[1])),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    sides = (x.numpy(), y.numpy()), (OUT[0] / 16, OUT[1])
    names = ["gradient-norm", "white-box-gradients"]
    evidence = tacit.attack(model, *sides, attacks=names, rng=6)
    assert all(item.auc.lower > 0.6 for item in evidence.measurements if item.attack in names)
    assert "gradients" in evidence.threat["attacker sees"]
    with pytest.raises(BadInput, match="torch module"):
        tacit.attack(forest().fit(*IN), IN, OUT, attacks=["gradient-norm"], references=0)


def test_an_attack_of_ones_own():
    def mine(target, references):
        return tacit.Scores(-target.loss[:, 0], target.member[:, 0], attack="mine", randomised=False)

    assert names(tacit.attack(forest().fit(*IN), IN, OUT, attacks=[mine], references=0, rng=7))[0] == "mine"


def test_the_same_seed_gives_the_same_evidence():
    first, second = (tacit.attack(forest().fit(*IN), IN, OUT, references=2, rng=8) for _ in range(2))
    assert first.measurements == second.measurements


@pytest.mark.parametrize(
    "call",
    [
        lambda: tacit.attack(forest().fit(*IN), IN, IN),
        lambda: tacit.attack(forest().fit(*IN), IN, (X[:0], Y[:0])),
        lambda: tacit.attack(forest().fit(*IN), IN, (X[400:800, :5], Y[400:800])),
        lambda: tacit.attack(forest().fit(*IN), IN, (X[400:800], Y[400:700])),
        lambda: tacit.attack(forest().fit(*IN), IN, 5),
        lambda: tacit.attack(7, IN, OUT),
        lambda: tacit.attack(lambda x: x[:, 0], IN, OUT),
        lambda: tacit.attack(lambda x: np.full((len(x), 10), np.nan), IN, OUT),
        lambda: tacit.attack(lambda x: np.ones((len(x), 10)) / 10, IN, OUT, attacks="lira"),
        lambda: tacit.attack(forest().fit(*IN), IN, OUT, attacks="crystal ball"),
        lambda: tacit.attack(forest().fit(*IN), IN, OUT, references=-1),
        lambda: tacit.attack(forest().fit(*IN), IN, OUT, confidence=1.5),
    ],
)
def test_bad_input(call):
    with pytest.raises(BadInput):
        call()


@pytest.mark.parametrize("names", [("no", "yes"), (1, 2), (-1, 1)])
def test_an_estimator_may_name_its_classes(names):
    """Labels are what the estimator calls them, and a class that a reference never saw has a column all the same."""
    labels = np.array(names)
    renamed = [(x, labels[(y == 0).astype(int)]) for x, y in (IN, OUT)]
    plain = [(x, (y == 0).astype(int)) for x, y in (IN, OUT)]
    found = [
        tacit.attack(forest().fit(*sides[0]), *sides, attacks=["loss"], references=2, rng=3).measurements[0].auc.value
        for sides in (renamed, plain)
    ]
    assert found[0] == found[1]


def test_bracket_keeps_records_that_are_alike_on_one_side():
    """Data with repeated rows can be bracketed, and its accuracy is in the labels' own names."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(40, 3)), 3, axis=0)
    y = np.where(x[:, 0] > 0, "up", "down")
    found = tacit.bracket(forest(), (x, y), references=2, runs=16, isolation="none", rng=3)
    assert found.utility["test accuracy"] > 0.6
