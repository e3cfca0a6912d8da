"""The experiment in fleets: its game is the claim's, and what it audits is what the released model was trained by."""

import numpy as np
import pytest
import torch
from torch import nn

from tacit import Mismatch, Plan
from tacit.core import source
from tacit.fleet import Epochs, Fleet
from tacit.study.experiment import SHARED_ORDER, Effort, Experiment, Recipe
from tacit.train import fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 240)


def make():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


def experiment(runs=60):
    effort = Effort(references=6, targets=2, runs=runs, attacks=("loss", "lira"))
    return Experiment(X[:200], Y[:200], (X[200:], Y[200:]), source(1), effort=effort)


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
