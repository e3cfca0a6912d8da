"""Auditing somebody else's fit: right, wrong, raising, hanging, dying, silent."""

import os
import time

import numpy as np
import pytest

from tacit.audits import CANARIES, audit, verify
from tacit.audits.canary import Pair, pair
from tacit.core import Adjacency, BadInput, Evidence, Mismatch, NotFinished, Verdict
from tacit.core.events import Gaussian, Repeat
from tacit.loss import Plan

CLAIM = Repeat(Gaussian(4.0), 10)


def data(n=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    return x, (x[:, 0] > 0).astype(int)


def private_fit(noise):
    """Full-batch noisy gradient descent on a softmax, clip 1, ten steps: exactly Repeat(Gaussian(noise), 10)."""

    def fit(x, y, rng):
        ones = np.hstack([x, np.ones((len(x), 1))])
        weights = np.zeros((ones.shape[1], 2))
        for _ in range(10):
            logits = ones @ weights
            p = np.exp(logits - logits.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[np.arange(len(y)), y] -= 1
            g = ones[:, :, None] * p[:, None, :]
            g /= np.maximum(np.sqrt((g**2).sum(axis=(1, 2))), 1)[:, None, None]
            weights -= 0.3 * (g.sum(axis=0) + noise * rng.normal(size=weights.shape))
        return lambda q: np.hstack([q, np.ones((len(q), 1))]) @ weights

    return fit


def telling_fit(x, y, rng):
    """Tells how many records it saw: any claim is false."""
    return lambda q: np.stack([q[:, 0], np.full(len(q), float(len(x)))], axis=1)


def test_a_right_implementation_is_consistent():
    evidence = audit(private_fit(4.0), data(), claim=CLAIM, canary="backdoor", runs=1000, rng=2)
    assert evidence.verdict is Verdict.CONSISTENT
    assert all(control.passed for control in evidence.controls)
    assert [item.bound.method for item in evidence.demonstrations] == ["exact test", "exact test, trade-off curve"]
    assert evidence.claim.bound.epsilon > evidence.lower.bound.epsilon > 0
    assert verify(evidence).ok


def test_too_little_noise_is_refuted():
    evidence = audit(private_fit(1.0), data(), claim=CLAIM, runs=400, rng=1)
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.lower.bound.assumes == "Repeat(Gaussian, steps=10)"


def test_a_fixed_seed_is_named_as_what_gave_it_away_and_a_kept_one_as_not_covered():
    """A generator that a training keeps is started afresh for every run: only words can tell of its seed."""
    kept, right = np.random.default_rng(0), private_fit(4.0)
    repeated = audit(lambda x, y, rng: right(x, y, np.random.default_rng(0)), data(), claim=CLAIM, runs=120, rng=1)
    assert repeated.verdict is Verdict.REFUTED
    assert "exactly the same answers: there is no noise, or every run draws the same numbers" in repeated.reason
    assert verify(repeated).ok
    seeded = audit(lambda x, y, rng: right(x, y, kept), data(), claim=CLAIM, runs=40, canary="blank", rng=1)
    assert seeded.verdict is not Verdict.REFUTED
    assert any("keeps a generator with a fixed seed" in line for line in seeded.not_covered)
    assert not any("fixed seed" in line for line in repeated.not_covered)


def test_a_training_that_fails_with_the_canary_is_not_called_consistent():
    right = private_fit(4.0)

    def fit(x, y, rng):
        if len(x) > 40 and rng.random() < 0.5:
            raise ValueError
        return right(x, y, rng)

    found = audit(fit, data(), claim=CLAIM, canary="backdoor", runs=200, rng=1)
    assert found.verdict is Verdict.UNINFORMATIVE
    assert "the control failed runs did not behave" in found.sentence


def test_a_pair_is_refuted_without_assumptions_only():
    evidence = audit(private_fit(0.3), data(), claim=(1.0, 1e-5), runs=300, rng=2, isolation="none")
    assert evidence.verdict is Verdict.REFUTED
    assert evidence.lower.bound.assumes is None


def test_a_plan_brings_its_adjacency():
    plan = Plan(40, 1.0, 10, 4.0, adjacency="replace")
    evidence = audit(private_fit(4.0), data(), claim=plan, runs=40, rng=1, isolation="none")
    assert evidence.claim.bound.adjacency is Adjacency.REPLACE
    assert evidence.verdict is not Verdict.REFUTED
    with pytest.raises(Mismatch, match="adjacency"):
        audit(private_fit(4.0), data(), claim=plan, runs=40, rng=1, adjacency="add-remove")


def test_neighbours_have_the_adjacency_of_the_game():
    x, y = data(5)
    for adjacency, with_, without in ((Adjacency.ADD_REMOVE, 6, 5), (Adjacency.REPLACE, 5, 5)):
        made = pair(x, y, CANARIES["blank"], np.random.default_rng(0), adjacency)
        assert (len(made.data(True)[0]), len(made.data(False)[0])) == (with_, without)
        np.testing.assert_array_equal(made.data(True)[0][-1], 0.0)
        np.testing.assert_array_equal(made.data(True)[0][:4], made.data(False)[0][:4])
    with pytest.raises(BadInput, match="null record"):
        Pair(x, y, x[:1], y[:1], Adjacency.ZERO_OUT)


def test_the_clip_aware_canary_points_where_records_vary_least():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)) @ np.diag([3.0, 2.0, 1.0, 0.01]) @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    record, _ = CANARIES["clip-aware"](x.reshape(200, 2, 2), np.arange(200) % 2, rng)
    along = x @ record.ravel() / np.linalg.norm(record)
    assert np.abs(along).max() < 0.1
    assert np.linalg.norm(record) == pytest.approx(np.linalg.norm(x, axis=1).max())


