"""Repeat a batch without the records that made it fail, such that all other records are computed exactly as before.

A record whose gradient is not finite, or at whose values an operation raises, contributes nothing. Leaving it out must
not change the contributions of the others, not even by rounding. Computing them in another way (eager instead of
compiled, one at a time instead of all at once) rounds differently. The difference is small per record but affects all
of them at once: 512 equal records moved a sum in bfloat16 by 2.3 clip norms, and a unit near its threshold may even
switch off. So the same computation runs again on a batch of the same size, with a stand-in record of weight zero in
place of the failing one. The stand-in is made up, so whether it fails in turn does not depend on any other record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from .capture.made_up import made_up
from .capture.total import failing
from .sums import Clipped
from .tree import mapped, tensors

PUBLIC, TRIES = 4, 16
"""How many stand-ins are made up, and how many are tried in all. With dropout a stand-in may fail by chance; if all
made-up ones do, rows of the batch that do not fail are used.
"""


@dataclass(frozen=True, eq=False)
class Failed:
    """A run without a result. `places` (B,) are the rows that caused it, where known; `found` is what it returned."""

    places: Tensor | None = None
    found: Clipped | None = None


Alike = Callable[[], AbstractContextManager[None]]
Tried = Callable[[Any, Tensor], Clipped | Failed]


def repeated(tried: Tried, runs: Callable[[Any], bool], batch: object, mask: Tensor, alike: Alike) -> Clipped | None:
    """The clipped sum without the records that fail; None if something else fails, or stand-ins keep failing.

    `tried(batch, mask)` is the computation; `runs(batch)` says whether it raises for no record. Both get the same
    random numbers every time, which `alike` restores: those of the run that failed. With fresh numbers, one failing
    record would give every other record a second chance to fail.
    """
    out, first, turn = torch.zeros_like(mask), None, 0
    while turn < TRIES:
        instead = _standing_in(batch, mask & ~out, turn)
        rows = replaced(batch, out, instead)
        with alike():
            found = tried(rows, mask & ~out)
        if isinstance(found, Clipped):
            return told(found, first, out & mask)
        first = first or found.found
        places = _sought(runs, alike, rows, instead, mask) if found.places is None else found.places
        if not bool(places.any()):
            return None
        turn += not bool((places & ~out).any())
        out = out | places
        if first is not None and not bool((mask & ~out).any()):
            return _nothing(first)
    return None


def _sought(runs: Callable[[Any], bool], alike: Alike, rows: object, instead: object, mask: Tensor) -> Tensor:
    """The rows that make a run raise, tested with stand-ins in place of others; none if the stand-ins raise too."""

    def go(kept: Tensor) -> bool:
        with alike():
            return runs(replaced(rows, ~kept, instead))

    if not go(torch.zeros_like(mask)):
        return torch.zeros_like(mask)
    return failing(go, len(mask), mask.device)


def replaced(batch: object, out: Tensor, instead: object) -> Any:
    """The batch with the single row of `instead` in place of all rows marked `out`."""
    index = torch.where(out, len(out), torch.arange(len(out), device=out.device))
    given = iter(tensors(instead))
    return mapped(lambda tensor: torch.cat((tensor, next(given))).index_select(0, index.to(tensor.device)), batch)


def _standing_in(batch: object, good: Tensor, turn: int) -> object:
    """A stand-in row for those that fail, a new one every turn: made up at first, later one of the `good` rows."""
    places = good.nonzero().flatten().tolist() if turn >= PUBLIC else []
    if not places:
        return made_up(batch, 1, turn)
    place = places[turn % len(places)]
    return mapped(itemgetter(slice(place, place + 1)), batch)


def _nothing(found: Clipped) -> Clipped:
    """Zero sums, for a batch without any remaining record."""
    sums = {name: torch.zeros_like(total) for name, total in found.sums.items()}
    return replace(found, sums=sums, norms=torch.full_like(found.norms, torch.inf))


def told(found: Clipped, first: Clipped | None, out: Tensor) -> Clipped:
    """The result of the last run; records that were left out get an infinite norm and the loss of the `first` run."""
    losses = torch.full_like(found.losses, torch.nan) if first is None else first.losses
    return replace(found, norms=torch.where(out, torch.inf, found.norms), losses=torch.where(out, losses, found.losses))


def drawn_alike(device: torch.device) -> Alike:
    """A context that makes torch draw, each time it is entered, the numbers that it would draw now."""
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
