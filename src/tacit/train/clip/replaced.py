"""Run a batch again without the records that made it fail, such that all others are computed as they were.

A record whose gradient is not finite, or at whose values an operation raises, contributes nothing. Leaving it out must
not change what the others contribute, not even by rounding. Another way of computing them (eager in place of compiled,
one at a time in place of all at once) rounds otherwise. The difference is small for each record, but all of them have
it at once: 512 equal records moved a sum in bfloat16 by 2.3 clip norms. A unit that is barely on may even go off. So
the same computation runs again on a batch of the same size, in which another record stands in the failing one's place,
with weight zero. That record is made up, so that whether it fails in its turn depends on no other record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from .capture.probe import made_up
from .capture.total import failing
from .sums import Clipped
from .tree import mapped, tensors

PUBLIC, TRIES = 4, 16
"""How many stand-ins are tried, and how many of them are made up. With dropout, one may fail in some place; should all
of the made-up ones do so, rows of the batch that do not fail are taken."""


@dataclass(frozen=True, eq=False)
class Failed:
    """A run without a result. `places`, (B,): because of which rows, where that is known; `found`: what it gave."""

    places: Tensor | None = None
    found: Clipped | None = None


Alike = Callable[[], AbstractContextManager[None]]
Tried = Callable[[Any, Tensor], Clipped | Failed]


def repeated(tried: Tried, runs: Callable[[Any], bool], batch: Any, mask: Tensor, alike: Alike) -> Clipped | None:
    """The clipped sum without the records that fail; None where something else fails, or stand-ins go on failing.

    `tried(batch, mask)` is the computation; `runs(batch)` says whether it raises at no record. Both are given the same
    random numbers every time, those that `alike` brings back. They are the numbers of the run that failed: with others,
    every record would have been given two chances to fail because one did.
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


def _sought(runs: Callable[[Any], bool], alike: Alike, rows: Any, instead: Any, mask: Tensor) -> Tensor:
    """Which rows make a run raise, with stand-ins in the places of others; none if the stand-ins make it raise."""

    def go(kept: Tensor) -> bool:
        with alike():
            return runs(replaced(rows, ~kept, instead))

    if not go(torch.zeros_like(mask)):
        return torch.zeros_like(mask)
    return failing(go, len(mask), mask.device)


def replaced(batch: Any, out: Tensor, instead: Any) -> Any:
    """The batch with the one row of `instead` in the place of all rows that are `out`."""
    index = torch.where(out, len(out), torch.arange(len(out), device=out.device))
    given = iter(tensors(instead))
    return mapped(lambda tensor: torch.cat((tensor, next(given))).index_select(0, index.to(tensor.device)), batch)


def _standing_in(batch: Any, good: Tensor, turn: int) -> Any:
    """A row that stands in for those that fail, another one in every turn: made up, or later one that is `good`."""
    places = good.nonzero().flatten().tolist() if turn >= PUBLIC else []
    if not places:
        return made_up(batch, 1, turn)
    place = places[turn % len(places)]
    return mapped(itemgetter(slice(place, place + 1)), batch)


def _nothing(found: Clipped) -> Clipped:
    """Zero sums, for a batch in which no record is left."""
    sums = {name: torch.zeros_like(total) for name, total in found.sums.items()}
    return replace(found, sums=sums, norms=torch.full_like(found.norms, torch.inf))


def told(found: Clipped, first: Clipped | None, out: Tensor) -> Clipped:
    """What the last run gave. Records that were left out have an infinite norm, and the loss of the `first` run."""
    losses = torch.full_like(found.losses, torch.nan) if first is None else first.losses
    return replace(found, norms=torch.where(out, torch.inf, found.norms), losses=torch.where(out, losses, found.losses))


def drawn_alike(device: torch.device) -> Alike:
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
