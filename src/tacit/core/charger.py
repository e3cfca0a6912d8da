"""What a mechanism sees of a budget: a place to pay before it draws."""

from __future__ import annotations

from typing import Any, Protocol

from .events import Event


class Charger(Protocol):
    """Charge, then draw. The same key never pays twice; a charge that does not fit raises BudgetExceeded."""

    def charge(self, event: Event, *, key: str, purpose: str = "", analyst: str = "") -> Any: ...
