"""What events made of other events cost: counts add up, and a selection has a Renyi curve of its own."""

from __future__ import annotations

from ...core.adjacency import Adjacency
from ...core.errors import Unsupported
from ...core.events import Compose, Repeat, RepeatAndSelect
from ..composed import Composed
from ..selection import selected
from .registry import loss_of


@loss_of.register
def _(event: Repeat, adjacency: Adjacency, group: int) -> Composed:
    return event.steps * loss_of(event.event, adjacency, group)


@loss_of.register
def _(event: Compose, adjacency: Adjacency, group: int) -> Composed:
    total = Composed()
    for part in event.events:
        total = total + loss_of(part, adjacency, group)
    return total


@loss_of.register
def _(event: RepeatAndSelect, adjacency: Adjacency, group: int) -> Composed:
    """Renyi bounds for the best of K runs. Reference: Papernot and Steinke 2022, Theorems 2 and 6."""
    if group > 1:
        raise Unsupported(event, adjacency, fix="Groups are supported under Poisson sampling.")
    inner = loss_of(event.event, adjacency, 1)
    return Composed(curves=((selected(event, inner, adjacency), 1),))
