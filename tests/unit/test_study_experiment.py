"""The experiment in fleets: its game is the claim's, and what it audits is what the released model was trained by."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tacit import BadInput, Mismatch, Plan, verify
from tacit.core import source
from tacit.fleet import Epochs, Fleet
from tacit.study.experiment import SHARED_ORDER, Experiment
from tacit.study.fresh_model import crafted
from tacit.study.recipe import FLEET, OWN, Effort, Recipe
from tacit.train import PrivateStep, fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 240)


def make():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


def experiment(runs=60, x=X):
    effort = Effort(references=6, targets=2, runs=runs, fault_runs=40, attacks=("loss", "lira"))
    return Experiment(x[:200], Y[:200], (x[200:], Y[200:]), source(1), effort=effort)


def test_the_fleet_and_the_released_training_take_the_same_steps():
    """Everybody in every batch and next to no noise: after three steps both end at the same parameters."""
    plan = Plan(200, 1.0, 3, 1e-7, clip_norm=0.5)
    torch.manual_seed(0)
    start = make()
    models = Fleet(start, sgd(2.0)).train(X[:200], Y[:200], np.ones((200, 1), dtype=bool), plan, rng=2)
    data = (torch.as_tensor(X[:200]), torch.as_tensor(Y[:200]))
    done = fit(start, data, plan, optimizer=sgd(2.0)(list(start.parameters())), rng=3, delta=1e-6)
    for name, found in done.model.named_parameters():
        assert torch.allclose(models.stacks[0].parameters[name][0], found, atol=1e-5), name


def test_a_game_under_another_adjacency_is_refused_before_anything_is_trained():
    """Soundness rule 17: a fleet adds and removes its canary, so it cannot test a claim about replacing."""

    def never():
        raise AssertionError("nothing may be trained")

    plan = Plan(100, 0.2, 3, 4.0, adjacency="replace")
    with pytest.raises(Mismatch, match="add-remove"):
        experiment().bracket(Recipe("replace", never, sgd(1.0), plan))


def test_a_plain_training_that_learns_next_to_nothing_shows_nothing():
    """Runs from one common start in one common order are only two numbers, which would show all that is attainable."""
    evidence, released = experiment().bracket(Recipe("plain", make, sgd(1e-6), Epochs(1, 50)))
    assert released is None
    assert evidence.attainable > 1.0
    assert evidence.lower.bound.epsilon == 0.0
    assert SHARED_ORDER in evidence.not_covered


SMALL_PLAN = Plan(100, 1.0, 4, 4.0)
BLANK = X * (np.arange(6) > 0).astype(np.float32)
"""Nothing is ever seen in the first feature, so that only noise covers the canary's trace there."""


def audited():
    """The two games of a private training, by name, and the whole evidence."""
    evidence, _ = experiment(100, BLANK).bracket(Recipe("private", make, sgd(2.0), SMALL_PLAN))
    return {item.game: item for item in evidence.demonstrations}, evidence


def test_the_code_that_trains_the_released_model_is_audited_too():
    games, evidence = audited()
    assert (games[FLEET].planned, games[OWN].planned) == (100, 40)
    assert (evidence.provenance["runs_of_the_fleet"], evidence.provenance["runs_of_train.fit"]) == (100, 40)
    assert (games[FLEET].bound.confidence, games[OWN].bound.confidence) == (pytest.approx(0.96), 0.99)
    assert games[OWN].attainable > evidence.upper.epsilon
    assert evidence.verdict == "consistent"
    told = next(text for text in evidence.not_covered if "100 runs of the audit are a fleet's" in text)
    assert "40 are train.fit's own" in told
    assert verify(evidence).ok


def test_mutant_training_without_noise_is_refuted_though_the_fleet_adds_it(monkeypatch):
    right = PrivateStep.__init__

    def no_noise(self, model, optimizer, plan, *rest):
        right(self, model, optimizer, replace(plan, noise_multiplier=1e-9), *rest)

    monkeypatch.setattr(PrivateStep, "__init__", no_noise)
    games, evidence = audited()
    assert games[OWN].bound.epsilon > evidence.upper.epsilon > games[FLEET].bound.epsilon
    assert evidence.verdict == "refuted"


def test_groups_are_compared_on_the_first_model():
    """One row per record, so that the test of no difference may treat rows as independent."""
    groups = np.where(np.arange(200) < 100, "old", "young")
    small = replace(experiment(16), groups=groups)
    evidence, _ = small.bracket(Recipe("plain", make, sgd(1.0), Epochs(1, 50)))
    assert [item.group for item in evidence.groups] == ["old", "young"]
    assert 90 <= sum(item.advantage.n for item in evidence.groups) <= 110
    assert all(0 < item.p_value <= 1 for item in evidence.groups)


def test_a_crafted_start_knows_the_held_out_records_and_is_where_the_audit_begins():
    """Gradients of records like them become short, so that they hide a canary less."""
    torch.manual_seed(0)
    start, held = make(), (X[200:], (X[200:, 0] > 0).astype(np.int64))
    before = [value.clone() for value in start.parameters()]
    known = crafted(start, *held)

    def longest(model):
        gradients = torch.autograd.grad(
            nn.functional.cross_entropy(model(torch.as_tensor(held[0])), torch.as_tensor(held[1])), model.parameters()
        )
        return sum(float(value.square().sum()) for value in gradients)

    assert longest(known) < longest(start) / 100
    assert all(torch.equal(one, two) for one, two in zip(before, start.parameters(), strict=True))
    small = experiment(16, BLANK)
    small = replace(small, effort=replace(small.effort, own_runs=16, start="crafted", canary="clip-aware"))
    evidence, _ = small.bracket(Recipe("private", make, sgd(2.0), SMALL_PLAN))
    assert {item.canary for item in evidence.demonstrations} == {"clip-aware, crafted start"}


def test_a_start_that_is_not_known():
    with pytest.raises(BadInput, match="fresh"):
        Effort(start="warm")
