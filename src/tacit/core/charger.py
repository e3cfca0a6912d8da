"""What a mechanism sees of a budget: a place to pay before it draws."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from .events import Event


class Charger(Protocol):
    """Charge, then draw. The same key never pays twice; a charge that does not fit raises BudgetExceeded."""

    def charge(self, event: Event, *, key: str, purpose: str = "", analyst: str = "") -> Any: ...


@runtime_checkable
class Fence(Protocol):
    """A Charger that also numbers the continuations of a run, so that one charge pays for one run (soundness rule 25).

    A saved state can be copied and taken up twice. Steps that are done again exactly as before release nothing new;
    steps done otherwise do. So the ledger keeps, for every key that was charged, the latest number it gave out, the
    `mark` (a hash of the released parameters) of every step that was reported, and whether the run has ended.
    """

    def fence(self, key: str, *, number: int | None, step: int, mark: str, last: bool = False) -> int:
        """Report that the run `key` is at `step` with parameters of this `mark`; returns the caller's number.

        `number` None asks for a new number, larger than all before: a run begins or goes on. Raises Mismatch when the
        run has ended, when a larger number was given out since, or when another mark was reported for this step.
        `last` ends the run.
        """
        ...
