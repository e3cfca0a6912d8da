"""Many small models as one: parameters are stacked along a first axis, and a few products give all gradients.

For a batch shared by K models, a stack computes sums of per-example gradients weighted per (model, example). The
weights are given (plain training), or computed by a rule from the gradients' norms (DP-SGD).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy as shallow
from functools import partial
from typing import Self, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from ..core.errors import BadInput
from ..train.clip.arrays import square
from ..train.clip.capture.errors import left
from ..train.clip.capture.made_up import same_random
from ..train.clip.capture.onlookers import backward_hooks
from ..train.clip.isolation import Stopped, Surroundings
from ..train.clip.rounding import LOST, traced
from ..train.sample.labels import known
from .agreement import check_agreement
from .certified import Clip, Counted, Summing, total_length, total_sway
from .indexing import looks_up
from .layers import Convolution, Linear, Rule, changed, rule_of
from .vmap_guard import apart

T = TypeVar("T")
Each = tuple[dict[str, Tensor], Tensor]
Weights = Tensor | Clip | Callable[[Tensor], Tensor]
"""Weights (K, B), or a rule that maps per-example gradient norms (K, B) to weights (K, B): `Clip`, for DP-SGD."""

ELEMENTWISE = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity)
POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)


class Stack(ABC):
    """K models of one architecture."""

    parameters: dict[str, Tensor]
    branch_free = False
    """Whether `gradients` takes no branch that depends on values, so that it can be compiled."""
    form: str | None = None
    """A short name of what `gradients` computes, apart from parameter values; None if there is none."""
    draws = True
    """Whether its models may draw random numbers, as dropout does."""
    rank_one = True
    """Whether no per-example gradient is a sum over positions: rounding its factors then rounds it by the same
    share.
    """

    def like(self, parameters: dict[str, Tensor]) -> Self:
        """A stack of this architecture with the given parameters."""
        other = shallow(self)
        other.parameters = parameters
        return other

    def copy(self) -> Self:
        """A copy with the current parameters."""
        return self.like({name: value.detach().clone() for name, value in self.parameters.items()})

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """Logits (K, B, classes) for a batch shared by all models."""

    @abstractmethod
    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        """For each model, the sum over examples of weight times gradient, in the shapes of `parameters`.

        A weight of 0 gives an exact 0, even where the gradient is not finite. Sums are in float64 where a `Clip` has
        very many records. The batch is shared, x (B, ...) and y (B), or each model has its own, x (K, B, ...) and y (K,
        B).
        """


class LayerStack(Stack):
    """Linear layers, convolutions, normalisations, pooling and elementwise functions in sequence, each by its rule.

    With a shared batch, the first layer's input is the same in every model, so one matrix product serves all of them.
    """

    draws = False

    def __init__(self, template: nn.Module, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters
        self.layers = list(template.named_children())
        self.form = repr(self.layers)
        self._rules = _rules(template) or {}
        self.rank_one = not any(isinstance(rule, Convolution) for rule in self._rules.values())
        self.linear = all(isinstance(rule, Linear) for rule in self._rules.values())

    def logits(self, x: Tensor) -> Tensor:
        return self._forward(x.transpose(0, 1), shared=True)[0].detach().transpose(1, 2)

    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        known = weights if isinstance(weights, Tensor) else None
        used = known > 0 if known is not None and self._mends_all(x) else None
        with torch.enable_grad():
            logits, seen, outputs = self._forward(x.transpose(y.dim() - 1, y.dim()), shared=y.dim() == 1, used=used)
            if isinstance(weights, Clip):
                weights = weights.without(unknown(y, logits.shape[1]))
            error = softmax_error(logits.detach(), y)
            # known weights go through all layers with the error
            error = error if known is None else error * known[:, None]
            errors = dict(zip(outputs, torch.autograd.grad(logits, list(outputs.values()), error), strict=True))
        summing = Summing(weights) if isinstance(weights, Tensor) else self.weighed(seen, errors, weights)
        return summing(partial(self.added, seen, errors, known=known is not None))

    def weighed(
        self, seen: dict[str, Tensor], errors: dict[str, Tensor], weights: Clip | Callable[[Tensor], Tensor]
    ) -> Summing:
        """Weights (K, B) computed from upper bounds on norms, and how to sum with them."""
        parts: list[Counted] = []
        for name, error in errors.items():
            parts.append(self._rules[name].counted(seen[name], error))
            if f"{name}.bias" in self.parameters:
                parts.append(self._rules[name].counted_bias(error))
        return _settled(parts, weights, next(iter(errors.values())).dtype)

    def added(
        self,
        seen: dict[str, Tensor],
        errors: dict[str, Tensor],
        weight: Tensor,
        kind: torch.dtype | None = None,
        *,
        known: bool = False,
    ) -> dict[str, Tensor]:
        """Weighted sums over records; `known` says that the errors have been multiplied by their weights already."""
        sums = {}
        for name, error in errors.items():
            rule, entered = self._rules[name], seen[name]
            if kind is not None and kind != error.dtype:
                error, entered = error.to(kind), entered.to(kind)
            weighted = error if known else error * _wide(weight[:, None], error)
            # 0 times infinity is no 0: mend it
            if self._mends_all(weighted) or not (weighted.sum() + entered.sum()).isfinite():
                weighted = torch.where(_wide((weight > 0)[:, None], weighted), weighted, 0.0)
                if not (known and self._mends_all(weighted)):
                    entered = _used(entered, weight > 0, shared=rule.is_shared(entered))
            sums[f"{name}.weight"] = rule.sums(entered, weighted)
            if f"{name}.bias" in self.parameters:
                sums[f"{name}.bias"] = weighted.flatten(2).sum(2)
        return sums

    def _mends_all(self, values: Tensor) -> bool:
        """Whether values of records without weight are always set to zero: a GPU would have to wait to see which are
        not finite.
        """
        return self.branch_free or not values.is_cpu

    def _forward(
        self, hidden: Tensor, *, shared: bool, used: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Logits (K, classes, B), and the input and output of each layer with parameters.

        With `used` (K, B), inputs of the records that a model does not use are zero: less work than in their patches.
        """
        seen, outputs = {}, {}
        for name, layer in self.layers:
            if name in self._rules:
                rule = self._rules[name]
                given = rule.seen(hidden if used is None else _used(hidden, used, shared=shared), shared)
                output = rule.output(given, self.parameters[f"{name}.weight"], self.parameters.get(f"{name}.bias"))
                output = output if output.requires_grad else output.requires_grad_()
                seen[name], outputs[name] = given.detach(), output
                hidden, shared = rule.shaped(output, hidden), False
            elif isinstance(layer, nn.Flatten):
                hidden = hidden.movedim(1, -1).flatten(0, -2) if shared else hidden.movedim(2, -1).flatten(1, -2)
            elif isinstance(layer, POOLS):
                hidden = layer(hidden.flatten(0, -4)).unflatten(0, hidden.shape[:-3])
            else:
                hidden = layer(hidden.clone() if getattr(layer, "inplace", False) else hidden)
        return hidden, seen, outputs


