"""What a fleet does on a GPU, on a processor: compiled and fused gradients against eager ones, and noise by seed."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput
from tacit.fleet.device import Batch, Compiled, Noise, fixed_size
from tacit.fleet.fleet import _gradients
from tacit.fleet.fused import takes
from tacit.fleet.stack import LayerStack, copies, stack

CPU = torch.device("cpu")


def some(rows: int):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    models = stack(net, {name: value + 0.1 * torch.randn_like(value) for name, value in copies(net, 4).items()})
    return models, Batch(torch.randn(rows, 6), torch.randint(0, 3, (rows,)), torch.rand(4, rows) < 0.7)


@pytest.mark.parametrize("clip_norm", [None, 0.3])
def test_filled_up_and_traced_is_eager(clip_norm, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    eager = functools.partial(_gradients, clip_norm=clip_norm)
    compiled = Compiled(eager, repr(clip_norm), 16)
    for rows in (16, 11, 0, 19):
        models, batch = some(rows)
        ours, theirs = compiled(models, batch), eager(models, batch)
        for name, right in theirs.items():
            torch.testing.assert_close(ours[name], right, rtol=1e-4, atol=1e-6)


def test_a_compiled_step_that_differs_is_refused(monkeypatch) -> None:
    half = lambda graph, **_: lambda *given: {name: value / 2 for name, value in graph(*given).items()}  # noqa: E731
    monkeypatch.setattr(torch, "compile", half)
    with pytest.raises(BadInput, match="does not give the eager one's"):
        Compiled(functools.partial(_gradients, clip_norm=None), "half", 16)(*some(16))


def drawn(noise: Noise, models: int, *sizes: int, scale: float = 2.0) -> torch.Tensor:
    parts = [torch.ones(models, size) for size in sizes]
    noise.add(parts, scale, 0.5)
    return torch.cat(parts, dim=1) - 0.5


def test_noise_depends_on_seed_place_and_step_alone() -> None:
    whole, tail = Noise([3, 4, 5], CPU), Noise([4, 5], CPU)
    first, second = drawn(whole, 3, 50, 7), drawn(whole, 3, 50, 7)
    assert torch.equal(drawn(tail, 2, 50, 7), first[1:])
    assert torch.equal(drawn(tail, 2, 50, 7), second[1:])
    assert not torch.equal(first, second)
    other = drawn(Noise([3, 4, 6], CPU), 3, 50, 7)
    assert torch.equal(other[:2], first[:2])
    assert not torch.equal(other[2], first[2])


def test_noise_of_different_models_is_normal_and_unrelated() -> None:
    """20,000 numbers in each of 8 models: means and correlations within 5.5 standard errors (total error 3e-6)."""
    found = drawn(Noise(list(range(8)), CPU), 8, 19_000, 1000, scale=3.0).double().numpy()
    assert (np.abs(found.mean(1)) < 5.5 * 3 / np.sqrt(20_000)).all()
    assert (np.abs(found.std(1) / 3 - 1) < 5.5 / np.sqrt(40_000)).all()
    related = np.corrcoef(found) - np.eye(8)
    assert (np.abs(related) < 5.5 / np.sqrt(20_000)).all()


def test_batches_fit() -> None:
    assert (fixed_size(256.0), fixed_size(1.0)) == (304, 16)


def test_a_stack_with_a_rule_of_its_own_is_not_given_another_s_graph(monkeypatch) -> None:
    class Doubled(LayerStack):
        def gradients(self, x, y, weights):
            return {name: 2 * value for name, value in super().gradients(x, y, weights).items()}

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    models, batch = some(16)
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    compiled = Compiled(functools.partial(_gradients, clip_norm=None), "same name", 16)
    once, twice = compiled(models, batch), compiled(Doubled(net, models.parameters), batch)
    for name, value in once.items():
        torch.testing.assert_close(twice[name], 2 * value)


GPU_KERNEL = """
import functools
import torch
from torch import nn
from tacit.core import BadInput
from tacit.fleet import fused, kernels
from tacit.fleet.device import Batch
from tacit.fleet.fleet import _gradients
from tacit.fleet.fused import takes
from tacit.fleet.stack import copies, stack

torch.manual_seed(0)
cases = [
    (nn.Sequential(nn.Flatten(), nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)), (2, 3), 70, None),
    (nn.Sequential(nn.Flatten(), nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)), (2, 3), 70, 0.3),
    (nn.Sequential(nn.Linear(4, 40, bias=False), nn.ReLU(), nn.Linear(40, 17)), (4,), 9, 0.5),
    (nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 2, bias=False)), (4,), 16, 0.2),
]
for net, shape, rows, clip_norm in cases:
    models = stack(net, {name: value + torch.randn_like(value) for name, value in copies(net, 3).items()})
    assert fused.takes(models, flat=len(shape) == 1)
    x, mask = torch.randn(rows, *shape), torch.rand(rows, 3).T < 0.7
    if clip_norm is None:
        mask[1] = False
    else:
        x[1], x[2] = float('inf'), float('nan')
    batch = Batch(x, torch.randint(0, models.parameters[fused.parts(models)[2] + '.weight'].shape[1], (rows,)), mask)
    eager = functools.partial(_gradients, clip_norm=clip_norm)
    ours, theirs = fused.Fused(eager, clip_norm), eager(models, batch)
    for name, found in ours(models, batch).items():
        torch.testing.assert_close(found, theirs[name], rtol=1e-4, atol=1e-5)
        assert found.any()
    before = {name: value.clone() for name, value in models.parameters.items()}
    ours.add(models, batch, -2.0)
    for name, found in models.parameters.items():
        torch.testing.assert_close(found, before[name] - 2 * theirs[name], rtol=1e-4, atol=1e-5)
try:
    fused.CHECKED.clear()
    fused.Fused(functools.partial(_gradients, clip_norm=0.1), 0.2)(models, batch)
except BadInput as error:
    assert 'does not give the eager' in str(error)
else:
    raise AssertionError('a wrong kernel was used')
"""


@pytest.mark.needs("triton")
def test_the_kernel_between_two_products_gives_the_eager_gradients_when_interpreted() -> None:
    """With every activation, without biases, for odd batches, models without members, records that are not finite."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", GPU_KERNEL], env=environment, check=True)


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(6, 3)),
        nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)),
        nn.Sequential(nn.Linear(6, 200), nn.Tanh(), nn.Linear(200, 3)),
        nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3)),
    ],
)
def test_other_networks_are_not_for_the_kernel(net) -> None:
    assert not takes(stack(net, copies(net, 2)), flat=True)
