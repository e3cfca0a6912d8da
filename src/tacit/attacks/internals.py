"""What a white-box observer sees of a torch model: layer outputs and per-example gradients of the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..core import BadInput, Observations, check

Arrays = dict[str, NDArray[np.float32]]
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
LARGEST = 4096
"""Numbers in a layer's output up to which it is observed by default."""


def look_inside(
    model: nn.Module,
    x: ArrayLike,
    y: ArrayLike,
    *,
    member: ArrayLike | None = None,
    record: ArrayLike | None = None,
    layers: Sequence[str] | None = None,
    gradients: Sequence[str] | None = None,
    norm: bool = True,
    batch: int = 100,
) -> Observations:
    r"""One model's logits on records, the norm of its loss's gradient, and its `internals` (Nasr et al. 2019).

    `layers` name modules whose outputs are seen: by default the last two linear or convolutional ones before the last
    that give at most 4096 numbers. `gradients` name modules whose weights' per-example gradients are seen: by default
    the last one. The gradient of a linear layer used once is error x input^T; the two factors stand for it under
    `error/NAME` and `input/NAME`. Others are formed, as `gradient/NAME` (rows x fan-in). Without `norm` no other
    parameter's gradient is computed.

    Caller ensures: in evaluation mode the model treats records one by one.
    """
    inputs, label = torch.as_tensor(np.asarray(x, dtype=np.float32)), torch.as_tensor(np.asarray(y, dtype=np.int64))
    if label.dim() != 1 or len(inputs) != len(label) or not len(label):
        raise BadInput("A white-box observer needs x and y of one length, y with one label per record.")
    check.whole("batch", batch)
    device = next(model.parameters()).device
    with _answering(model):
        order = _order(model, inputs[:1].to(device))
        shown, wanted = _chosen(order, layers, gradients)
        parts = []
        for rows in torch.split(torch.arange(len(label)), batch):
            parts.append(_batch(model, inputs[rows].to(device), label[rows].to(device), shown, wanted, norm))
    joined = {name: np.concatenate([part[name] for part in parts])[:, None] for name in parts[0]}
    lengths, logits = joined.pop("norm", None), joined.pop("output")
    seen = Observations.from_logits(logits, label.numpy(), member=member, record=record)
    return replace(seen, gradient_norm=None if lengths is None else lengths.astype(np.float64), internals=joined)


def _batch(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    shown: Mapping[str, nn.Module],
    wanted: Mapping[str, nn.Module],
    norm: bool,
) -> Arrays:
    """All arrays for one batch, records first."""
    outputs: dict[str, list[Tensor]] = {}
    entered: dict[str, list[Tensor]] = {}

    def watch(name: str) -> Callable[..., Tensor]:
        def hook(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            outputs.setdefault(name, []).append(output)
            entered.setdefault(name, []).append(given[0].detach().clone())
            return output.clone()  # what comes after may work in place

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in {**shown, **wanted}.items()]
    try:
        with torch.enable_grad():
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y, reduction="sum")
        simple = [name for name in wanted if _rank_one(wanted[name], outputs.get(name, []))]
        errors = torch.autograd.grad(loss, [outputs[name][0] for name in simple]) if simple else ()
    finally:
        for handle in handles:
            handle.remove()
    found = {"output": logits, **{f"layer/{name}": outputs[name][-1].flatten(1) for name in shown}}
    for name, error in zip(simple, errors, strict=True):
        found[f"error/{name}"], found[f"input/{name}"] = error, entered[name][0]
    formed = {f"{name}.weight": f"gradient/{name}" for name in wanted if name not in simple}
    if norm or formed:
        each = _gradients(model, x, y, None if norm else tuple(formed))
        found.update({formed[name]: each[name].flatten(2) for name in formed})
    if norm:
        found["norm"] = torch.stack([value.flatten(1).square().sum(1) for value in each.values()]).sum(0).sqrt()
    return {name: np.asarray(value.detach().float().cpu().numpy()) for name, value in found.items()}


def _rank_one(module: nn.Module, outputs: Sequence[Tensor]) -> bool:
    """A linear layer that saw one vector per record."""
    return isinstance(module, nn.Linear) and len(outputs) == 1 and outputs[0].dim() == 2


def _gradients(model: nn.Module, x: Tensor, y: Tensor, names: Sequence[str] | None) -> dict[str, Tensor]:
    """Per record the gradients of the named parameters, or of all that are trained."""
    chosen = [name for name, value in model.named_parameters() if value.requires_grad] if names is None else names
    moved = {name: value.detach() for name, value in model.named_parameters() if name in chosen}
    fixed = {name: value.detach() for name, value in model.named_parameters() if name not in chosen}
    fixed |= dict(model.named_buffers())

    def loss(parameters: dict[str, Tensor], a: Tensor, b: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(model, (parameters, fixed), (a[None],)), b[None])

    return vmap(grad(loss), in_dims=(None, 0, 0))(moved, x, y)  # type: ignore[no-any-return]


def _order(model: nn.Module, x: Tensor) -> dict[str, tuple[nn.Module, int]]:
    """Linear and convolutional modules in the order they run, with the size of what they give."""
    found: dict[str, tuple[nn.Module, int]] = {}
    handles = []
    for name, module in model.named_modules():
        if isinstance(module, LAYERS) and all(value.requires_grad for value in module.parameters()):

            def note(module: nn.Module, given: Any, output: Tensor, name: str = name) -> None:
                found.setdefault(name, (module, output[0].numel()))

            handles.append(module.register_forward_hook(note))
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise BadInput("A white-box observer needs a model with a trainable linear or convolutional layer.")
    return found


def _chosen(
    order: Mapping[str, tuple[nn.Module, int]], layers: Sequence[str] | None, gradients: Sequence[str] | None
) -> tuple[dict[str, nn.Module], dict[str, nn.Module]]:
    names = list(order)
    small = [name for name in names[:-1] if order[name][1] <= LARGEST]
    asked = (small[-2:] if layers is None else list(layers), names[-1:] if gradients is None else list(gradients))
    for name in (*asked[0], *asked[1]):
        if name not in order:
            raise BadInput(f"The model has no such layer in use: {name!r}.", fix=f"Use some of: {', '.join(names)}.")
    shown, wanted = ({name: order[name][0] for name in part} for part in asked)
    return shown, wanted


@contextmanager
def _answering(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while."""
    training = {name: module.training for name, module in model.named_modules()}
    model.eval()
    try:
        yield
    finally:
        for name, module in model.named_modules():
            module.training = training[name]