@pytest.mark.parametrize("name", sorted(CANARIES))
@pytest.mark.parametrize("shape", [(4,), (12, 12), (3, 12, 12)])
def test_canaries_fit_the_data(name, shape):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, *shape)), np.repeat([3, 5, 9], 10)
    record, label = CANARIES[name](x, y, rng)
    assert record.shape == shape
    assert label in (3, 5, 9)
    x_before = x.copy()
    CANARIES[name](x, y, rng)
    np.testing.assert_array_equal(x, x_before)


def test_an_own_canary_is_used():
    def far(x, y, rng):
        return np.full(4, 9.0), 1

    evidence = audit(private_fit(1.0), data(), claim=CLAIM, canary=far, runs=60, rng=1, isolation="none")
    assert evidence.demonstrations[0].canary == "far"
    with pytest.raises(BadInput, match="one record"):
        audit(private_fit(1.0), data(), claim=CLAIM, canary=lambda x, y, rng: (x, y), runs=60, rng=1)


def sometimes(problem):
    """A fit that leaks all and fails on every third run."""

    def fit(x, y, rng):
        if rng.random() < 1 / 3:
            return problem(x)
        return telling_fit(x, y, rng)

    return fit


def raise_(x):
    raise RuntimeError("a secret: " + str(x[0, 0]))


