"""One short rule per operation: the per-example gradients of the parameters that it consumed.

A rule is called as rule(record, gradient, batch) and yields (tensor, term) for every parameter among the arguments.
`gradient` is the loss gradient of the operation's output, of shape (B, ...): all records first, then the shape for one
record, which usually is a batch of one. Per-record tensors among the arguments have the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ....core import BadInput
from ..arrays import wide
from ..compile.position_sums import pays, position_sums
from .outer import Outer
from .terms import Dense, Gather, Term

if TYPE_CHECKING:
    from ..capture.kept import Record

Found = Iterator[tuple[Tensor, Term]]
RULES: dict[Callable[..., object], Callable[[Record, Tensor, int], Found]] = {}
EXPANSIONS: dict[Callable[..., object], Callable[..., object]] = {}


def rule(*functions: Callable[..., Any]) -> Callable[[Any], Any]:
    """Register a rule for some functions."""

    def register(body: Any) -> Any:
        for function in functions:
            RULES[function] = body
        return body

    return register


def argument(record: Record, position: int, name: str, default: object = None) -> Any:
    """An argument by position or by name."""
    if position < len(record.args):
        return record.args[position]
    return record.kwargs.get(name, default)


def uses(record: Record, tensor: object) -> bool:
    return any(tensor is used for used in record.used)


def every(record: Record, tensor: Tensor, batch: int) -> Tensor:
    """An argument as (B, ...); one that is shared by all records is expanded without a copy."""
    return tensor if id(tensor) in record.own else tensor.expand(batch, *tensor.shape)


def sequence(tensor: Tensor) -> Tensor:
    """(B, ..., d) -> (B, 1, T, d): the one-group form of `Outer`."""
    return tensor.reshape(tensor.shape[0], 1, -1, tensor.shape[-1])


def reduced(values: Tensor, shape: torch.Size) -> Tensor:
    """(B, *big) summed down to (B, *shape), undoing the broadcast of a parameter."""
    extra = values.ndim - 1 - len(shape)
    if extra < 0:
        raise BadInput("A parameter is broadcast against fewer axes than it has, so it cannot be clipped.")
    padded = (1,) * extra + tuple(shape)
    axes = [axis + 1 for axis, size in enumerate(padded) if size == 1 and values.shape[axis + 1] != 1]
    if axes and padded == (*(1,) * (len(padded) - 1), values.shape[-1]) and pays(values):
        values = position_sums(values)
    elif axes:
        values = values.sum(axes, keepdim=True)
    if values.shape[1:].numel() != shape.numel():
        raise BadInput("A parameter has one row per example of the batch, so it cannot be clipped.")
    return values.reshape(values.shape[0], *shape)


def by_rule(record: Record, gradient: Tensor, batch: int) -> list[tuple[Tensor, Term]]:
    """The terms of an operation by its rule, or by `fallback` where a parameter stands where no rule looks for one.

    A rule gives one term for each place that it knows. If these are not the places where parameters are, some part of
    a gradient would be missing.
    """
    used = {id(tensor) for tensor in record.used}
    if record.function in RULES and len(used) == len(record.used):
        found = list(RULES[record.function](record, gradient, batch))
        if {id(tensor) for tensor, _ in found} == used:
            return found
    return list(fallback(record, gradient, batch))


@rule(F.linear)
def linear(record: Record, gradient: Tensor, batch: int) -> Found:
    """y = x W^T + b: G = sum_t g_t x_t^T, and sum_t g_t for the bias."""
    values, weight, bias = record.args[0], argument(record, 1, "weight"), argument(record, 2, "bias")
    keys = id(gradient), id(values)
    alone = gradient.numel() == batch * gradient.shape[-1]
    if uses(record, weight):
        if weight.ndim == 1:
            gradient = gradient.unsqueeze(-1)
        yield weight, Outer(sequence(gradient), sequence(every(record, values, batch)), weight.shape, keys)
    if bias is not None and uses(record, bias):
        yield bias, Dense(reduced(gradient, bias.shape), keys[0] if alone else None)


@rule(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm)
def matmul(record: Record, gradient: Tensor, batch: int) -> Found:
    """x @ W: G = sum_t x_t g_t^T; W @ x: G = g x^T."""
    left, right = record.args[0], argument(record, 1, "other")
    if uses(record, left) and uses(record, right):
        yield from fallback(record, gradient, batch)
    elif uses(record, right) and right.ndim == 2:
        yield right, Outer(sequence(every(record, left, batch)), sequence(gradient), right.shape)
    elif uses(record, right) and right.ndim == 1:
        yield right, Outer(sequence(gradient.unsqueeze(-1)), sequence(every(record, left, batch)), right.shape)
    elif uses(record, left) and left.ndim == 2 and right.ndim > 2:
        columns = sequence(every(record, right, batch).mT)
        yield left, Outer(sequence(gradient.mT), columns, left.shape)
    elif uses(record, left) and left.ndim == 2:
        yield left, Outer(sequence(gradient), sequence(every(record, right, batch)), left.shape)
    else:
        yield from fallback(record, gradient, batch)


@rule(torch.addmm, Tensor.addmm)
def addmm(record: Record, gradient: Tensor, batch: int) -> Found:
    """b + x @ W, as Hugging Face's Conv1D writes a linear layer."""
    bias, values, weight = record.args[:3]
    if uses(record, values) or record.kwargs.get("alpha", 1) != 1 or record.kwargs.get("beta", 1) != 1:
        yield from fallback(record, gradient, batch)
        return
    if uses(record, weight):
        yield weight, Outer(sequence(every(record, values, batch)), sequence(gradient), weight.shape)
    if uses(record, bias):
        yield bias, Dense(reduced(gradient, bias.shape))


