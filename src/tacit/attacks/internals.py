"""What a white-box observer sees of a torch model: layer outputs and per-example gradients of the loss."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from ..core import BadInput, Observations, check

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
LARGEST = 4096
"""Numbers in a layer's output up to which it is observed by default."""


@torch.inference_mode(False)
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
    `error/NAME` and `input/NAME`. Others are formed, as `gradient/NAME` (rows x fan-in). `length/margin` holds, for
    each linear or convolutional layer, the length of the gradient of the margin in its weights. The loss's gradient is
    that times 1 - p_y, which rounds to 0 for the records a model is surest of. Without `norm` neither these lengths nor
    the norm of the whole gradient are computed.

    Caller ensures: in evaluation mode the model treats records one by one.
    """
    inputs, label = taken(model, x), torch.as_tensor(np.asarray(y, dtype=np.int64))
    if label.dim() != 1 or len(inputs) != len(label) or not len(label):
        raise BadInput("A white-box observer needs x and y of one length, y with one label per record.")
    check.whole("batch", batch)
    device = next(model.parameters()).device
    with _answering(model):
        order = _order(model, inputs[:1].to(device))
        shown, wanted = _chosen(order, layers, gradients)
        watched = {name: module for name, (module, _) in order.items() if norm or name in (*shown, *wanted)}
        parts = []
        for rows in torch.split(torch.arange(len(label)), batch):
            parts.append(_batch(model, inputs[rows].to(device), label[rows].to(device), watched, shown, wanted, norm))
    joined = {name: np.concatenate([part[name] for part in parts])[:, None] for name in parts[0]}
    length, logits = joined.pop("norm", None), joined.pop("output")
    seen = Observations.from_logits(logits, label.numpy(), member=member, record=record)
    return replace(seen, gradient_norm=length, internals=joined)


def taken(model: nn.Module, x: ArrayLike) -> Tensor:
    """The records as a tensor of the model's floating-point type."""
    kinds = [value.dtype for value in model.parameters() if value.is_floating_point()]
    if not kinds:
        raise BadInput("A white-box observer needs a model with parameters.")
    return torch.as_tensor(np.asarray(x, dtype=np.float64 if kinds[0] == torch.float64 else np.float32)).to(kinds[0])


def _batch(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    watched: Mapping[str, nn.Module],
    shown: Collection[str],
    wanted: Collection[str],
    norm: bool,
) -> dict[str, NDArray[np.floating]]:
    """All arrays for one batch, records first."""
    calls, logits = _calls(model, x, watched)
    margin = _margin(logits, y)
    simple = [name for name in watched if (norm or name in wanted) and _simple(model, watched[name], calls[name])]
    slopes = torch.autograd.grad(margin.sum(), [calls[name][0][1] for name in simple]) if simple else ()
    errors = dict(zip(simple, slopes, strict=True))
    fall = -torch.sigmoid(-margin.detach().double())  # d loss / d margin = p_y - 1
    found = {"output": logits, **{f"layer/{name}": calls[name][-1][1].flatten(1) for name in shown}}
    for name in wanted:
        if name in errors and errors[name].dim() == 2:
            found[f"error/{name}"], found[f"input/{name}"] = fall[:, None] * errors[name], calls[name][0][0]
    formed = [name for name in wanted if f"error/{name}" not in found]
    called = {id(value): name for name, value in model.named_parameters()}
    weight = {name: called[id(module.weight)] for name, module in watched.items()}  # one name where two are tied
    factors = {weight[name]: (watched[name], calls[name][0][0], error) for name, error in errors.items()}
    lengths = {name: _length(*made) for name, made in factors.items()} if norm else {}
    each = {weight[name]: _weights(*factors[weight[name]]) for name in formed if name in errors}
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    each |= _gradients(model, x, y, set(trained if norm else [weight[name] for name in formed]) - set(factors))
    found |= {f"gradient/{name}": fall[:, None, None] * each[weight[name]].flatten(2) for name in formed}
    arrays = {name: np.asarray(value.detach().float().cpu().numpy()) for name, value in found.items()}
    if norm:
        others = {name: value for name, value in each.items() if name not in lengths}
        lengths |= {name: value.flatten(1).norm(dim=1) for name, value in others.items()}
        lengths = {name: value.double() for name, value in lengths.items()}
        own = [lengths[weight[name]] for name in watched]
        arrays["length/margin"] = torch.stack(own, dim=1).float().cpu().numpy()
        arrays["norm"] = (-fall * torch.stack(list(lengths.values())).square().sum(0).sqrt()).cpu().numpy()
    return arrays


