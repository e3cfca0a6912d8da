"""The written-out LSTM against torch's own, forwards and backwards, and against finite differences."""

import pytest
import torch
from torch import nn

from tacit.train.clip.rules.lstm import Lstm

SIZES = [(1, 1, 1, 1), (5, 3, 2, 4), (9, 4, 7, 6)]


def both(steps, batch, inputs, width, bias):
    torch.manual_seed(steps)
    layer = nn.LSTM(inputs, width, bias=bias).double()
    x = torch.randn(steps, batch, inputs, dtype=torch.float64)
    start = torch.randn(2, 1, batch, width, dtype=torch.float64)
    theirs = [tensor.clone().requires_grad_() for tensor in (x, *start)]
    ours = [tensor.clone().requires_grad_() for tensor in (x, *start)]
    found, (_, last) = layer(theirs[0], (theirs[1], theirs[2]))
    weights = dict(layer.named_parameters())
    gates = ours[0] @ weights["weight_ih_l0"].T.detach()
    constants = weights["weight_hh_l0"].detach(), None
    if bias:
        gates = gates + weights["bias_ih_l0"].detach()
        constants = weights["weight_hh_l0"].detach(), weights["bias_hh_l0"].detach()
    made = Lstm.apply(gates, ours[1][0], ours[2][0], *constants)
    return (found, last[0], theirs), (*made, ours)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_outputs_and_gradients_are_those_of_torch(sizes, bias) -> None:
    theirs, ours = both(*sizes, bias)
    for mine, other in zip(ours[:2], theirs[:2], strict=True):
        torch.testing.assert_close(mine, other)
    pulls = torch.randn_like(theirs[0]), torch.randn_like(theirs[1])
    gradients = [
        torch.autograd.grad((found * pulls[0]).sum() + (last * pulls[1]).sum(), inputs)
        for found, last, inputs in (theirs, ours)
    ]
    for other, mine in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other)


def test_gradients_are_finite_differences() -> None:
    torch.manual_seed(0)
    x, hidden, cell, weight, bias = (
        torch.randn(shape, dtype=torch.float64) for shape in [(4, 2, 12), (2, 3), (2, 3), (12, 3), (12,)]
    )
    given = [tensor.requires_grad_() for tensor in (x, hidden, cell)]
    assert torch.autograd.gradcheck(lambda *inputs: Lstm.apply(*inputs, weight, bias), given)
