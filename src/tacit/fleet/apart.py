"""User code in a fleet that could see several records, or several models, at once, or point beyond a table.

A module that a fleet has no rules for runs inside `vmap`, over models and over records. There its code sees one record.
Torch hands all of them to some code nevertheless (`clip/capture/onlookers.py`), and computes a few operations once for
all. Private training of a single model then runs one record at a time. A fleet does not, and refuses such a model.

`vmap` puts the tables of all models into one. An index beyond a model's own table would read, and train, a row of the
next model's. So every index is moved inside its table before it is used, and the record that brought it is marked.
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
from ..train.clip.capture.watch import flat
from .indexing import takes_positions


class Apart(TorchFunctionMode):
    """Looks at every operation of a model inside `vmap`; `outside`: whether the record brought an index too large."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
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
        result = func(*args, **kwargs)
        if not gives_shape(func):
            given = frozenset().union(*map(_levels, tensors))
            if any(given - _levels(tensor) for tensor in flat((result,), {})):
                raise _refused(f"Torch computes {name_of(func)} once for all records together")
        return result


@contextmanager
def apart() -> Iterator[Apart]:
    """A model's operations are looked at here, and rules for `vmap` that are not torch's are refused."""
    with without_rules(), Apart() as looking:
        yield looking


def _levels(tensor: Tensor) -> frozenset[int]:
    """The levels of `vmap` in which a tensor has a value for each record or model."""
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
