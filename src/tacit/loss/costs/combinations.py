"""What events made of other events cost: counts add up, and a selection has a Renyi curve of its own."""

from __future__ import annotations

import numpy as np

from ...core.adjacency import Adjacency
from ...core.errors import Unsupported
from ...core.events import Compose, OneOf, Repeat, RepeatAndSelect
from ..composed import Composed
from ..noise import Array
from ..renyi import Renyi
from ..selection import selected
from .registry import loss_of


@loss_of.register
def _(event: Repeat, adjacency: Adjacency, group: int) -> Composed:
    return event.steps * loss_of(event.event, adjacency, group)


@loss_of.register
def _(event: Compose, adjacency: Adjacency, group: int) -> Composed:
    return Composed.of([loss_of(part, adjacency, group) for part in event.events])


@loss_of.register
def _(event: OneOf, adjacency: Adjacency, group: int) -> Composed:
    r"""D_a(sum_i w_i P_i || sum_i w_i Q_i) <= max_i D_a(P_i || Q_i), also where i is told, whatever the weights are.

    Reference: van Erven and Harremoes 2014, Renyi divergence, Theorem 13 (joint quasi-convexity).
    """
    losses = [loss_of(part, adjacency, group) for part in dict.fromkeys(event.events)]
    if len(losses) == 1:
        return losses[0]

    def largest(tilts: Array) -> Array:
        return np.asarray(np.max([loss.renyi(tilts) for loss in losses], axis=0))

    return Composed(curves=((Renyi(f"{event} under {adjacency}", (float(group),), largest), 1),))


@loss_of.register
def _(event: RepeatAndSelect, adjacency: Adjacency, group: int) -> Composed:
    """Renyi bounds for the best of K runs. Reference: Papernot and Steinke 2022, Theorems 2 and 6."""
    if group > 1:
        raise Unsupported(event, adjacency, fix="Groups are supported under Poisson sampling.")
    inner = loss_of(event.event, adjacency, 1)
    return Composed(curves=((selected(event, inner, adjacency), 1),))
