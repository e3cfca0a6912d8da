"""What an event costs: the entry to the registry of `costs`, open to new events by `@loss_of.register`."""

from __future__ import annotations

from ..core import check
from ..core.adjacency import Adjacency
from ..core.errors import BadInput
from ..core.events import Event
from ..core.privacy_loss import PrivacyLoss
from .costs import loss_of as loss_of
from .costs import once as once


def privacy_loss(event: Event, adjacency: Adjacency | str, *, group: int = 1) -> PrivacyLoss:
    """What `event` costs when data sets differ in `group` records under `adjacency`.

    Guarantee: every reading of the result is an interval that holds the true value.
    """
    if not isinstance(event, Event):
        raise BadInput(
            f"privacy_loss needs an event, got {type(event).__name__}.",
            fix="Several releases are one event: Compose((first, second)).",
        )
    group = check.whole("group", group)
    try:
        return loss_of(event, Adjacency.of(adjacency), group)
    except (OverflowError, ZeroDivisionError):
        raise BadInput("This event has numbers too large or too small to compute with.") from None