PROBLEMS = {
    "raised RuntimeError": raise_,
    "predicted NaN": lambda x: lambda q: np.full((len(q), 2), np.nan),
    "predicted a constant": lambda x: lambda q: np.ones((len(q), 2)),
    "ended its process": lambda x: os._exit(3),
    "raised BadInput": lambda x: lambda q: np.zeros(3) + q[:3, 0],
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_failed_runs_count_against_refutation_and_the_rest_is_kept(problem):
    evidence = audit(sometimes(PROBLEMS[problem]), data(), claim=(1.0, 1e-5), canary="blank", runs=90, rng=3)
    failed = evidence.provenance["runs_failed"]
    assert 10 < failed < 50
    assert evidence.provenance["failures"] == f"{problem} in {failed} runs"
    assert evidence.demonstrations[0].failed == failed
    counts = evidence.demonstrations[0].counts
    assert counts.true_positives < counts.n_in
    assert counts.false_positives > 0


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_fit_that_always_raises_ends_with_one_sentence_without_data(isolation):
    with pytest.raises(NotFinished, match="raised RuntimeError") as caught:
        audit(lambda x, y, rng: raise_(x), data(), claim=CLAIM, runs=20, rng=1, isolation=isolation)
    assert "secret" not in str(caught.value)


def test_a_hanging_fit_is_ended():
    began = time.monotonic()
    with pytest.raises(NotFinished, match=r"took too long|out of time"):
        audit(lambda x, y, rng: time.sleep(60), data(), claim=CLAIM, canary="blank", runs=20, seconds=1.0, rng=1)
    assert time.monotonic() - began < 50  # the run itself would take 60


def test_a_time_budget_fixes_the_number_of_runs_beforehand():
    def slow(x, y, rng):
        time.sleep(0.01)
        return telling_fit(x, y, rng)

    evidence = audit(slow, data(), claim=(1.0, 1e-5), canary="blank", runs=100_000, seconds=3.0, rng=1)
    assert 4 <= evidence.demonstrations[0].planned < 2000
    assert evidence.provenance["seconds"] < 30  # all that was asked for would take a thousand


def test_runs_do_not_share_ambient_randomness():
    """Forked workers start from one global state; a fit that uses it must still give independent runs."""

    def ambient(x, y, rng):
        draw = np.random.normal()
        return lambda q: np.stack([q[:, 0] * 0 + draw + np.arange(len(q)), np.zeros(len(q))], axis=1)

    scores = audit(ambient, data(), claim=CLAIM, canary="blank", runs=60, rng=1).scores[0]
    assert np.unique(scores.score).size == 60


def test_a_seeded_audit_repeats_and_says_so():
    first, second = (audit(private_fit(2.0), data(), claim=CLAIM, runs=40, rng=7, canary="blank") for _ in range(2))
    np.testing.assert_array_equal(first.scores[0].score, second.scores[0].score)
    assert first.provenance["randomness"] == "seeded, for an experiment"


def test_evidence_survives_its_file(tmp_path):
    evidence = audit(telling_fit, data(), claim=(1.0, 1e-5), canary="blank", runs=60, rng=1, isolation="none")
    back = Evidence.load(evidence.save(tmp_path / "evidence.json"))
    assert back.verdict is evidence.verdict is Verdict.REFUTED
    assert back.demonstrations == evidence.demonstrations
    assert verify(back).ok


class Estimator:
    """scikit-learn's shape, with labels that are not 0 .. k - 1."""

    classes_ = np.array([5, 7])

    def __init__(self, told):
        self.told = told

    def predict_proba(self, x):
        first = 1 / (1 + np.exp(-x[:, 0] - self.told))
        return np.stack([first, 1 - first], axis=1)


def test_estimators_and_odd_labels():
    x, y = data()
    evidence = audit(
        lambda x, y, rng: Estimator(3.0 * (len(x) > 40)),
        (x, np.where(y, 7, 5)),
        claim=(1.0, 1e-5),
        canary=lambda x, y, rng: (x[0], 5),
        runs=60,
        rng=1,
        isolation="none",
    )
    assert evidence.verdict is Verdict.REFUTED


class Decides:
    """As a support vector machine answers: one score, or one for each class."""

    classes_ = np.array([5, 7])

    def __init__(self, told, columns):
        self.told, self.columns = told, columns

    def decision_function(self, x):
        score = x[:, 0] + self.told
        return score if self.columns == 1 else np.stack([np.zeros_like(score), score], axis=1)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("tells", [False, True])
def test_an_estimator_without_shares_is_audited_by_its_scores(columns, tells):
    x, y = data()
    evidence = audit(
        lambda x, y, rng: Decides(3.0 * (tells and len(x) > 40) + rng.normal(), columns),
        (x, np.where(y, 7, 5)),
        claim=(1.0, 1e-5),
        canary=lambda x, y, rng: (x[0], 7),
        runs=200,
        rng=1,
        isolation="none",
    )
    assert (evidence.verdict is Verdict.REFUTED) == tells
    assert all(control.passed for control in evidence.controls)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"game": "guess"}, "Game 'guess' is not known"),
        ({"canary": "yellow"}, "Canary 'yellow' is not known"),
        ({"isolation": "box"}, "isolation must be"),
        ({"runs": 1}, "runs must be"),
        ({"seconds": -1.0}, "seconds must be"),
        ({"claim": 3.0}, "A claim is"),
        ({"data": (np.zeros(3), np.zeros(3))}, "data must be"),
        ({"data": (np.zeros((3, 2)), np.zeros(3))}, "two classes"),
        ({"data": 5}, "data must be a pair"),
        ({"fit": 3}, "fit must be a function"),
        ({"fit": None}, "fit must be a function"),
        ({"fit": lambda x, y: None}, "cannot be called as fit"),
        ({"confidence": 1.0}, "confidence must be in"),
        ({"confidence": 2}, "confidence must be in"),
        ({"canary": lambda x, y, rng: None}, "must return a pair"),
        ({"canary": lambda x, y, rng: (1, 2, 3)}, "must return a pair"),
        ({"canary": lambda x, y, rng: ("a", 0)}, "must return a pair"),
        ({"canary": lambda x, y, rng: (x, 0)}, "one record"),
    ],
)
def test_bad_input_is_one_sentence(change, message):
    """And nothing is trained before it is said."""

    def never(x, y, rng):
        raise AssertionError

    given = {"fit": never, "data": data(), "claim": (1.0, 1e-5), "runs": 10, "rng": 1, "isolation": "none", **change}
    with pytest.raises(BadInput, match=message):
        audit(given.pop("fit"), given.pop("data"), **given)


def test_a_fit_that_works_in_place_changes_no_other_run():
    def fit(x, y, rng):
        x *= 2.0
        y[:] = y[::-1].copy()
        return lambda q: np.full((len(q), 2), x.sum()) * [0.0, 1.0] + q[:, :2]

    given = data()
    before = [part.copy() for part in given]
    evidence = audit(fit, given, claim=CLAIM, canary="blank", runs=20, rng=1, isolation="none")
    np.testing.assert_array_equal(given[0], before[0])
    np.testing.assert_array_equal(given[1], before[1])
    assert np.unique(evidence.scores[0].nonmembers).size == 1
