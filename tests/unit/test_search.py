"""Private selection of settings: what is charged, how many trials are drawn, and that only the winner is kept."""

import math
import time
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from scipy import stats

import tacit
from tacit import BadInput, Evidence, NotFinished
from tacit.core import source
from tacit.events import Compose, Gaussian, OneOf, Repeat, RepeatAndSelect
from tacit.loss.renyi import TILTS
from tacit.mechanism.search import number_of_trials

DRAWS = 3000
LEVEL = 1e-9


class Till:
    def __init__(self):
        self.asked = []

    def charge(self, event, *, key, purpose="", analyst=""):
        self.asked.append(event)


def test_one_of_several_costs_as_much_as_the_worst_of_them():
    few, many = Gaussian(4.0), Repeat(Gaussian(6.0), 3)
    curve = tacit.privacy_loss(OneOf((few, many)), "add-remove").renyi(TILTS)
    each = [tacit.privacy_loss(event, "add-remove").renyi(TILTS) for event in (few, many)]
    assert np.allclose(curve, np.maximum(*each))
    same = tacit.epsilon(OneOf((few, few)), delta=1e-6)
    assert same == tacit.epsilon(few, delta=1e-6)
    with pytest.raises(BadInput, match="at least one"):
        OneOf(())


@pytest.mark.parametrize("mean", [0.7, 4.0, 12.5])
def test_the_number_of_trials_is_poisson(mean):
    chance = source(1)
    drawn = np.array([number_of_trials(mean, None, chance) for _ in range(DRAWS)])
    top = int(stats.poisson.ppf(0.99, mean))
    seen = np.bincount(np.minimum(drawn, top), minlength=top + 1)
    share = np.append(stats.poisson.pmf(np.arange(top), mean), stats.poisson.sf(top - 1, mean))
    assert stats.chisquare(seen, DRAWS * share).pvalue > LEVEL
    off = stats.poisson.pmf(np.arange(top), 1.25 * mean)
    assert stats.chisquare(seen, DRAWS * np.append(off, 1 - off.sum())).pvalue < LEVEL


def test_the_number_of_trials_is_geometric():
    chance = source(1)
    drawn = np.array([number_of_trials(5.0, 1.0, chance) for _ in range(DRAWS)])
    top = 12
    seen = np.bincount(np.minimum(drawn, top), minlength=top + 1)[1:]
    share = np.append(stats.geom.pmf(np.arange(1, top), 0.2), stats.geom.sf(top - 1, 0.2))
    assert stats.chisquare(seen, DRAWS * share).pvalue > LEVEL
    with pytest.raises(BadInput, match="shape"):
        number_of_trials(5.0, 0.5, chance)


@pytest.mark.parametrize("shape", [None, 1.0])
@pytest.mark.parametrize("mean", [1.5, 7.3, 400.25])
def test_the_number_of_trials_is_the_first_that_a_uniform_number_is_below(mean, shape):
    """The same word as `source` gives first, looked up in the distribution function by 60 digits."""
    with mpmath.workdps(60):
        for seed in range(60):
            below = mpmath.mpf(int(source(seed).words(1)[0])) / 2**64
            count = 0 if shape is None else 1
            term = mpmath.exp(-mean) if shape is None else 1 / mpmath.mpf(mean)
            total = term
            while total <= below:
                count += 1
                term *= mpmath.mpf(mean) / count if shape is None else 1 - 1 / mpmath.mpf(mean)
                total += term
            assert number_of_trials(mean, shape, source(seed)) == count


@pytest.mark.parametrize("shape", [None, 1.0])
def test_many_trials_are_counted_quickly(shape):
    """The distribution function was added up as fractions: minutes for a mean of 10,000, which is offered."""
    began = time.process_time()
    drawn = [number_of_trials(9999.123, shape, source(seed)) for seed in range(10)]
    assert time.process_time() - began < 5
    assert all(0 < number < 200_000 for number in drawn)
    assert number_of_trials(1.0, 1.0, source(0)) == 1


