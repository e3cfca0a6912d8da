"""Keep records and models apart inside `vmap`: refuse code that could see several at once, and bound every index.

A module that a fleet has no rules for runs inside `vmap`, over models and over records, so its code sees one record.
There are exceptions (`clip/capture/onlookers.py`): torch hands the tensors of all records to some user code, and
computes a few operations once for all records. In private training of a single model such code runs one record at a
time. A fleet cannot do that, so it refuses the model.

`vmap` concatenates the embedding tables of all models. An index beyond the end of one model's table would therefore
read, and train, a row of the next model's table. So every index is clamped into its own table first, and the record
that held it is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch as C
from torch.overrides import TorchFunctionMode

from ..core.errors import BadInput
from ..train.clip.capture.errors import own_rule
from ..train.clip.capture.functions import gives_shape, name_of, own_vmap_rule
from ..train.clip.capture.nested import without_rules
from ..train.clip.capture.onlookers import onlooker
from ..train.clip.capture.ranges import ONE_RECORD, bounded
from ..train.clip.capture.unwritten import called
from ..train.clip.capture.watch import flat
from .indexing import takes_positions


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Torch's `vmap` rule for `torch.prelu` takes models for records where there are as many of both."""
    by_channel = weight.numel() != 1 and input.dim() > 1
    slope = weight.view(-1, *(1,) * (input.dim() - 2)) if by_channel else weight
    return torch.where(input > 0, input, slope * input)


OF_OURS: dict[Any, Any] = {torch.prelu: prelu}


class Apart(TorchFunctionMode):
    """A torch function mode that inspects every operation of a model inside `vmap`.

    `outside` is true if the record held an index beyond the end of a table.
    """

    def __init__(self) -> None:
        super().__init__()
        self.outside: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        kwargs = kwargs or {}
        tensors = list(flat(args, kwargs))
        if what := onlooker(func, tensors):
            raise _refused(f"It uses {what}")
        if name := own_vmap_rule(func):
            raise own_rule(name)
        if isinstance(func, torch._ops.OpOverload | torch._ops.OpOverloadPacket) and takes_positions(name_of(func)):
            raise _refused(f"It calls the operator {name_of(func)} by torch.ops, which does not look at indices")
        args, kwargs, off = bounded(func, args, kwargs, ONE_RECORD)
        if off is not None:
            self.outside = off if self.outside is None else self.outside | off
        result = called(OF_OURS.get(func, func), args, kwargs)
        if not gives_shape(func):
            given = frozenset().union(*map(_levels, tensors))
            if any(given - _levels(tensor) for tensor in flat((result,), {})):
                raise _refused(f"Torch computes {name_of(func)} once for all records together")
        return result


@contextmanager
def apart() -> Iterator[Apart]:
    """Inspect a model's operations in this context, and refuse `vmap` rules that do not come from torch."""
    with without_rules(), Apart() as looking:
        yield looking


def _levels(tensor: Tensor) -> frozenset[int]:
    """The `vmap` levels at which a tensor is batched: those where it has one value per record or per model."""
    found = set()
    while C.is_functorch_wrapped_tensor(tensor):
        if C.is_batchedtensor(tensor):
            found.add(C.maybe_get_level(tensor))
        tensor = C.get_unwrapped(tensor)
    return frozenset(found)


def _refused(what: str) -> BadInput:
    return BadInput(
        f"{what}, so a fleet cannot clip the records of this model one by one.",
        fix="Leave it out of the model, or train single models by tacit.private, which runs one record at a time.",
    )
