"""Make operations total whose kernels on a GPU end the process at a value (soundness rule 8).

A probability that is not between 0 and 1, or NaN, makes some of torch's kernels stop, and with them all that runs on
that GPU. Here it is replaced before the operation runs, and the record that held it is marked, so that it contributes
nothing. On a processor the operation would raise for all records, and the batch would have to be computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .level import Level

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Mended = tuple[Args, Kwargs, Tensor | None]
Mend = Callable[[Args, Kwargs, Level], Mended]


def given(args: tuple[object, ...], kwargs: dict[str, object], position: int, name: str, default: object = None) -> Any:
    """An argument by its place or by its name."""
    return args[position] if position < len(args) else kwargs.get(name, default)


def exchanged(args: Args, kwargs: Kwargs, position: int, name: str, value: object) -> tuple[Args, Kwargs]:
    """The arguments with another value for one of them."""
    if position < len(args):
        return (*args[:position], value, *args[position + 1 :]), kwargs
    name = "self" if name == "input" and "self" in kwargs else name
    return args, {**kwargs, name: value}


def _values(args: Args, kwargs: Kwargs, position: int, name: str, level: Level) -> Tensor | None:
    found = given(args, {"input": kwargs.get("self"), **kwargs}, position, name)
    return found if isinstance(found, Tensor) and level.owns(found) and found.is_floating_point() else None


def _chance(position: int, name: str) -> Mend:
    """Probabilities lie between 0 and 1."""

    def mend(args: Args, kwargs: Kwargs, level: Level) -> Mended:
        values = _values(args, kwargs, position, name, level)
        if values is None:
            return args, kwargs, None
        proper = (values >= 0) & (values <= 1)
        half = torch.where(proper, values, 0.5)
        return *exchanged(args, kwargs, position, name, half), level.marked(~proper)

    return mend


def _chances(args: Args, kwargs: Kwargs, level: Level) -> Mended:
    """Binary cross-entropy: the answers, and the targets where this version of torch asks it of them too."""
    args, kwargs, off = _chance(0, "input")(args, kwargs, level)
    if not _targets_too():
        return args, kwargs, off
    args, kwargs, too = _chance(1, "target")(args, kwargs, level)
    return args, kwargs, too if off is None else off if too is None else off | too


@cache
def _targets_too() -> bool:
    try:
        with torch._C.DisableTorchFunction(), torch._C._DisableFuncTorch():
            F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([2.0]))
    except RuntimeError:
        return True
    return False


def _coins(args: Args, kwargs: Kwargs, level: Level) -> Mended:
    """torch.bernoulli of probabilities; with `p`, the values of the tensor play no part."""
    if len(args) > 1 or "p" in kwargs:
        return args, kwargs, None
    return _chance(0, "input")(args, kwargs, level)


def _shares(args: Args, kwargs: Kwargs, level: Level) -> Mended:
    """torch.multinomial: rows of finite numbers that are not negative, with a sum above 0."""
    values = _values(args, kwargs, 0, "input", level)
    if values is None or not values.ndim:
        return args, kwargs, None
    proper = (values.isfinite() & (values >= 0)).all(-1, keepdim=True) & (values.sum(-1, keepdim=True) > 0)
    even = torch.where(proper, values, 1.0)
    return *exchanged(args, kwargs, 0, "input", even), level.marked(~proper)


def _rates(args: Args, kwargs: Kwargs, level: Level) -> Mended:
    """torch.poisson: rates are finite and not negative."""
    values = _values(args, kwargs, 0, "input", level)
    if values is None:
        return args, kwargs, None
    proper = values.isfinite() & (values >= 0)
    return *exchanged(args, kwargs, 0, "input", torch.where(proper, values, 0.0)), level.marked(~proper)


def _filled(args: Args, kwargs: Kwargs, level: Level) -> Mended:
    """masked_scatter: the source has a number for every true place of the mask."""
    values, mask, source = (
        given(args, {"input": kwargs.get("self"), **kwargs}, place, name)
        for place, name in enumerate(("input", "mask", "source"))
    )
    if not all(isinstance(one, Tensor) for one in (values, mask, source)) or not level.owns(mask):
        return args, kwargs, None
    whole = mask.to(torch.bool).broadcast_to(torch.broadcast_shapes(mask.shape, values.shape))
    proper = whole.sum() <= source.numel()
    return *exchanged(args, kwargs, 1, "mask", mask.to(torch.bool) & proper), level.marked(~proper)


MENDS: dict[object, Mend] = {
    F.binary_cross_entropy: _chances,
    torch.bernoulli: _coins, Tensor.bernoulli: _coins, Tensor.bernoulli_: _chance(1, "p"),
    torch.multinomial: _shares, Tensor.multinomial: _shares, torch.poisson: _rates,
    torch.masked_scatter: _filled, Tensor.masked_scatter: _filled, Tensor.masked_scatter_: _filled,
}  # fmt: skip
"""Functions and what is done to their arguments; the result names the records that were changed."""
