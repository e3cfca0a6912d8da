"""Faults that audits plant into private classifiers: exactly so much less noise, and never a claim."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.linear_model import LogisticRegression

import tacit
from tacit import BadInput
from tacit.audits import demonstrate, play, stated
from tacit.audits.canary import maker, pair
from tacit.core import Adjacency, source
from tacit.core.fault import FAULTS
from tacit.data import Records
from tacit.erm import PrivateAdditiveTrees, PrivateGaussianNB, PrivateLogisticRegression, PrivateSVC
from tacit.erm.planting import TIMES, planted
from tacit.study.cloning import refit
from tacit.study.experiment import Experiment
from tacit.study.faults import would_catch
from tacit.study.minimiser import Minimiser
from tacit.study.recipe import Effort, Recipe
from tacit.study.run_training import RunTraining
from tacit.train.recipe.networks import Shortened

X, NOBODY = np.zeros((40, 20)), np.full(40, 7)
"""Labels of no class: what a fit releases is noise alone."""
FITS = 150
METHODS = {
    "objective": {"method": "objective"},
    "output": {"method": "output"},
    "pure": {"method": "output", "delta": 0.0},
    "gradient": {"method": "gradient"},
    "smooth": {"method": "smooth"},
}


def spread(make):
    """The variance of weights over fits, around 0."""
    return np.mean([np.mean(make(seed).fit(X, NOBODY).coef_ ** 2) for seed in range(FITS)])


@pytest.mark.parametrize("name", METHODS)
def test_noise_is_smaller_by_the_factor_of_the_fault(name):
    """Variances of 150 fits with 20 weights each; of noise that is 1.5 or 2.5 times too small the test fails."""
    settings = {"epsilon": 1.0, "delta": 1e-5, "classes": [0, 1], "fit_intercept": False, **METHODS[name]}
    right = spread(lambda seed: PrivateLogisticRegression(random_state=seed, **settings))
    wrong = spread(
        lambda seed: planted(PrivateLogisticRegression(random_state=1000 + seed, **settings), "noise 2 times too small")
    )
    assert 3 < right / wrong < 5.2


def test_nothing_is_left_without_noise():
    model = planted(PrivateLogisticRegression(1.0, 1e-5, classes=[0, 1], random_state=0), "no noise").fit(X, NOBODY)
    assert np.abs(model.coef_).max() < 1e-4


def test_a_faulty_model_has_no_evidence_and_pays_nobody():
    wrong = planted(PrivateSVC(1.0, 1e-5, classes=[0, 1], ledger=object()), "no noise")
    assert wrong.ledger is None
    wrong.fit(X, NOBODY)
    with pytest.raises(BadInput, match="planted fault"):
        wrong.evidence()
    with pytest.raises(BadInput, match="planted fault"):
        wrong.report("page.html")


def test_bins_of_trees_are_counted_with_less_noise_too(monkeypatch):
    seen = []
    found = "tacit.erm.additive.counted_bins"
    real = tacit.erm.additive.counted_bins
    monkeypatch.setattr(found, lambda *parts: seen.append(parts[3]) or real(*parts))
    x, y = np.random.default_rng(0).uniform(size=(400, 1)), np.arange(400) % 2
    model = PrivateAdditiveTrees(60.0, 1e-5, bounds=(0, 1), bins=2, classes=[0, 1], random_state=0)
    model.fit(x, y)
    planted(model, "noise 3 times too small").fit(x, y)
    assert seen[0] == pytest.approx(3 * seen[1])


def test_what_cannot_be_planted_exactly_is_not():
    model = PrivateLogisticRegression(classes=[0, 1])
    assert {fault for fault in FAULTS if planted(model, fault) is not None} == set(TIMES)
    assert planted(PrivateGaussianNB(classes=[0, 1]), "no noise") is None
    assert refit(LogisticRegression(), None).planted("no noise") is None
    again = refit(model, None).planted("no noise")
    assert type(again(X, np.arange(40) % 2, np.random.default_rng(0))).__name__ == "FaultyPrivateLogisticRegression"


ROWS = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
RECORDS = Records(ROWS, (ROWS[:, 0] > 0).astype(np.int64))
PLAN = Minimiser(60, 2, 2.0, 1.0, 1e-3)


TRAINING = RunTraining("t", RECORDS, np.ones(60, dtype=bool), lambda: Shortened(2, 2, 2.0), PLAN, 1e-3)
GAME = pair(ROWS, RECORDS.y, maker("mislabelled")[1], np.random.default_rng(0), Adjacency.ADD_REMOVE)
CLAIM = stated((1.0, 1e-3), delta=1e-3)  # a pair: the curve of the event takes seconds


def runs(again):
    """The game in this process: the score is the margin of the canary."""
    start, rng = TRAINING.make(), np.random.default_rng(5)

    def run(coins):
        found = []
        for coin in coins:
            x, y = GAME.data(coin)
            told = again(start, x, y, rng)(GAME.canary_x)[0]
            found.append(told[GAME.canary_y[0]] - told[1 - GAME.canary_y[0]])
        return np.array(found)

    return run


def judged(again):
    scores = play(runs(again), 100, 3)
    return demonstrate(scores, claim=CLAIM, confidence=0.95, rng=source(4), game="runs", canary="mislabelled",
                       planned=100, failed=0, adjacency=GAME.adjacency)[0]  # fmt: skip


def offered(fault):
    again = TRAINING.planted(fault)
    return None if again is None else runs(again)


def test_an_audit_of_private_minimisation_says_what_it_would_have_caught():
    """And it does: the training without noise is refuted."""
    shown = judged(TRAINING.again)
    chances = {fault.name: fault.chance for fault in would_catch(offered, CLAIM, shown, 100, source(1), 100)}
    assert {name for name, chance in chances.items() if chance is not None} == set(TIMES)
    assert chances["no noise"].value > 0.99
    assert chances["noise 2 times too small"].lower <= chances["noise 3 times too small"].upper
    assert chances["noise 2 times too small"].value < 0.9
    assert not shown.bound.contradicts(CLAIM.bound)
    assert judged(TRAINING.planted("no noise")).bound.contradicts(CLAIM.bound)


def test_the_audit_of_a_minimiser_plants_what_it_offers(monkeypatch):
    trial = Experiment(ROWS, RECORDS.y, (ROWS, RECORDS.y), source(3), 1e-3, Effort(own_runs=16, fault_runs=40))
    monkeypatch.setattr("tacit.study.experiment.would_catch", lambda planted, *_: [planted(name) for name in FAULTS])
    recipe = Recipe("t", TRAINING.make, TRAINING.optimizer, PLAN, TRAINING.again, False, "runs", TRAINING.planted)
    found = trial._own_faults(recipe, TRAINING.make(), CLAIM, GAME, None)
    assert [callable(run) for run in found] == [name in TIMES for name in FAULTS]
    none = trial._own_faults(replace(recipe, planted=None), TRAINING.make(), CLAIM, GAME, None)
    assert all(fault.chance is None for fault in none)
