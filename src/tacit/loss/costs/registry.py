r"""The open registry of costs: one short function per event, added by `@loss_of.register`.

A function there returns the dominating pairs its theorem gives for the event under the adjacency and raises
`Unsupported` where there is no theorem. Counts are the business of `Repeat` and `Compose` alone.
"""

from __future__ import annotations

from fractions import Fraction
from functools import singledispatch

from ...core.adjacency import Adjacency
from ...core.errors import Unsupported
from ...core.events import Event
from ..composed import Composed, Release


@singledispatch
def loss_of(event: Event, adjacency: Adjacency, group: int) -> Composed:
    """What `event` costs; the functions registered here answer for their kind of event."""
    raise Unsupported(event, adjacency)


def once(release: Release) -> Composed:
    """One release, composed with nothing."""
    return Composed(((release, 1),))


def written(number: float) -> Fraction:
    """A number as it is written: 0.1 is one tenth."""
    return Fraction(repr(float(number)))
