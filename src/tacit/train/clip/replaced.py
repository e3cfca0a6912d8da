"""Run a batch again without the records that made it fail, such that all others are computed as they were.

A record whose gradient is not finite, or at whose values user code raises, contributes nothing. Leaving it out must not
change what the others contribute, not even by rounding. Another way of computing them (eager in place of compiled, one
at a time in place of all at once) rounds otherwise. The difference is small for each record, but all of them have it at
once: 512 equal records moved a sum in bfloat16 by 2.3 clip norms. A unit that is barely on may even go off. So the same
computation runs again on a batch of the same size, in which another record stands in the failing one's place, with
weight zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .sums import Clipped
from .tree import mapped

TRIES = 16
"""Runs at most: with dropout, a record may fail in one place and not in another."""


Tried = Callable[[Any, Tensor, bool], Clipped | None]


def repeated(tried: Tried, raising: Callable[[], Clipped], batch: Any, mask: Tensor) -> Clipped | None:
    """The clipped sum without the records that fail; None where some go on failing.

    `tried(batch, mask, exact)` is the computation, with sums in float64 if `exact`: None where it raises, and norms of
    NaN where sums must be exact. It is given the same random numbers every time. `raising()` gives infinite norms to
    the records that raise.
    """
    alike, out, exact, first, rows = drawn_alike(mask.device), torch.zeros_like(mask), False, None, batch
    for turn in range(TRIES):
        with alike():
            found = tried(rows, mask & ~out, exact)
        if found is not None and bool(found.norms.isnan().any()):
            exact = True
            continue
        first = first or found or raising()
        failing = ~(mask & first.norms.isfinite()) if found is None else ~found.norms.isfinite()
        if found is not None and not bool(failing.any()):
            return told(found, first, out & mask)
        by = standing_in(~(out | failing), turn)
        if by is None:
            return nothing(first)
        out = out | failing
        rows = replaced(batch, out, by)
    return None


def replaced(batch: Any, out: Tensor, by: int) -> Any:
    """The batch with row number `by` in the place of all rows that are `out`."""
    index = torch.where(out, by, torch.arange(len(out), device=out.device))
    return mapped(lambda tensor: tensor.index_select(0, index.to(tensor.device)), batch)


def standing_in(good: Tensor, turn: int = 0) -> int | None:
    """The number of a `good` row, another one in every turn; None where there is none."""
    places = good.nonzero().flatten().tolist()
    return places[turn % len(places)] if places else None


def nothing(found: Clipped) -> Clipped:
    """Zero sums, for a batch in which no record is left."""
    sums = {name: torch.zeros_like(total) for name, total in found.sums.items()}
    return replace(found, sums=sums, norms=torch.full_like(found.norms, torch.inf))


def told(found: Clipped, first: Clipped, out: Tensor) -> Clipped:
    """What a second run gave; for the records that were left out, the loss that they had, and an infinite norm."""
    norms = torch.where(out, torch.inf, found.norms)
    return replace(found, norms=norms, losses=torch.where(out, first.losses, found.losses))


def drawn_alike(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """A context in which torch draws the numbers that it would draw now, as often as it is entered."""
    state = torch.get_rng_state()
    generator = torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else None
    there = None if generator is None else generator.get_state()

    @contextmanager
    def again() -> Iterator[None]:
        torch.set_rng_state(state)
        if generator is not None and there is not None:
            generator.set_state(there)
        yield

    return again