def test_the_whole_search_is_charged_once_and_the_best_trial_is_kept():
    till, seen = Till(), []

    def run(candidate, chance):
        seen.append(candidate)
        return f"model {candidate}", math.nan if candidate == 9 else float(candidate)

    found = tacit.search(
        run, [1, 2, 9], event=lambda k: Repeat(Gaussian(9.0), k), delta=1e-6, mean=30.0, ledger=till, rng=0
    )
    assert (found.result, found.score, found.candidate) == ("model 2", 2.0, 2)
    events = tuple(Repeat(Gaussian(9.0), k) for k in (1, 2, 9))
    assert till.asked == [RepeatAndSelect(OneOf(events), 30.0, 1.0)] == [found.evidence.claim.event]
    dear = tacit.epsilon(RepeatAndSelect(OneOf(events), 30.0, None), delta=1e-6).upper
    assert found.evidence.upper.epsilon < dear
    assert found.evidence.upper.epsilon == tacit.epsilon(till.asked[0], delta=1e-6).upper
    assert found.evidence.upper.epsilon > tacit.epsilon(events[2], delta=1e-6).upper
    assert "3 candidates" in found.evidence.provenance["settings"]
    assert tacit.verify(found.evidence).ok
    seen.clear()
    again = tacit.search(run, [1, 2, 9], event=Gaussian(9.0), delta=1e-6, mean=30.0, shape=None, rng=0)
    assert again.candidate == 2
    assert set(seen) == {1, 2, 9}
    assert 10 < len(seen) < 60


def test_a_run_that_offers_many_makes_all_trials_in_one_call():
    calls = []

    def run(candidate, own):
        return candidate, float(own.uniform(1)[0])

    def many(candidates, sources):
        calls.append(len(candidates))
        return [run(candidate, own) for candidate, own in zip(candidates, sources, strict=True)]

    settings = {"event": Gaussian(9.0), "delta": 1e-6, "rng": 4}
    alone = tacit.search(run, [1, 2, 3], **settings)
    run.many = many
    together = tacit.search(run, [1, 2, 3], **settings)
    assert calls == [calls[0]] != [1]
    assert (together.result, together.score) == (alone.result, alone.score)
    run.many = lambda candidates, sources: []
    with pytest.raises(BadInput, match="for each candidate"):
        tacit.search(run, [1, 2, 3], **settings)


@dataclass(frozen=True)
class Model:
    evidence: Evidence


@dataclass(frozen=True)
class Held:
    model: object


def test_a_model_that_brings_evidence_gets_the_claim_of_the_search():
    bound = tacit.epsilon(Gaussian(9.0), delta=1e-6).upper
    own = Evidence(subject="one run", not_covered=("its own",))
    found = tacit.search(lambda c, r: (Model(own), 0.0), [1], event=Gaussian(9.0), delta=1e-6, rng=1)
    told = found.result.evidence
    assert told.claim == found.evidence.claim
    assert told.upper.epsilon > bound
    assert "its own" in told.not_covered
    assert "private selection" in told.provenance["settings"]


class Learner:
    def fit(self):
        return self


@pytest.mark.parametrize("inside", [False, True])
def test_trials_that_go_on_from_one_another_are_refused(inside):
    """A network made outside `make_run` was trained further by every trial, and the claim counted one training."""
    model = Learner()
    returned = Held(model) if inside else model

    def kept(candidate, chance):
        return returned, 0.0

    def made(candidate, chance):
        return Held(Learner()) if inside else Learner(), 0.0

    settings = {"candidates": [1], "event": Gaussian(9.0), "delta": 1e-6, "mean": 9.0, "shape": None, "rng": 0}
    with pytest.raises(BadInput, match="same Learner"):
        tacit.search(kept, **settings)
    assert tacit.search(made, **settings).candidate == 1
    assert tacit.search(lambda c, r: (Learner, 0.0), **settings).result is Learner


