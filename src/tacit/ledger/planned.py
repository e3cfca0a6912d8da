"""Planned composition: the events are fixed before the first release, so their exact loss may decide.

Reference: docs/proofs/ledger.md, Theorem 2: each event at most once, in any order chosen as one goes.
"""

from __future__ import annotations

from ..core.adjacency import Adjacency
from ..core.errors import BadInput, BudgetExceeded
from ..core.event import Event, check_event
from ..core.events import Compose
from ..loss.dispatch import privacy_loss
from .criteria import criteria
from .state import PLANNED, State, Terms


def planned(epsilon: float, delta: float, unit: str, adjacency: Adjacency, events: tuple[Event, ...]) -> Terms:
    """The terms of a planned ledger; a plan that does not fit raises BudgetExceeded."""
    if not events:
        raise BadInput("A planned ledger needs its events.", fix="Give events=[...], or use an adaptive ledger.")
    for event in events:
        check_event(event)
    found = privacy_loss(Compose(events), adjacency).epsilon(delta).upper
    if not found <= epsilon:
        raise BudgetExceeded(found, epsilon)
    return Terms(epsilon, delta, unit, adjacency, PLANNED, criteria(epsilon, delta), events, found)


def place_of(event: dict[str, object], terms: Terms, state: State) -> int | None:
    """The first planned event equal to this one that was not charged yet."""
    wanted = Event.from_json(event)
    free = (place for place, item in enumerate(terms.events) if place not in state.used and item == wanted)
    return next(free, None)
