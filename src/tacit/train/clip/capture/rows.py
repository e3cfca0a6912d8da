"""Functions that run for all records at once by our own rules, in place of torch's `vmap` rules.

Torch has a rule for nearly every operation. Those below replace rules that process records one after another (attention
on a CPU), that split an operation with a fast kernel (a linear layer with its bias, cross-entropy), or that ignore
autocast (convolutions). Each rule is correct because the function treats the rows of its first axis independently and
identically: B records of n rows each are B n rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .level import Level

Rule = Callable[..., Any]
ROWS: dict[Any, Rule] = {}


def _plain(level: Level, *given: object) -> bool:
    """Whether no tensor is in a level that user code has entered."""
    return all(not isinstance(one, Tensor) or not level.owns(one) or level.direct(one) for one in given)


def rowwise(function: Rule, axes: int | None = None) -> Rule:
    """The rule of a function of (rows, ...) with `axes` axes (None: two or more) that treats all rows independently."""

    def rule(level: Level, values: Tensor, *args: object, **kwargs: object) -> Any:
        fits = level.direct(values) and (values.ndim >= 2 if axes is None else values.ndim == axes)
        if not fits or not _same(level, *_tensors(args, kwargs)):
            return function(values, *args, **kwargs)
        whole = level.all(values).flatten(0, 1)
        with level.left():
            found = function(whole, *args, **kwargs)
        if isinstance(found, Tensor):
            return level.one(found.unflatten(0, (level.batch, -1)))
        return tuple(level.one(part.unflatten(0, (level.batch, -1))) for part in found)

    return rule


def trailing(function: Rule) -> Rule:
    """The rule of a function that acts on the last axes only, or element by element: no reshaping is needed."""

    def rule(level: Level, values: Tensor, *args: object, **kwargs: object) -> Any:
        if not level.direct(values) or not _same(level, *_tensors(args, kwargs)):
            return function(values, *args, **kwargs)
        whole = level.all(values)
        with level.left():
            found = function(whole, *args, **kwargs)
        return level.one(found)

    return rule


def _tensors(args: tuple[object, ...], kwargs: dict[str, object]) -> list[Tensor]:
    return [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]


def addmm(level: Level, bias: Tensor, values: Tensor, weight: Tensor, **kwargs: Any) -> Tensor:
    """b + x W for the rows of x."""
    if kwargs or not level.direct(values) or not _same(level, weight, bias) or bias.ndim != 1:
        return torch.addmm(bias, values, weight, **kwargs)
    whole = level.all(values)
    with level.left():
        found = torch.addmm(bias, whole.flatten(0, 1), weight)
    return level.one(found.unflatten(0, (level.batch, -1)))


def cross_entropy(level: Level, values: Tensor, target: Tensor, *args: object, **kwargs: object) -> Tensor:
    """One loss per row: rows of (n, classes, ...) do not meet unless they are averaged."""
    return _losses(level, F.cross_entropy, values, target, args, kwargs, position=6)


def nll_loss(level: Level, values: Tensor, target: Tensor, *args: object, **kwargs: object) -> Tensor:
    """One loss per row."""
    return _losses(level, F.nll_loss, values, target, args, kwargs, position=6)


def _losses(
    level: Level, function: Rule, values: Tensor, target: Tensor, args: Any, kwargs: Any, *, position: int
) -> Tensor:
    kind = args[position - 2] if len(args) > position - 2 else kwargs.get("reduction", "mean")
    rest = (*args, *kwargs.values())
    fits = values.ndim > 1 and target.ndim and kind == "none" and _plain(level, values, target)
    if not fits or any(isinstance(one, Tensor) and level.owns(one) for one in rest):
        return function(values, target, *args, **kwargs)
    sides = level.all(values).flatten(0, 1), level.all(target).flatten(0, 1)
    with level.left():
        found = function(*sides, *args, **kwargs)
    return level.one(found.unflatten(0, (level.batch, -1)))


def attention(
    level: Level, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, *rest: Any, **kwargs: Any
) -> Tensor:
    """Attention on (batch, heads, length, width), which treats the rows of the batch independently."""
    given = query, key, value, attn_mask
    if any(tensor.ndim != 4 for tensor in given[:3]) or not _plain(level, *given):
        return F.scaled_dot_product_attention(query, key, value, attn_mask, *rest, **kwargs)
    rows = query.shape[0]

    def whole(tensor: Tensor) -> Tensor:
        return level.all(tensor.expand(rows, *tensor.shape[1:])).flatten(0, 1)

    if isinstance(attn_mask, Tensor) and (level.owns(attn_mask) or (attn_mask.ndim == 4 and attn_mask.shape[0] > 1)):
        attn_mask = whole(attn_mask.reshape((1,) * (4 - attn_mask.ndim) + tuple(attn_mask.shape)))
    sides = [whole(tensor) for tensor in given[:3]]
    with level.left():
        found = F.scaled_dot_product_attention(sides[0], sides[1], sides[2], attn_mask, *rest, **kwargs)
    return level.one(found.unflatten(0, (level.batch, rows)))


def embedding(
    level: Level, input: Tensor, weight: Tensor, padding_idx: int | None = None, *rest: Any, **kwargs: Any
) -> Tensor:
    """Rows of a table that is the records' own: torch's `vmap` forgets that padding has no gradient."""
    if padding_idx is None or not level.owns(weight):
        return _shared_table(level, input, weight, padding_idx, *rest, **kwargs)
    found = F.embedding(input, weight, None, *rest, **kwargs)
    return torch.where((input == padding_idx % len(weight)).unsqueeze(-1), found.detach(), found)


def plain_embedding(
    level: Level, weight: Tensor, indices: Tensor, padding_idx: int = -1, *rest: Any, **kwargs: Any
) -> Tensor:
    """Rows of a table that is the records' own, by the name of torch's operator, where -1 is no padding."""
    if padding_idx < 0 or not level.owns(weight):
        return torch.embedding(weight, indices, padding_idx, *rest, **kwargs)
    return embedding(level, indices, weight, padding_idx)


def masked_fill(level: Level, values: Tensor, mask: Tensor, value: float | Tensor) -> Tensor:
    """A number that is a tensor, in the places of a mask: torch's own rule takes one record after another."""
    if isinstance(value, Tensor) and not value.ndim:
        return torch.where(mask, value.to(values.dtype), values)
    return torch.masked_fill(values, mask, value)


