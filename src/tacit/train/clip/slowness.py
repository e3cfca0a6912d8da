"""Measure, on made-up records, how much slower one record at a time is: a number for warnings only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .capture.made_up import made_up, same_random
from .capture.probe import Structure
from .capture.ranges import InRange
from .tree import mapped, tensors

if TYPE_CHECKING:
    from .clipper import Clipper

RECORDS = 8
AT_ONCE, PLAIN = "all records at once", "a plain batch"


@dataclass(frozen=True)
class Slowness:
    """One record at a time takes `factor` times what `against` takes, for `RECORDS` records."""

    factor: float
    against: str

    def __str__(self) -> str:
        return f"{self.factor:.2g} times the time of {self.against}, for {RECORDS} records"


def measured(clipper: Clipper, batch: object) -> Slowness | None:
    """The time of one record at a time, relative to all at once, or to a plain batch if that fails; None if both do."""
    examples = made_up(batch, RECORDS)
    mask = torch.ones(RECORDS, dtype=torch.bool, device=tensors(examples)[0].device)
    with same_random(), InRange():
        alone = _seconds(lambda: clipper.alone(examples, mask))
        around = clipper.around()
        known = clipper.structures.values()
        at_once = Structure() if not known or not all(one.together for one in known) else next(iter(known))
        ways: dict[str, Callable[[], Any]] = {
            AT_ONCE: lambda: clipper.together(examples, mask, at_once),
            PLAIN: lambda: _plain(clipper, examples),
        }
        for against, way in ways.items():
            try:
                other = _seconds(lambda way=way: around.run(0, way))  # type: ignore[misc]
            except Exception:  # user code that does not run in this way
                continue
            return Slowness(alone / max(other, 1e-9), against)
    return None


def _plain(clipper: Clipper, examples: object) -> None:
    """Forward and backward of an ordinary batch."""
    with torch.enable_grad():
        losses = clipper.losses(mapped(torch.clone, examples))
        torch.autograd.grad(losses.sum(), list(clipper.parameters.values()), allow_unused=True)


def _seconds(run: Callable[[], object]) -> float:
    """The time of the second run: the first may have to load code."""
    run()
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
