"""Who is a neighbour of whom."""

from __future__ import annotations

from enum import StrEnum

from .check import told
from .errors import BadInput


class Adjacency(StrEnum):
    """Which pairs of data sets must be hard to tell apart.

    ADD_REMOVE: one record more or less. REPLACE: one record exchanged for another, sizes equal.
    ZERO_OUT: one record exchanged for a null record that contributes nothing.

    `noise_multiplier` is always noise / clip_norm; `sensitivity` counts clip norms.
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"
    ZERO_OUT = "zero-out"

    @property
    def sensitivity(self) -> float:
        """Largest change of a sum of vectors of norm at most 1."""
        return 2.0 if self is Adjacency.REPLACE else 1.0

    @classmethod
    def of(cls, name: Adjacency | str) -> Adjacency:
        """Accept the enum or its string."""
        try:
            return cls(name)
        except (TypeError, ValueError):
            choices = ", ".join(member.value for member in cls)
            raise BadInput(f"Adjacency {told(name)} is not known.", fix=f"Use one of: {choices}.") from None
