"""Checks of a model before it sees a batch: what is refused, and which rule clips which parameter."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from ..core import BadInput
from ..loss import Plan
from .batch_norm import check_batch_norm
from .sample.augment import Augment
from .speed import Speed

_KINDS: dict[str, tuple[Any, str, str]] = {
    "model": (nn.Module, "a torch module", ""),
    "plan": (Plan, "a Plan", "Make one: tacit.plan(records, epsilon=3, delta=1e-5)."),
    "optimizer": (torch.optim.Optimizer, "a torch optimizer", "Make one: torch.optim.SGD(model.parameters(), lr=0.5)."),
    "speed": (Speed, "a Speed", 'Give Speed(physical_batch=256, precision="bfloat16"), say.'),
    "augment": (Augment | None, "an Augment", "Give Augment(function, times=8)."),
}
_RULES: tuple[tuple[type[nn.Module] | tuple[type[nn.Module], ...], str], ...] = (
    (nn.Linear, "linear"),
    ((nn.Conv1d, nn.Conv2d, nn.Conv3d), "convolution"),
    ((nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), "transposed convolution"),
    ((nn.Embedding, nn.EmbeddingBag), "embedding"),
    ((nn.RNNBase, nn.RNNCellBase), "linear, over all times"),
    ((nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, _InstanceNorm), "normalisation"),
    (nn.MultiheadAttention, "linear, inside attention"),
)


def check_kinds(**given: object) -> None:
    """Refuse arguments of `private` and `fit` that have the wrong type, and say what would be right."""
    for name, (kind, what, fix) in _KINDS.items():
        if name in given and not isinstance(given[name], kind):
            raise BadInput(f"{name} must be {what}, got {type(given[name]).__name__}.", fix=fix)
    for name in ("loss", "project"):
        if given.get(name) is not None and not callable(given[name]):
            raise BadInput(f"{name} must be a function, got {type(given[name]).__name__}.")
    if given.get("ledger") is not None and not callable(getattr(given["ledger"], "charge", None)):
        raise BadInput(
            f"ledger must be a Ledger, got {type(given['ledger']).__name__}.",
            fix='Open one: tacit.Ledger("budget.db").',
        )
    if isinstance(given.get("loss"), nn.Module):
        raise BadInput(
            "loss is called as loss(model, batch) and returns one number per example.",
            fix="Give a function: lambda model, batch: F.cross_entropy(model(batch[0]), batch[1], reduction='none').",
        )


def trainable(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The parameters that the optimizer updates, by name; all others are public constants."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise BadInput(
            "LBFGS evaluates the loss several times a step, which no step here does.", fix="Use SGD or Adam."
        )
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise BadInput("SparseAdam takes sparse gradients, and noise makes all of them dense.", fix="Use Adam.")
    asked = inspect.signature(optimizer.step).parameters.get("closure")
    if asked is not None and asked.default is asked.empty:
        raise BadInput(
            f"{type(optimizer).__name__} computes gradients itself, by a closure, which no step here does.",
            fix="Use SGD or Adam.",
        )
    moved = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    wanted = [(name, tensor) for name, tensor in model.named_parameters() if tensor.requires_grad]
    named: dict[str, Tensor] = {name: tensor for name, tensor in wanted if id(tensor) in moved}
    if moved - {id(tensor) for tensor in model.parameters()}:
        raise BadInput("The optimizer holds parameters that are not the model's.", fix="Make it from this model.")
    if not named:
        raise BadInput("No parameter of the model is both trainable and in the optimizer.")
    for name, tensor in named.items():
        if tensor.is_complex():
            raise BadInput(
                f"Parameter {name} holds complex numbers, and clipping is written for real ones.",
                fix="Keep real and imaginary parts in a last axis of two, and use torch.view_as_complex(parameter).",
            )
        if _overlaps(tensor):
            raise BadInput(
                f"Parameter {name} holds several of its entries in one place of memory, as an expanded tensor does.",
                fix="Make it from a copy (contiguous or clone), or expand a smaller parameter in forward.",
            )
    optimizer.zero_grad()  # what frozen parameters still have from before, the optimizer would take for its own
    return named


class Watched:
    """The parameters and modules of a model and its optimizer when the step was made, by the dicts that hold them.

    A trained parameter that was replaced since, or one that was unfrozen or added, would be taken for a public constant
    and never be trained. One of another dtype would be rounded more than the noise has room for.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, trained: Mapping[str, Tensor]) -> None:
        self.model, self.optimizer = model, optimizer
        self.trained = {id(tensor) for tensor in trained.values()}
        self.kinds = [(name, tensor, _kind(tensor)) for name, tensor in trained.items()]
        self.left = {id(tensor) for tensor in model.parameters() if tensor.requires_grad} - self.trained
        self.moved = _count(optimizer)
        self._look()

    def _look(self) -> None:
        """Note every parameter and module by the dict that holds it; tied ones are in several."""
        self.every, wanted = list(self.model.modules()), self.trained | self.left
        every = self.every
        held = [(module._parameters, name, one) for module in every for name, one in module._parameters.items()]
        self.own = [(kept, name, one) for kept, name, one in held if one is not None and id(one) in self.trained]
        self.others = [place for place in held if id(place[2]) not in wanted]
        self.modules = [(module._modules, name, one) for module in every for name, one in module._modules.items()]
        self.sizes = [(kept, len(kept)) for module in every for kept in (module._parameters, module._modules)]

    def check(self) -> None:
        """Called before every step: compare each entry, and search only if something changed."""
        if any(_in(held, name) is not one or not one.requires_grad for held, name, one in self.own):
            raise BadInput(
                "A trained parameter was frozen or replaced by another tensor since the step was made.",
                fix="Copy values into parameters (load_state_dict without assign), or make a new step.",
            )
        for name, tensor, kind in self.kinds:
            if _kind(tensor) != kind:
                raise BadInput(
                    f"Parameter {name} has another dtype, shape, memory format or device than when the step was made.",
                    fix="Call model.bfloat16(), model.half() or model.to(...) before the step is made.",
                )
        if _count(self.optimizer) != self.moved:
            raise BadInput(
                "The optimizer was given other parameters since the step was made.", fix="Make a new step with it."
            )
        same = all(_in(held, name) is one for held, name, one in self.others)
        same = same and all(_in(held, name) is one for held, name, one in self.modules)
        same = same and all(len(held) == size for held, size in self.sizes)
        if not same or any(one is not None and one.requires_grad for _, _, one in self.others):
            self._search()

    def _search(self) -> None:
        """Report the first parameter that requires a gradient and is not trained."""
        wanted = self.trained | self.left
        for name, tensor in self.model.named_parameters():
            if tensor.requires_grad and id(tensor) not in wanted:
                raise BadInput(
                    f"Parameter {name} was unfrozen or added since the step was made, and would never be trained.",
                    fix="Make a new step, with an optimizer that holds it.",
                )
        if not self.trained <= {id(tensor) for tensor in self.model.parameters()}:
            raise BadInput("A trained parameter was taken out of the model.", fix="Make a new step.")
        self._look()