def put_in(level: Level, values: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    """One slice in the place of another: torch's own rule gives the source too large a gradient."""
    place = index % values.shape[dim]
    return torch.slice_scatter(values, source.unsqueeze(dim), dim, place, place + 1)


def extreme(function: Rule, of_all: Rule) -> Rule:
    """The largest or smallest of all numbers: where several are, autograd shares the gradient among them.

    Torch's `vmap` gives it to one of them, so it does where code of the user's calls it.
    """

    def rule(level: Level, values: Tensor, *args: object, **kwargs: object) -> Any:
        if args or kwargs or not level.direct(values):
            return function(values, *args, **kwargs)
        return of_all(values, tuple(range(values.ndim)))

    return rule


def _same(level: Level, *tensors: Tensor | None) -> bool:
    """Whether these tensors are shared by all records."""
    return not any(tensor is not None and level.owns(tensor) for tensor in tensors)


_TRAILING: tuple[Rule, ...] = (F.linear, F.layer_norm, F.rms_norm)
_ROWWISE: tuple[tuple[Rule, int | None], ...] = (
    (torch.conv1d, 3), (torch.conv2d, 4), (torch.conv3d, 5), (torch.conv_transpose1d, 3), (torch.conv_transpose2d, 4),
    (torch.conv_transpose3d, 5), (F.group_norm, None), (F.max_pool1d, 3), (F.max_pool2d, 4), (F.max_pool3d, 5),
    (F.avg_pool1d, 3), (F.avg_pool2d, 4), (F.avg_pool3d, 5), (F.adaptive_avg_pool2d, 4),
)  # fmt: skip
for _function in _TRAILING:
    ROWS[_function] = trailing(_function)
for _function, _axes in _ROWWISE:
    ROWS[_function] = rowwise(_function, _axes)
_shared_table = trailing(F.embedding)
ROWS[F.embedding] = embedding
ROWS[torch.embedding] = plain_embedding
ROWS[torch.addmm] = addmm
ROWS[torch.max] = ROWS[Tensor.max] = extreme(torch.max, torch.amax)
ROWS[torch.min] = ROWS[Tensor.min] = extreme(torch.min, torch.amin)
ROWS[torch.select_scatter] = ROWS[Tensor.select_scatter] = put_in
ROWS[torch.masked_fill] = ROWS[Tensor.masked_fill] = masked_fill
ROWS[F.cross_entropy] = cross_entropy
ROWS[F.nll_loss] = nll_loss
ROWS[F.scaled_dot_product_attention] = attention
