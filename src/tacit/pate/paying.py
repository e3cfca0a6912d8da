"""Paying for votes: one teacher's vote moves under every adjacency, so a charge is made in the ledger's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from ..core import Adjacency, BadInput, Charger, Event, Mismatch, Receipt, Scoped
from ..mechanism.charging import behind

NAME = "PATE"


def paid(ledger: Charger | None, event: Callable[[Adjacency], Event], unit: str) -> Receipt | None:
    """Charge `event` of the adjacency that the ledger counts.

    The noise multipliers of an event are doubled under replace, to say that one vote moves: charged as add-remove, such
    an event would cost half. A ledger that does not say what it counts is charged the add-remove event, the dearest.
    Raises Mismatch where the ledger counts another unit.
    """
    if ledger is None:
        return None
    counted, key = check_unit(ledger, unit), f"pate-{secrets.token_hex(16)}"
    if isinstance(ledger, Scoped):
        return ledger.charge(event(counted), key=key, purpose=NAME, adjacency=counted, unit=unit)
    return ledger.charge(event(counted), key=key, purpose=NAME)


def check_unit(ledger: Charger, unit: str) -> Adjacency:
    """The adjacency that a ledger counts, if it counts this unit."""
    if not callable(getattr(ledger, "charge", None)):
        raise BadInput(f"ledger must be a ledger, got {type(ledger).__name__}.", fix='Give tacit.Ledger("budget.db").')
    scope = behind(ledger)[0]
    if not isinstance(scope, Scoped):
        return Adjacency.ADD_REMOVE
    if scope.unit != unit:
        fix = "Give `users`, or a schema that names the unit." if unit == "record" else "Open a ledger for this unit."
        raise Mismatch(f"The run counts for one {unit}, and the ledger for one {scope.unit}.", fix=fix)
    return Adjacency.of(scope.adjacency)