def _calls(
    model: nn.Module, x: Tensor, watched: Mapping[str, nn.Module]
) -> tuple[dict[str, list[tuple[Tensor, Tensor]]], Tensor]:
    """What went into each module and what came out, call after call; and the logits."""
    calls: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in watched}

    def watch(name: str) -> Callable[..., Tensor]:
        def hook(module: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
            calls[name].append((given[0].detach().clone(), output))
            return output.clone()  # what comes after may work in place

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in watched.items()]
    try:
        with torch.enable_grad():
            return calls, model(x)
    finally:
        for handle in handles:
            handle.remove()


def _margin(logits: Tensor, y: Tensor) -> Tensor:
    """log p_y - log(1 - p_y)."""
    own = y[..., None] == torch.arange(logits.shape[-1], device=y.device)
    return logits.masked_fill(~own, 0.0).sum(-1) - logits.masked_fill(own, -torch.inf).logsumexp(-1)


def _simple(model: nn.Module, module: nn.Module, calls: Sequence[object]) -> bool:
    """Used once, by weights of its own, and of a kind whose gradient `_weights` knows."""
    weight = module.weight
    owners = sum(value is weight for each in model.modules() for value in each.parameters(recurse=False))
    if len(calls) != 1 or owners != 1:
        return False
    plain = isinstance(module, nn.Conv2d) and module.groups == 1 and module.padding_mode == "zeros"
    return isinstance(module, nn.Linear) or (plain and not isinstance(module.padding, str))


def _weights(module: nn.Module, entered: Tensor, error: Tensor) -> Tensor:
    """Per record the gradient of the weight: the sum of error x input^T over the places where it was used."""
    if isinstance(module, nn.Conv2d):
        places = nn.functional.unfold(entered, module.kernel_size, module.dilation, module.padding, module.stride)  # type: ignore[arg-type]
        return torch.einsum("nol,nil->noi", error.flatten(2), places)
    return torch.einsum("nlo,nli->noi", *(part.reshape(len(part), -1, part.shape[-1]) for part in (error, entered)))


def _length(module: nn.Module, entered: Tensor, error: Tensor) -> Tensor:
    """Norm of each record's weight gradient. For a linear layer it is the product of two vector norms, and the gradient
    is not formed."""
    single = isinstance(module, nn.Linear) and error.dim() == 2
    parts = (error, entered) if single else (_weights(module, entered, error),)
    return torch.stack([part.flatten(1).norm(dim=1) for part in parts]).prod(0)


def _gradients(model: nn.Module, x: Tensor, y: Tensor, names: Collection[str]) -> dict[str, Tensor]:
    """Per record the margin's gradients of the named parameters."""
    if not names:
        return {}
    moved = {name: value.detach() for name, value in model.named_parameters() if name in names}
    fixed = {name: value.detach() for name, value in model.named_parameters() if name not in names}
    fixed |= dict(model.named_buffers())

    def margin(parameters: dict[str, Tensor], a: Tensor, b: Tensor) -> Tensor:
        return _margin(functional_call(model, (parameters, fixed), (a[None],)), b[None])[0]

    return vmap(grad(margin), in_dims=(None, 0, 0))(moved, x, y)  # type: ignore[no-any-return]


def _order(model: nn.Module, x: Tensor) -> dict[str, tuple[nn.Module, int]]:
    """Linear and convolutional modules in the order they run, with the size of what they give."""
    found: dict[str, tuple[nn.Module, int]] = {}
    handles = []
    for name, module in model.named_modules():
        own = "weight" in dict(module.named_parameters(recurse=False))  # and not made of others at every call
        if isinstance(module, LAYERS) and own and all(value.requires_grad for value in module.parameters()):

            def note(module: nn.Module, given: object, output: Tensor, name: str = name) -> None:
                found.setdefault(name, (module, output[0].numel()))

            handles.append(module.register_forward_hook(note))
    try:
        with torch.no_grad():
            answer = model(x)
    finally:
        for handle in handles:
            handle.remove()
    if not isinstance(answer, Tensor) or answer.dim() != 2:
        raise BadInput("A white-box observer needs a model that gives logits, records x classes.")
    if not found:
        raise BadInput("A white-box observer needs a model with a trainable linear or convolutional layer.")
    return found


def _chosen(
    order: Mapping[str, tuple[nn.Module, int]], layers: Sequence[str] | None, gradients: Sequence[str] | None
) -> tuple[list[str], list[str]]:
    names = list(order)
    small = [name for name in names[:-1] if order[name][1] <= LARGEST]
    asked = (small[-2:] if layers is None else list(layers), names[-1:] if gradients is None else list(gradients))
    for name in (*asked[0], *asked[1]):
        if name not in order:
            raise BadInput(f"The model has no such layer in use: {name!r}.", fix=f"Use some of: {', '.join(names)}.")
    return asked


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
