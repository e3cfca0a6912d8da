"""Averages of released parameters."""

import pytest
import torch
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import fit, private
from tacit.train.average import Average
from tacit.train.checkpoint import write
from train_zoo import CLASSES

DATA = torch.randn(100, 5, generator=torch.Generator().manual_seed(0)), torch.arange(100) % CLASSES
PLAN = Plan(100, 0.1, 10, 1.0)


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(5, CLASSES)


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def iterates() -> list[torch.Tensor]:
    model, found = small(), []
    step = private(model, sgd(model), PLAN, rng=1)
    for batch in step.batches(DATA):
        step(batch)
        found.append(model.weight.detach().clone())
    return found


def test_the_tail_is_the_mean_of_the_second_half() -> None:
    model = small()
    trained = fit(model, DATA, PLAN, optimizer=sgd(model), rng=1, average="tail")
    torch.testing.assert_close(trained.model.weight.detach(), torch.stack(iterates()[5:]).mean(0))


def test_the_moving_average_follows_its_formula() -> None:
    model = small()
    trained = fit(model, DATA, PLAN, optimizer=sgd(model), rng=1, average="ema")
    expected = iterates()[0]
    for t, value in enumerate(iterates()[1:], start=2):
        decay = (1 + t) / (10 + t)
        expected = decay * expected + (1 - decay) * value
    torch.testing.assert_close(trained.model.weight.detach(), expected)


def test_no_average_is_the_last_iterate() -> None:
    model = small()
    assert torch.equal(fit(model, DATA, PLAN, optimizer=sgd(model), rng=1).model.weight, iterates()[-1])


def test_a_resumed_run_keeps_its_average(tmp_path) -> None:
    model = small()
    whole = fit(model, DATA, PLAN, optimizer=sgd(model), rng=1, average="tail").model.weight.detach().clone()
    path, again = tmp_path / "run.ckpt", small()
    step = private(again, sgd(again), PLAN, rng=1)
    mean = Average("tail", step.parameters, PLAN.steps)
    for batch in step.batches(DATA):
        step(batch)
        mean.update(step.done)
        if step.done == 7:
            break
    write({**step.state_dict(), "average": mean.state_dict()}, path)
    fresh = small()
    resumed = fit(fresh, DATA, PLAN, optimizer=sgd(fresh), average="tail", checkpoint=path)
    assert torch.equal(resumed.model.weight, whole)


def test_an_unknown_average_is_refused() -> None:
    with pytest.raises(BadInput, match="average"):
        fit(small(), DATA, PLAN, average="median")