def _in(held: Mapping[str, object], name: str) -> object:
    """An entry of a module's dict; that of a scripted module has no `get`."""
    return held[name] if name in held else None  # noqa: SIM401


def _kind(tensor: Tensor) -> tuple[torch.dtype, torch.Size, torch.device, tuple[int, ...]]:
    """What a compiled step takes for constant; a parameter without strides is never compiled."""
    return tensor.dtype, tensor.shape, tensor.device, tensor.stride() if tensor.layout is torch.strided else ()


def _overlaps(tensor: Tensor) -> bool:
    """Whether entries share memory: an axis without a stride, or more entries than places."""
    if tensor.layout is not torch.strided or tensor.numel() < 2:
        return False
    axes = [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
    return any(not stride for _, stride in axes) or 1 + sum((n - 1) * stride for n, stride in axes) < tensor.numel()


def _count(optimizer: torch.optim.Optimizer) -> int:
    return sum(len(group["params"]) for group in optimizer.param_groups)


def check_model(model: nn.Module) -> None:
    """Refuse layers that mix examples or store what they see, and models that hide their operations."""
    if "_orig_mod" in dict(model.named_children()):
        raise BadInput("The model is compiled already.", fix="Give the plain model and Speed(compile=True).")
    if isinstance(model, nn.parallel.DistributedDataParallel) or type(model).__name__ == "FullyShardedDataParallel":
        raise BadInput(
            "The model is wrapped for several processes.",
            fix="Give the plain model, or one cut up by fully_shard; steps see to the rest.",
        )
    check_batch_norm(model)
    for name, module in model.named_modules():
        if isinstance(module, _InstanceNorm) and module.track_running_stats:
            raise BadInput(
                f"Layer {name or 'model'} keeps running statistics, which would carry data past the noise.",
                fix="Build it with track_running_stats=False.",
            )
    if any(nn.parameter.is_lazy(tensor) for tensor in model.parameters()):
        raise BadInput("The model has parameters without a shape.", fix="Run it once on made-up data first.")


def compute_again(model: nn.Module) -> None:
    """Make a model of transformers recompute its blocks' activations in the backward pass."""
    enable = getattr(model, "gradient_checkpointing_enable", None)
    if enable is None:
        raise BadInput(
            "The model does not know which parts of it to compute again.",
            fix="Run them by torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False), without this setting.",
        )
    enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def rules(model: nn.Module) -> list[tuple[str, str]]:
    """For every parameter the rule that will clip it, as far as its layer determines it.

    Parameters of other layers are followed through the operations that use them. Batch normalisation is refused in
    training mode.
    """
    found: dict[int, tuple[str, str]] = {}
    for prefix, module in model.named_modules():
        for name, tensor in module.named_parameters(prefix, recurse=False):
            found.setdefault(id(tensor), (name, _rule(module, tensor)))
    return list(found.values())


def _rule(module: nn.Module, parameter: Tensor) -> str:
    if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
        return "refused: batch normalisation; see replace_batch_norm and freeze_batch_norm"
    if not parameter.requires_grad:
        return "frozen"
    if isinstance(module, _BatchNorm):
        return "normalisation with frozen statistics"
    for kinds, rule in _RULES:
        if isinstance(module, kinds):
            return rule
    return "by the operations that use it"
