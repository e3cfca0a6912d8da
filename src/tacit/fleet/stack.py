"""Many small models as one: parameters stacked along a first axis, gradients of all of them in a few products.

A stack computes, for a batch shared by K models, the sums of per-example gradients weighted per (model, example).
The weights are given (plain training), or chosen by a rule that sees the gradients' norms (DP-SGD).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.linalg import vecdot

from ..core.errors import BadInput

Weights = Tensor | Callable[[Tensor], Tensor]
"""Weights (K, B), or a rule from per-example gradient norms (K, B) to weights (K, B)."""

ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity)


class Stack(ABC):
    """K models of one architecture."""

    parameters: dict[str, Tensor]
    branch_free = False
    """No step is taken by what the numbers are: for a compiler."""
    form: str | None = None
    """What its gradients do but for the parameters' values; None where that has no short name."""

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """(K, B, classes) for a batch shared by all models."""

    @abstractmethod
    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        """Per model the sum over examples of weight times gradient; shapes as `parameters`. Weight 0 is a true 0."""


class LinearStack(Stack):
    """Linear layers and elementwise functions in sequence.

    A layer's per-example gradient is the outer product of its output gradient g and its input a, so its squared norm
    is |g|^2 (|a|^2 + 1) (Goodfellow 2015) and no per-example gradient is ever formed. The first layer sees the same
    batch in every model: one matrix product for all of them.
    """

    def __init__(self, template: nn.Module, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters
        self._layers = list(template.named_children())
        self.form = repr(self._layers)

    def logits(self, x: Tensor) -> Tensor:
        return self._forward(x)[0].detach()

    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        with torch.enable_grad():
            logits, inputs, outputs = self._forward(x)
            errors = torch.autograd.grad(logits, list(outputs.values()), cross_entropy_gradient(logits.detach(), y))
        weight = weights if isinstance(weights, Tensor) else weights(self._norms(inputs, outputs, errors))
        sums = {}
        for name, error in zip(outputs, errors, strict=True):
            seen, weighted = inputs[name], error * weight[..., None]
            # 0 times infinity is no 0: mend it, on a CPU only where it happens (a GPU would have to wait to know)
            if self.branch_free or weighted.is_cuda or not (weighted.sum() + seen.sum()).isfinite():
                used = weight > 0
                weighted = torch.where(used[..., None], weighted, 0.0)
                seen = torch.where((used.any(0) if seen.dim() == 2 else used)[..., None], seen, 0.0)
            sums[f"{name}.weight"] = _outer(weighted, seen)
            if f"{name}.bias" in self.parameters:
                sums[f"{name}.bias"] = weighted.sum(1)
        return sums

    def _norms(self, inputs: dict[str, Tensor], outputs: dict[str, Tensor], errors: Sequence[Tensor]) -> Tensor:
        squared = torch.zeros((), device=errors[0].device)
        for name, error in zip(outputs, errors, strict=True):
            ones = 1.0 if f"{name}.bias" in self.parameters else 0.0
            squared = squared + vecdot(error, error) * (vecdot(inputs[name], inputs[name]) + ones)
        return squared.sqrt()

    def _forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        hidden, inputs, outputs = x, {}, {}
        for name, layer in self._layers:
            if isinstance(layer, nn.Linear):
                inputs[name] = hidden.detach()
                hidden = self._linear(name, hidden)
                hidden = hidden if hidden.requires_grad else hidden.requires_grad_()
                outputs[name] = hidden
            elif isinstance(layer, nn.Flatten):
                hidden = hidden.flatten(1)
            else:
                hidden = layer(hidden)
        return hidden, inputs, outputs

    def _linear(self, name: str, hidden: Tensor) -> Tensor:
        weight, bias = self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias")
        if hidden.dim() == 2:  # the shared batch: (B, d) times (d, K p)
            models, out, features = weight.shape
            product = (hidden @ weight.reshape(models * out, features).T).view(-1, models, out).transpose(0, 1)
            return product if bias is None else product + bias[:, None]
        if bias is None:
            return torch.bmm(hidden, weight.transpose(1, 2))
        return torch.baddbmm(bias[:, None], hidden, weight.transpose(1, 2))


class AnyStack(Stack):
    """Any module, by vmap over models and examples: slower, and it forms every per-example gradient."""

    def __init__(self, template: nn.Module, parameters: dict[str, Tensor]) -> None:
        if any(True for _ in template.buffers()):
            raise BadInput("A fleet takes models without buffers.", fix="Replace batch norm by group norm.")
        self.parameters = parameters
        self._model = template

    def logits(self, x: Tensor) -> Tensor:
        self._model.eval()  # a model answers without dropout
        return vmap(lambda parameters: functional_call(self._model, parameters, (x,)))(self.parameters)

    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        self._model.train()
        if isinstance(weights, Tensor):
            return vmap(grad(self._loss), in_dims=(0, None, None, 0), randomness="different")(
                self.parameters, x, y, weights
            )
        one = torch.ones(1, device=x.device)
        per_example = vmap(
            lambda parameters, a, b: grad(self._loss)(parameters, a[None], b[None], one),
            in_dims=(None, 0, 0),
            randomness="different",
        )
        each = vmap(per_example, in_dims=(0, None, None), randomness="different")(self.parameters, x, y)
        squared = torch.stack([value.flatten(2).square().sum(-1) for value in each.values()]).sum(0)
        weight = weights(squared.sqrt())
        return {name: _weighted_sum(weight, value) for name, value in each.items()}

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return (losses(functional_call(self._model, parameters, (x,)), y) * weight).sum()


def stack(template: nn.Module, parameters: dict[str, Tensor]) -> Stack:
    """The fastest stack that knows this architecture; `parameters` have one more, first, axis for the models."""
    if not all(value.requires_grad for value in template.parameters()):
        raise BadInput("A fleet trains every parameter; this model has some that are frozen.")
    if len(list(template.named_parameters(remove_duplicate=False))) > len(parameters):
        raise BadInput("A fleet takes models that use each parameter in one place.")
    known = (nn.Linear, nn.Flatten, *ELEMENTWISE)
    simple = type(template) is nn.Sequential and all(type(layer) in known for layer in template)
    return LinearStack(template, parameters) if simple else AnyStack(template, parameters)


def stacked(models: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Parameters of several models along a first axis."""
    return {name: value.detach() for name, value in stack_module_state(list(models))[0].items()}


def copies(model: nn.Module, count: int) -> dict[str, Tensor]:
    """The same parameters `count` times along a first axis."""
    return {name: value.detach().expand(count, *value.shape).clone() for name, value in model.named_parameters()}


def losses(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy per (model, example), or per example."""
    labels = y.expand(logits.shape[:-1])
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none").view(labels.shape)


def cross_entropy_gradient(logits: Tensor, y: Tensor) -> Tensor:
    """softmax - one-hot, of shape (K, B, classes).

    The softmax runs over the middle axis of a transposed copy: over a short last axis it is ten times slower on a CPU.
    """
    probabilities = torch.softmax(logits.transpose(1, 2).contiguous(), dim=1).transpose(1, 2).contiguous()
    probabilities[:, torch.arange(len(y), device=y.device), y] -= 1.0
    return probabilities


def _weighted_sum(weight: Tensor, each: Tensor) -> Tensor:
    used = (weight > 0).view(*weight.shape, *(1,) * (each.dim() - 2))
    return torch.einsum("kb,kb...->k...", weight, torch.where(used, each, 0.0))


def _outer(weighted: Tensor, inputs: Tensor) -> Tensor:
    """Sum over examples of error times input: (K, p, d); a shared input needs one product."""
    if inputs.dim() == 2:
        models, batch, out = weighted.shape
        flat = weighted.transpose(0, 1).reshape(batch, models * out)
        return (flat.T @ inputs).view(models, out, -1)
    return torch.bmm(weighted.transpose(1, 2), inputs)