def test_no_trial_releases_nothing_and_was_paid_for():
    till = Till()
    with pytest.raises(NotFinished, match="drawn as 0"):
        tacit.search(lambda c, r: (c, 0.0), [1], event=Gaussian(9.0), delta=1e-6, mean=1e-9, ledger=till, rng=0)
    assert len(till.asked) == 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"candidates": []}, "at least one"),
        ({"candidates": {"lr": 0.1}}, "must be a list, got dict"),
        ({"candidates": "ab"}, "must be a list, got str"),
        ({"candidates": 3}, "must be a list, got int"),
        ({"mean": 0}, "mean"),
        ({"event": "nothing"}, "`event` must be"),
        ({"event": 1.0}, "`event` must be"),
        ({"make_run": None}, "make_run must be a function"),
        ({"make_run": lambda c, r: 0.5}, "what it made and its score"),
        ({"make_run": lambda c, r: (c, None)}, "what it made and its score"),
    ],
)
def test_bad_searches(changed, said):
    asked = {"make_run": lambda c, r: (c, 0.0), "candidates": [1], "event": Gaussian(9.0), "delta": 1e-6, "rng": 0}
    with pytest.raises((BadInput, TypeError), match=said):
        tacit.search(**{**asked, **changed})


def test_a_search_that_cannot_be_made_is_refused_before_it_is_paid():
    till = Till()
    for changed in ({"candidates": {1: 2}}, {"make_run": 3}, {"mean": math.inf}, {"delta": None}):
        asked = {"make_run": lambda c, r: (c, 0.0), "candidates": [1], "event": Gaussian(9.0), "delta": 1e-6}
        with pytest.raises(BadInput):
            tacit.search(**{**asked, "ledger": till, **changed})
    assert till.asked == []


@pytest.mark.parametrize("kind", [iter, set, np.array, tuple], ids=["iterator", "set", "array", "tuple"])
def test_candidates_are_any_list_of_settings(kind):
    found = tacit.search(lambda c, r: (c, c), kind([1, 2]), event=Gaussian(9.0), delta=1e-6, mean=30.0, rng=0)
    assert found.candidate == 2
    assert "2 candidates" in found.evidence.provenance["settings"]


def test_a_grid_is_searched_within_its_budget():
    pytest.importorskip("sklearn")
    from tacit.erm import PrivateGridSearchCV, PrivateLogisticRegression

    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 3))
    y = (x @ [2.0, -1.0, 0.5] > 0).astype(int)
    base = PrivateLogisticRegression(classes=[0, 1], norm_bound=4.0, method="gradient")
    till = Till()
    found = PrivateGridSearchCV(base, {"norm_bound": [0.01, 4.0, 1e4]}, 1.0, 1e-6, ledger=till, random_state=0).fit(
        x, y
    )
    assert found.best_params_ != {"norm_bound": 1e4}
    assert found.score(x, y) > 0.9
    assert abs(found.best_score_ - found.score(x, y)) < 0.1
    assert till.asked == [found.event_]
    assert 0.9 < found.bound_.epsilon <= 1.0
    inner = found.event_.event
    assert isinstance(inner, Compose)
    winner = found.best_estimator_
    assert (winner.event_, winner.bound_) == (found.event_, found.bound_)  # not those of its own fit, which cost less
    assert winner.evidence().claim.event == found.event_
    assert winner.utility_ == {}  # what theorems promise of its own fit does not hold for the best of many
    assert winner.evidence().not_covered[2:] == found.evidence().not_covered[1:]  # all but how settings were chosen
    assert "seeded" in winner.evidence().provenance["randomness"]
    assert not any("settings" in line for line in found.evidence().not_covered)
    assert tacit.verify(found.evidence()).ok
    assert found.predict_proba(x[:3]).shape == (3, 2)
    for name in ("epsilon", "public_size", "nothing"):
        with pytest.raises(BadInput, match="no setting"):
            PrivateGridSearchCV(base, {name: [1, None]}).fit(x, y)
    last = PrivateGridSearchCV(base.set_params(public_size=3000), {"method": ["output", "dynamics"]}, 1.0, 1e-6)
    with pytest.raises(BadInput, match="more than public_size"):  # one candidate's theorem is for no more
        last.fit(np.vstack((x, x[:1])), np.append(y, 1))
    last._charge(found.event_, last._budget(3000))
    assert "there are at most 3,000 records" in last.bound_.assumptions
    with pytest.raises(BadInput, match="public classes"):
        PrivateGridSearchCV(PrivateLogisticRegression(), {"norm_bound": [1.0]}).fit(x, y)
