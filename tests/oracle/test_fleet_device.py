"""What a fleet does on a GPU, on a processor: compiled gradients against eager ones, and noise by place."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

from tacit import Plan
from tacit.core import BadInput
from tacit.fleet import Epochs
from tacit.fleet.device import Compiled, Noise, fixed_size
from tacit.fleet.fleet import _gradients
from tacit.fleet.stack import LinearStack, copies, stack

CPU = torch.device("cpu")


def some(rows: int):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    models = stack(net, {name: value + 0.1 * torch.randn_like(value) for name, value in copies(net, 4).items()})
    return models, torch.randn(rows, 6), torch.randint(0, 3, (rows,)), torch.rand(4, rows) < 0.7


@pytest.mark.parametrize("schedule", [Epochs(1, 16), Plan(100, 0.1, 60, 1.0, clip_norm=0.3)])
def test_filled_up_and_traced_is_eager(schedule, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    eager = functools.partial(_gradients, schedule=schedule)
    compiled = Compiled(eager, repr(schedule), 16)
    for rows in (16, 11, 0, 19):
        models, x, y, mask = some(rows)
        ours, theirs = compiled(models, x, y, mask), eager(models, x, y, mask)
        for name, right in theirs.items():
            torch.testing.assert_close(ours[name], right, rtol=1e-4, atol=1e-6)


def test_a_compiled_step_that_differs_is_refused(monkeypatch) -> None:
    half = lambda graph, **_: lambda *given: {name: value / 2 for name, value in graph(*given).items()}  # noqa: E731
    monkeypatch.setattr(torch, "compile", half)
    with pytest.raises(BadInput, match="does not give the eager one's"):
        Compiled(functools.partial(_gradients, schedule=Epochs(1, 16)), "half", 16)(*some(16))


def drawn(noise: Noise, models: int, *sizes: int, scale: float = 2.0) -> torch.Tensor:
    parts = [torch.ones(models, size) for size in sizes]
    noise.add(parts, scale, 0.5)
    return torch.cat(parts, dim=1) - 0.5


def test_noise_depends_on_seed_place_and_step_alone() -> None:
    whole, tail = Noise([3, 4, 5], 0, CPU), Noise([3, 4, 5], 1, CPU)
    first, second = drawn(whole, 3, 50, 7), drawn(whole, 3, 50, 7)
    assert torch.equal(drawn(tail, 2, 50, 7), first[1:])
    assert torch.equal(drawn(tail, 2, 50, 7), second[1:])
    assert not torch.equal(first, second)
    assert not torch.equal(drawn(Noise([3, 4, 6], 0, CPU), 3, 50, 7), first)


def test_noise_of_different_models_is_normal_and_unrelated() -> None:
    """20,000 numbers in each of 8 models: means and correlations within 5.5 standard errors (total error 3e-6)."""
    found = drawn(Noise([1] * 8, 0, CPU), 8, 19_000, 1000, scale=3.0).double().numpy()
    assert (np.abs(found.mean(1)) < 5.5 * 3 / np.sqrt(20_000)).all()
    assert (np.abs(found.std(1) / 3 - 1) < 5.5 / np.sqrt(40_000)).all()
    related = np.corrcoef(found) - np.eye(8)
    assert (np.abs(related) < 5.5 / np.sqrt(20_000)).all()


def test_batches_fit() -> None:
    assert (fixed_size(256.0), fixed_size(1.0)) == (304, 16)


def test_a_stack_with_a_rule_of_its_own_is_not_given_another_s_graph(monkeypatch) -> None:
    class Doubled(LinearStack):
        def gradients(self, x, y, weights):
            return {name: 2 * value for name, value in super().gradients(x, y, weights).items()}

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    models, x, y, mask = some(16)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    compiled = Compiled(functools.partial(_gradients, schedule=Epochs(1, 16)), "same name", 16)
    once, twice = compiled(models, x, y, mask), compiled(Doubled(net, models.parameters), x, y, mask)
    for name, value in once.items():
        torch.testing.assert_close(twice[name], 2 * value)
