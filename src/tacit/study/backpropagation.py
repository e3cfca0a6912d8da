r"""Backpropagation clipping, right and wrong: the subject of a case study (Stevens et al. 2022; Tramer et al. 2022).

Every layer clips its input a to norm A and the gradient e of its output to norm E, per record. So a record's part of
the layer's gradient, the outer product of e and a, has norm at most A E. All layers together have sensitivity

    S = sqrt(sum over layers of (A E)^2).

The loss of a batch is a mean, so what autograd hands to a hook on the way back is e / batch. Clipping that to E, and
scaling the noise for A E / batch as if e had been clipped, bounds nothing: the sensitivity is wrong by the batch size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..core import BadInput, Source
from ..fleet.stack import Stack, Weights, cross_entropy_gradient


@dataclass(frozen=True)
class Clipping:
    """Norms to which inputs and gradients of outputs are clipped, one pair per linear layer.

    `divided_by` is what the gradients were divided by before they meet their bound: 1 is right, the batch size wrong.
    """

    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    divided_by: float = 1.0

    @property
    def sensitivity(self) -> float:
        """What one record changes the sum of gradients by at most, if they are clipped record by record."""
        return math.sqrt(sum((a * e) ** 2 for a, e in zip(self.inputs, self.outputs, strict=True)))

    @property
    def stack(self) -> Callable[[nn.Module, dict[str, Tensor]], Stack]:
        """For `Fleet(stack=...)`."""
        return partial(BackpropagationStack, clipping=self)


class BackpropagationStack(Stack):
    """Linear layers without bias and tanh between them, trained by backpropagation clipping.

    The plan's own rule says who is in the batch; the clipping is this one, whatever norm the plan names.
    Caller ensures: the plan's clip_norm is `clipping.sensitivity`.
    """

    def __init__(self, template: nn.Module, parameters: dict[str, Tensor], *, clipping: Clipping) -> None:
        kinds = [type(layer) for layer in template.children()]
        expected = [nn.Linear, nn.Tanh] * (len(kinds) // 2) + [nn.Linear]
        if kinds != expected or len(parameters) != len(clipping.inputs) or any("bias" in name for name in parameters):
            raise BadInput("Backpropagation clipping takes linear layers without bias, one pair of norms each.")
        self.parameters = parameters
        self.clipping = clipping

    def logits(self, x: Tensor) -> Tensor:
        return self._forward(x)[0]

    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        logits, inputs, outputs = self._forward(x)
        error = cross_entropy_gradient(logits, y)
        weight = weights if isinstance(weights, Tensor) else weights(torch.zeros_like(error[..., 0]))
        error, sums = error * weight[..., None], {}
        for place in reversed(range(len(inputs))):
            name = list(self.parameters)[place]
            bound = self.clipping.outputs[place] * self.clipping.divided_by
            error = error * _factor(error, bound)
            sums[name] = torch.einsum("kbp,kbd->kpd" if place else "kbp,bd->kpd", error, inputs[place])
            if place:  # straight through the clipping of the input
                error = torch.bmm(error, self.parameters[name]) * (1 - outputs[place - 1].square())
        return sums

    def _forward(self, x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Logits, the clipped input of every layer, and what its tanh puts out (none after the last)."""
        hidden = x.flatten(1)
        inputs: list[Tensor] = []
        outputs: list[Tensor] = []
        for weight, norm in zip(self.parameters.values(), self.clipping.inputs, strict=True):
            if inputs:
                outputs.append(hidden := hidden.tanh())
            inputs.append(hidden * _factor(hidden, norm))
            hidden = _times(inputs[-1], weight)
        return hidden, inputs, outputs


def network(features: int, hidden: int, classes: int, chance: Source) -> nn.Module:
    """Linear, tanh, linear, without bias; the first layer takes an input of norm 1 to a norm of about 1/4."""
    model = nn.Sequential(nn.Linear(features, hidden, bias=False), nn.Tanh(), nn.Linear(hidden, classes, bias=False))
    for weight, scale in zip(model.parameters(), (0.25, 1.0), strict=True):
        drawn = chance.normal(tuple(weight.shape)) * scale / math.sqrt(hidden)
        weight.data = torch.as_tensor(drawn, dtype=torch.float32)
    return model


def _factor(values: Tensor, norm: float) -> Tensor:
    """min(1, norm / |v|), row by row."""
    return (norm / values.norm(dim=-1, keepdim=True).clamp(min=1e-12)).clamp(max=1.0)


def _times(inputs: Tensor, weight: Tensor) -> Tensor:
    """(K, B, out): a batch of every model's own, or one that all models share."""
    if inputs.dim() == 3:
        return torch.bmm(inputs, weight.transpose(1, 2))
    models, out, features = weight.shape
    return (inputs @ weight.reshape(models * out, features).T).view(-1, models, out).transpose(0, 1)