class AnyStack(Stack):
    """Any module, by `vmap` over models and examples: slower, and it writes out every per-example gradient."""

    def __init__(self, template: nn.Module, parameters: dict[str, Tensor]) -> None:
        if any(True for _ in template.buffers()):
            raise BadInput("A fleet takes models without buffers.", fix="Replace batch norm by group norm.")
        self.parameters = parameters
        self._model = template
        self._around: Surroundings | None = None
        self._looks_up: bool | None = None
        self._agrees = False

    def logits(self, x: Tensor) -> Tensor:
        self._model.eval()  # a model answers without dropout
        self._check_positions(x)
        return vmap(lambda parameters: functional_call(self._model, parameters, (x,)))(self.parameters)

    def gradients(self, x: Tensor, y: Tensor, weights: Weights) -> dict[str, Tensor]:
        own = 0 if y.dim() == 2 else None
        if isinstance(weights, Tensor):
            self._check_positions(x if own is None else x.flatten(0, 1))
            self._model.train()
            return vmap(grad(self._loss), in_dims=(0, own, own, 0), randomness="different")(
                self.parameters, x, y, weights
            )
        each, outside = self._each(x, y, total=isinstance(weights, Clip))
        weights = weights.without(outside) if isinstance(weights, Clip) else weights
        summing = _settled([_written(value) for value in each.values()], weights, x.dtype)
        return summing(lambda weight, kind: {name: _weighted_sum(weight, value, kind) for name, value in each.items()})

    def _each(self, x: Tensor, y: Tensor, *, total: bool) -> Each:
        """Every record's gradients (K, B, ...), and a mask (K, B) of records with an index beyond the end of a table.

        Unless `total`, such a record is refused.
        """
        own, one = 0 if y.dim() == 2 else None, torch.ones(1, device=x.device)
        per_example = vmap(
            lambda parameters, a, b: grad(self._watched_loss, has_aux=True)(parameters, a[None], b[None], one),
            in_dims=(None, 0, 0),
            randomness="different",
        )
        every = vmap(per_example, in_dims=(0, own, own), randomness="different")

        if not (self._agrees or traced(x) or x.is_meta):
            shared = vmap(per_example, in_dims=(0, None, None), randomness="different")
            given = self._model, self.parameters, x if own is None else x[0]
            with same_random():
                self._kept_apart(lambda: check_agreement(*given, lambda *made: shared(*made)[0]), given[2])
            self._agrees = True

        def run() -> Each:
            if not total:
                self._check_positions(x if own is None else x.flatten(0, 1))
            self._model.train()
            found: Each = every(self.parameters, x.clone(), y)  # code may write into x, and the pass be repeated
            return found

        return self._kept_apart(run, x)

    def _check_positions(self, x: Tensor) -> None:
        """Refuse an index beyond a model's table, where `vmap` would read the next model's (indexing.py)."""
        alone = len(next(iter(self.parameters.values()), ())) < 2
        if alone or traced(x) or x.is_meta:
            return
        self._model.eval()  # nothing is drawn here
        if self._looks_up is None:
            self._looks_up = looks_up(self._model, tuple(x.shape[1:]))
        if not self._looks_up:
            return
        first = {name: value[0].detach().cpu() for name, value in self.parameters.items()}
        try:
            with torch.no_grad():
                functional_call(self._model, first, (x.cpu(),))
        except (IndexError, RuntimeError) as error:
            if isinstance(error, IndexError) or "out of bounds" in str(error) or "out of range" in str(error):
                raise BadInput(
                    "A record holds a number beyond the table in which the model looks it up.",
                    fix="Give the model a larger table (num_embeddings).",
                ) from None

    def _kept_apart(self, run: Callable[[], T], x: Tensor) -> T:
        """Run a pass in which records cannot affect each other, and restore whatever the model stored during it."""
        if traced(x) or x.is_meta:
            return run()
        self._around = self._around or Surroundings(self._model)
        try:
            return self._around.run(int(torch.randint(2**62, (), device="cpu")), run)
        except Stopped:
            path, kind = next(iter(self._around.lost.items()))
            raise left("model", path, kind) from None

    def _watched_loss(
        self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        with apart() as looking:
            logits = functional_call(self._model, parameters, (x,))
        outside = torch.zeros((), dtype=torch.bool, device=x.device) if looking.outside is None else looking.outside
        return (losses(*known(logits, y)) * weight).sum(), outside

    def _loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        return (losses(*known(functional_call(self._model, parameters, (x,)), y)) * weight).sum()


def stack(template: nn.Module, parameters: dict[str, Tensor]) -> Stack:
    """The fastest stack that supports this architecture; `parameters` have an additional first axis for the models."""
    if not all(value.requires_grad for value in template.parameters()):
        raise BadInput("A fleet trains every parameter; this model has some that are frozen.")
    if len(list(template.named_parameters(remove_duplicate=False))) > len(parameters):
        raise BadInput("A fleet takes models that use each parameter in one place.")
    if backward_hooks(template, template.parameters()):
        raise BadInput("A hook in the backward pass does not run in a fleet.", fix="Remove it from the model.")
    simple = type(template) is nn.Sequential and not changed(template) and _rules(template) is not None
    return LayerStack(template, parameters) if simple else AnyStack(template, parameters)


def _rules(template: nn.Module) -> dict[str, Rule] | None:
    """The rules of the layers with parameters, or None if a layer is not known."""
    found, flat = {}, False
    for name, layer in template.named_children():
        if changed(layer):
            return None
        if (rule := rule_of(layer, flat=flat)) is not None:
            found[name] = rule
        elif type(layer) is nn.Flatten:
            if (layer.start_dim, layer.end_dim) != (1, -1):
                return None
        elif type(layer) not in ELEMENTWISE and (flat or not _pools(layer)):
            return None
        flat = flat or type(layer) in (nn.Linear, nn.Flatten)
    return found


def _pools(layer: nn.Module) -> bool:
    return type(layer) in POOLS and not getattr(layer, "return_indices", False)


def stacked(models: Sequence[nn.Module]) -> dict[str, Tensor]:
    """The parameters of several models, stacked along a first axis."""
    if len({type(model) for model in models}) > 1:
        raise BadInput(
            "The models of a fleet must be of one class, and each call made a class of its own.",
            fix="Define the class outside of the function that makes a model.",
        )
    return {name: value.detach() for name, value in stack_module_state(list(models))[0].items()}


def copies(model: nn.Module, count: int) -> dict[str, Tensor]:
    """Repeat a model's parameters `count` times along a first axis."""
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


def softmax_error(logits: Tensor, y: Tensor) -> Tensor:
    """softmax - one-hot of logits (K, classes, B) and labels (B) or (K, B)."""
    classes = torch.arange(logits.shape[1], device=y.device)[:, None]
    return torch.softmax(logits, dim=1) - (classes == y.unsqueeze(-2)).to(logits.dtype)


def unknown(y: Tensor, classes: int) -> Tensor:
    """Labels outside 0 .. classes - 1: a private step learns nothing from their records, as in `tacit.private`."""
    return (y < 0) | (y >= classes)


def _wide(value: Tensor, like: Tensor) -> Tensor:
    """The value with trailing axes added until it has as many as `like`."""
    return value.view(*value.shape, *(1,) * (like.dim() - value.dim()))


def _used(values: Tensor, used: Tensor, *, shared: bool) -> Tensor:
    """Inputs of a layer, (K, features, B, ...) or without K where models share them; zero for records nobody uses."""
    mask = used.any(0)[None] if shared else used[:, None]
    return torch.where(_wide(mask, values), values, 0.0)


def _weighted_sum(weight: Tensor, each: Tensor, kind: torch.dtype | None = None) -> Tensor:
    used = (weight > 0).view(*weight.shape, *(1,) * (each.dim() - 2))
    kind = each.dtype if kind is None else kind
    return torch.einsum("kb,kb...->k...", weight.to(kind), torch.where(used, each, 0.0).to(kind))


def _written(each: Tensor) -> Counted:
    """Norms of gradients (K, B, ...) that are written out."""
    length = square(each.flatten(0, 1)).sqrt().unflatten(0, each.shape[:2])
    length = length + math.sqrt(each[0, 0].numel()) * LOST
    return Counted(length, length, each.shape[1])


def _settled(parts: list[Counted], weights: Clip | Callable[[Tensor], Tensor], kind: torch.dtype) -> Summing:
    """Weights (K, B), and how to sum with them on a CPU."""
    weight = weights(total_length(parts).to(kind))
    if not isinstance(weights, Clip) or not weight.is_cpu or traced(weight):
        return Summing(weight)
    return weights.settled(weight, total_sway(parts))
