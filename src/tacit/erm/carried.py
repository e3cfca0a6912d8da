"""The ledger of a fitted model in a pickle or a copy: the model loads where its ledger cannot be opened."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import NoReturn, Self

from ..core import BadInput, Charger, Event, TacitError

CANNOT = (TacitError, OSError, ImportError)
"""What opening a ledger raises where its file, its server or its library is missing."""


class Carried:
    """A ledger on its way, pickled apart from the model."""

    def __init__(self, ledger: Charger | None) -> None:
        self.ledger = ledger

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return type(self)(copy.deepcopy(self.ledger, memo))

    def __reduce__(self) -> tuple[Callable[[bytes], Carried], tuple[bytes]]:
        return _arrived, (pickle.dumps(self.ledger),)


class Elsewhere:
    """Stands for a ledger that could not be opened. It refuses every charge: a fit would go unpaid without it."""

    def __init__(self, held: bytes, why: str) -> None:
        self._held, self._why = held, why

    def charge(self, event: Event, *, key: str, purpose: str = "", analyst: str = "") -> NoReturn:
        raise BadInput(
            f"The ledger that this model was charged to could not be opened when the model was loaded: {self._why}",
            fix="Load the model again where the ledger is, or set ledger= to another.",
        )

    def __repr__(self) -> str:
        return "a ledger that is not here"

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        return _opened, (self._held,)


def _arrived(held: bytes) -> Carried:
    return Carried(_opened(held))


def _opened(held: bytes) -> Charger | None:
    try:
        found: Charger | None = pickle.loads(held)
    except CANNOT as error:
        return Elsewhere(held, str(error))
    return found
