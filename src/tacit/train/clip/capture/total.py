"""Handle operations that raise at the values of some records: find the records, and return a result so that the code
can continue.

An operation on all records raises for all of them even if the values of one are the cause (a matrix without a Cholesky
factor, a probability above 1). If user code saw that exception, it would stop or branch there. State that it meant to
restore after the operation would then stay changed for all later records:

    model.eval(); root = torch.linalg.cholesky(matrix); model.train()

So no exception that values cause reaches user code. Instead the operation is tried with constants in place of the
values of all records. If it raises with every constant, the values are not the cause, and the exception propagates.
Otherwise the code continues with the result for the constants, and the pass is discarded at its end. It is repeated
without the records at whose values the operation raises (`clip/replaced.py`). This works for any operation; there is no
list of them.
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

Run = Callable[[dict[int, Tensor]], object]
"""Runs an operation with some tensors replaced, given by their identity."""
CONSTANTS: tuple[float | None, ...] = (None, 1.0, 0.0, 64.0)
"""Values tried in place of records' values; None is the identity matrix along the last two axes."""


def holds_records(tensor: Tensor, level: Level) -> bool:
    """Whether a tensor contains per-record values, below the `torch.func` levels that user code has entered."""
    while C.is_functorch_wrapped_tensor(tensor):
        if C.is_batchedtensor(tensor) and C.maybe_get_level(tensor) == level.number:
            return True
        tensor = C.get_unwrapped(tensor)
    return False


def by_values(error: Exception) -> bool:
    """Whether values may have caused an exception: not for one of ours, out of memory, or during tracing."""
    ours = isinstance(error, Overwritten | Remembered | TacitError)
    return not ours and not stops(error) and detect_fake_mode() is None


def with_constants(run: Run, own: Sequence[Tensor], level: Level) -> tuple[object, Callable[[Tensor], bool]] | None:
    """The result of an operation for constants, and a test whether it runs for the records that a mask keeps.

    None if values did not cause the exception: the operation raises for all constants, or no longer raises for these
    values (memory layout may have been the cause).
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


def _succeeds(run: Callable[[Tensor], object], kept: Tensor) -> bool:
    try:
        run(kept)
    except Exception as error:
        if stops(error):
            raise
        return False
    return True


def _instead(tensor: Tensor, kept: Tensor, constant: float | None, level: Level) -> Tensor:
    """The tensor with the values of `kept` records, and a constant for all others."""
    fill = torch.ones((), dtype=tensor.dtype, device=tensor.device)
    if constant is None and tensor.ndim > 1:
        fill = torch.eye(tensor.shape[-2], tensor.shape[-1], dtype=tensor.dtype, device=tensor.device)
    elif constant is not None:
        fill = fill * constant if tensor.dtype != torch.bool else fill & bool(constant)
    return torch.where(level.one(kept.to(tensor.device)), tensor.detach(), fill.to(tensor.dtype))


def failing(runs: Callable[[Tensor], bool], count: int, device: torch.device) -> Tensor:
    """A mask (count,) of the records that make something raise, found by bisection.

    `runs(kept)` says whether it succeeds with the records that are kept.
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
