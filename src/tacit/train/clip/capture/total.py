"""Operations that raise at the values of some records: which records, and a result with which the code can go on.

An operation on all records raises for all of them, though the values of one are the reason (a matrix that has no
Cholesky root, a probability above 1). If the exception reached the user's code, it would stop there, or go another way,
and what the code meant to put back behind the operation would stay changed for all later records:

    model.eval(); root = torch.linalg.cholesky(matrix); model.train()

So no exception that values cause reaches it. Constants stand in for the values of all records. If the operation raises
with each of the constants, the values are not the reason, and the exception goes on. Otherwise the code goes on with
what the constants give, and the pass is thrown away at its end. It runs again without the records at whose values the
operation raises (`clip/replaced.py`). Nothing here is a list of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch as C
from torch._guards import detect_fake_mode

from ....core import TacitError
from .errors import Overwritten, Remembered, stops
from .level import Level

Run = Callable[[dict[int, Tensor]], Any]
"""Carries out an operation with other tensors in the places of some, by their identity."""
CONSTANTS: tuple[float | None, ...] = (None, 1.0, 0.0, 64.0)
"""What stands in for the numbers of records; None: the identity matrix along the last two axes."""


def holds_records(tensor: Tensor, level: Level) -> bool:
    """Whether records' own values are in a tensor, below whatever levels user code has entered (`torch.func`)."""
    while C.is_functorch_wrapped_tensor(tensor):
        if C.is_batchedtensor(tensor) and C.maybe_get_level(tensor) == level.number:
            return True
        tensor = C.get_unwrapped(tensor)
    return False


def by_values(error: Exception) -> bool:
    """Whether values may be the reason for an exception: not for one of ours, for want of memory, or in a trace."""
    ours = isinstance(error, Overwritten | Remembered | TacitError)
    return not ours and not stops(error) and detect_fake_mode() is None


def with_constants(run: Run, own: Sequence[Tensor], level: Level) -> tuple[Any, Callable[[Tensor], bool]] | None:
    """The result of an operation at constants, and whether it runs at the values of the records that a mask keeps.

    None if values are not the reason why it raised: it raises at all of the constants, or no more at these very values
    (how a tensor lies in memory may be the reason).
    """
    for constant in CONSTANTS:

        def runs(kept: Tensor, constant: float | None = constant) -> Any:
            return run({id(tensor): _instead(tensor, kept, constant, level) for tensor in own})

        try:
            result = runs(torch.zeros(level.batch, dtype=torch.bool, device=own[0].device))
        except Exception as error:
            if not by_values(error):
                raise
            continue
        whole = torch.ones(level.batch, dtype=torch.bool, device=own[0].device)
        return None if _succeeds(runs, whole) else (result, partial(_succeeds, runs))
    return None


def _succeeds(run: Callable[[Tensor], Any], kept: Tensor) -> bool:
    try:
        run(kept)
    except Exception as error:
        if stops(error):
            raise
        return False
    return True


def _instead(tensor: Tensor, kept: Tensor, constant: float | None, level: Level) -> Tensor:
    """The tensor with the values of the records that are `kept`, and a constant for all others."""
    fill = torch.ones((), dtype=tensor.dtype, device=tensor.device)
    if constant is None and tensor.ndim > 1:
        fill = torch.eye(tensor.shape[-2], tensor.shape[-1], dtype=tensor.dtype, device=tensor.device)
    elif constant is not None:
        fill = fill * constant if tensor.dtype != torch.bool else fill & bool(constant)
    return torch.where(level.one(kept.to(tensor.device)), tensor.detach(), fill.to(tensor.dtype))


def failing(runs: Callable[[Tensor], bool], count: int, device: torch.device) -> Tensor:
    """(count,) which records make something raise: of those that do together, the halves are tried by themselves.

    `runs(kept)` says whether it goes with the records that are kept.
    """
    found = torch.zeros(count, dtype=torch.bool, device=device)
    left = [(0, count)]
    while left:
        start, end = left.pop()
        kept = torch.zeros_like(found)
        kept[start:end] = True
        if runs(kept):
            continue
        if end - start == 1:
            found |= kept
        else:
            middle = (start + end) // 2
            left += [(start, middle), (middle, end)]
    return found