@rule(F.embedding)
def embedding(record: Record, gradient: Tensor, batch: int) -> Found:
    """y_t = W[k_t]."""
    index, weight = record.args[0], argument(record, 1, "weight")
    if argument(record, 5, "scale_grad_by_freq", False):
        raise BadInput("it scales gradients by how often a row is looked up")
    index = every(record, index, batch).reshape(batch, -1)
    rows = gradient.reshape(batch, index.shape[1], -1)
    padding = argument(record, 2, "padding_idx")
    if padding is not None:
        rows = rows.masked_fill((index == padding % weight.shape[0])[..., None], 0)
    yield weight, Gather(index, rows, weight.shape)


@rule(F.layer_norm, F.rms_norm)
def normalised(record: Record, gradient: Tensor, batch: int) -> Found:
    """y = w * n(x) + b over the last axes: sum_t g_t n(x_t), and sum_t g_t for the bias."""
    values, shape, weight = record.args[0], argument(record, 1, "normalized_shape"), argument(record, 2, "weight")
    if uses(record, weight):
        rest = {"eps": record.kwargs["eps"]} if "eps" in record.kwargs else {}
        if record.function is F.layer_norm:
            plain = F.layer_norm(values, shape, None, None, argument(record, 4, "eps", 1e-5))
        else:
            plain = F.rms_norm(values, shape, None, *record.args[3:4], **rest)
        along = plain.mul_(gradient) if plain.dtype == gradient.dtype else gradient * plain
        yield weight, Dense(reduced(along, weight.shape))
    bias = argument(record, 3, "bias") if record.function is F.layer_norm else None
    if bias is not None and uses(record, bias):
        yield bias, Dense(reduced(gradient, bias.shape))


@rule(F.group_norm, F.instance_norm)
def channels_normalised(record: Record, gradient: Tensor, batch: int) -> Found:
    """y_c = w_c n(x)_c + b_c over channels, axis 1."""
    values = record.args[0]
    if record.function is F.group_norm:
        names, kept = ("weight", "bias"), {1: "num_groups", 4: "eps"}
        positions = (2, 3)
    else:
        names, positions = ("weight", "bias"), (3, 4)
        kept = {1: "running_mean", 2: "running_var", 5: "use_input_stats", 6: "momentum", 7: "eps"}
    weight, bias = (argument(record, place, name) for place, name in zip(positions, names, strict=True))
    if weight is not None and uses(record, weight):
        options = {name: argument(record, place, name) for place, name in kept.items()}
        given = {name: value for name, value in options.items() if value is not None}
        rows = every(record, values, batch).flatten(0, 1).to(gradient.dtype)
        plain = record.function(rows, **given).view_as(gradient)
        yield weight, Dense(_per_channel(gradient * plain))
    if bias is not None and uses(record, bias):
        yield bias, Dense(_per_channel(gradient))


def _per_channel(values: Tensor) -> Tensor:
    """(B, rows, C, *space) -> (B, C)."""
    return values.flatten(3).sum((1, 3)) if values.ndim > 3 else values.sum(1)


@rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(record: Record, gradient: Tensor, batch: int) -> Found:
    """A bare parameter added: its gradient is the output's, summed over where it was broadcast."""
    if record.kwargs or len(record.args) != 2:
        yield from elementwise(record, gradient, batch)
        return
    for used in record.used:
        yield used, Dense(reduced(gradient, used.shape))


@rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
def mul(record: Record, gradient: Tensor, batch: int) -> Found:
    """A bare parameter multiplied with x: the output's gradient times x, summed over where it was broadcast."""
    if record.kwargs or len(record.args) != 2 or len(record.used) != 1:
        yield from elementwise(record, gradient, batch)
        return
    (used,) = record.used
    other = record.args[1] if record.args[0] is used else record.args[0]
    if isinstance(other, Tensor):
        other = wide(_aligned(other, gradient.ndim) if id(other) in record.own else other.detach())
    yield used, Dense(reduced(wide(gradient) * other, used.shape))


@rule(
    torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__,
    torch.div, Tensor.div, Tensor.__truediv__, Tensor.__rtruediv__, torch.true_divide, Tensor.true_divide,
    torch.pow, Tensor.pow, Tensor.__pow__, torch.where, torch.maximum, torch.minimum, torch.addcmul, torch.lerp,
    Tensor.where, Tensor.maximum, Tensor.minimum, Tensor.addcmul, Tensor.lerp,
)  # fmt: skip
def elementwise(record: Record, gradient: Tensor, batch: int) -> Found:
    """Any element-by-element operation: differentiate it with the parameter written out to the output's shape."""
    from ..capture.watch import replaced

    shape = gradient.shape
    full = {id(used): used.detach().expand(shape).clone().requires_grad_() for used in record.used}
    beside = {id(tensor): _aligned(tensor, gradient.ndim) for tensor in owned(record)}
    with torch.enable_grad():
        output = record.function(*replaced(record.args, beside | full), **replaced(record.kwargs, beside | full))
    found = torch.autograd.grad(output, list(full.values()), gradient)
    for used, values in zip(record.used, found, strict=True):
        yield used, Dense(reduced(values, used.shape))


@rule(torch.masked_fill, Tensor.masked_fill)
def filled(record: Record, gradient: Tensor, batch: int) -> Found:
    """A learned number or tensor where a mask is true; the value must be a single number."""
    values, mask, value = record.args[0], argument(record, 1, "mask"), argument(record, 2, "value")
    mask = _aligned(mask, gradient.ndim) if id(mask) in record.own else mask
    if uses(record, values):
        yield values, Dense(reduced(gradient.masked_fill(mask, 0), values.shape))
    if uses(record, value):
        yield value, Dense(reduced(gradient.masked_fill(~mask, 0), value.shape))


def _aligned(tensor: Tensor, axes: int) -> Tensor:
    """(B, 1, ..., 1, *shape of one record), so that it is broadcast as it was for one record."""
    return tensor.detach().view(tensor.shape[0], *(1,) * (axes - tensor.ndim), *tensor.shape[1:])


@rule(torch.cat, torch.concat, torch.concatenate)
def joined(record: Record, gradient: Tensor, batch: int) -> Found:
    """Parameters concatenated with per-record values (a class token): each gets its slice of the gradient."""
    parts, axis = record.args[0], argument(record, 1, "dim", 0)
    axis = axis % (gradient.ndim - 1) + 1
    place = 0
    for part in parts:
        if part.ndim - (id(part) in record.own) != gradient.ndim - 1:
            continue  # an empty list, which torch lets stand beside tensors of any shape
        size = part.shape[axis if id(part) in record.own else axis - 1]
        if uses(record, part):
            yield part, Dense(gradient.narrow(axis, place, size))
        place += size


def owned(record: Record) -> list[Tensor]:
    """The per-record arguments, each once."""
    from ..capture.watch import flat

    found = {id(tensor): tensor for tensor in flat(record.args, record.kwargs) if id(tensor) in record.own}
    return list(found.values())


def fallback(record: Record, gradient: Tensor, batch: int) -> Found:
    """Without a rule: differentiate the operation by its parameters for one record, under `vmap` for all.

    In float32 or better: autocast, which made the dtypes of its arguments agree, is no longer active.
    """
    from ..capture.watch import flat, replaced

    own = owned(record)
    used = tuple({id(tensor): tensor for tensor in record.used}.values())
    rest = {id(tensor): wide(tensor.detach()) for tensor in flat(record.args, record.kwargs)}

    def pulled(gradient_one: Tensor, *own_one: Tensor) -> tuple[Tensor, ...]:
        one = rest | {id(tensor): part for tensor, part in zip(own, own_one, strict=True)}

        def run(*weights: Tensor) -> Tensor:
            table = one | {id(tensor): weight for tensor, weight in zip(used, weights, strict=True)}
            return record.function(*replaced(record.args, table), **replaced(record.kwargs, table))

        pull = torch.func.vjp(run, *(wide(tensor.detach()) for tensor in used))[1]
        return pull(gradient_one)

    found = torch.func.vmap(pulled)(*(wide(tensor.detach()) for tensor in (gradient, *own)))
    for tensor, values in zip(used, found, strict=True):
        yield tensor, Dense(values)
