"""Charge, then draw, then store, then return: the one path by which every release leaves this room."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import (
    Adjacency,
    Answer,
    AnswerStore,
    BadInput,
    Charger,
    Event,
    Mismatch,
    Receipt,
    Scoped,
    Source,
    check,
    source,
)
from ..core.answer import DATA_DEPENDENT, Value
from ..core.errors import Argument
from ..core.json_text import parsed

Random = Source | int | np.random.Generator | None
Error = float | NDArray[np.float64] | None
UNCHARGED = "no ledger was charged: other releases from the same data add to this one"
SEEDED = "drawn from a seed: an experiment, not a private release"


def check_ledger(ledger: object) -> None:
    """Refuse what cannot be charged."""
    if isinstance(ledger, str | os.PathLike):
        raise BadInput("ledger is an open ledger, not the place of one.", fix="Give tacit.Ledger(place).")
    if ledger is not None and not callable(getattr(ledger, "charge", None)):
        raise BadInput(f"ledger must be an open ledger, got {check.told(ledger)}.", fix="Give tacit.Ledger(place).")


@dataclass(frozen=True)
class Account:
    """A ledger together with who asks and what for: `laplace(..., ledger=Account(ledger, analyst="ann"))`."""

    ledger: Charger
    purpose: str = ""
    analyst: str = ""

    def __post_init__(self) -> None:
        check_ledger(self.ledger)
        if self.ledger is None:
            raise BadInput("An account needs the ledger that it pays from.", fix="Give tacit.Ledger(place).")

    def charge(self, event: Event, *, key: str, purpose: str = "", analyst: str = "") -> Receipt:
        """Charge the ledger, with this purpose and analyst where they are set."""
        return self.ledger.charge(event, key=key, purpose=self.purpose or purpose, analyst=self.analyst or analyst)


@dataclass(frozen=True)
class Terms:
    """How a release is paid for, drawn and judged.

    `adjacency` None means that of the ledger, or add-remove where there is none.
    """

    ledger: Charger | None = None
    key: str | None = None
    rng: Random = None
    adjacency: Adjacency | str | None = None

    def __post_init__(self) -> None:
        check_ledger(self.ledger)
        if self.rng is not None and not isinstance(self.rng, np.random.Generator):  # of which nothing is drawn yet
            source(self.rng)

    @property
    def neighbours(self) -> Adjacency:
        """The adjacency under which epsilon will hold. Raises Mismatch when the budget counts another one."""
        scope = behind(self.ledger)[0]
        if scope is None or not isinstance(scope, Scoped):
            return Adjacency.ADD_REMOVE if self.adjacency is None else Adjacency.of(self.adjacency)
        counted = Adjacency.of(scope.adjacency)
        if self.adjacency is not None and Adjacency.of(self.adjacency) is not counted:
            raise Mismatch(
                f"The ledger counts {counted.value} neighbours and the release is for {self.adjacency}.",
                fix="Leave adjacency out: the ledger's is taken.",
            )
        return counted

    def of_public_size(self, records: str) -> Terms:
        """The terms of a release that shows how many records there are: under replace, unless told otherwise.

        Neighbours by adding or removing a record differ in that number, so no epsilon holds for them.
        """
        if self.adjacency is None and self.ledger is None:
            return replace(self, adjacency=Adjacency.REPLACE)
        if self.neighbours is Adjacency.ADD_REMOVE:
            raise BadInput(
                f"The number of {records} is public here, so nothing is proven for add-remove neighbours.",
                fix='Use adjacency="replace", and a ledger that counts so.',
            )
        return self


@dataclass(frozen=True)
class Offer:
    """What a release will be, before any data are touched: its event and its error are public."""

    release: str
    event: Event
    adjacency: Adjacency
    error: Error = None
    confidence: float = 0.95
    trust: str = "central"
    notes: tuple[str, ...] = ()
    asked: tuple[object, ...] = ()
    """Public settings that the event does not name, such as bounds: a key is for one question."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", check.probability("confidence", self.confidence, zero=False, one=False))

    def drawn(self, draw: Callable[[Source], Value], terms: Terms) -> Answer:
        """Charge the event, call `draw`, keep its value under the key, and return the answer that is kept.

        A key that was answered before gives that answer again, and nothing is drawn.
        """
        ledger, key = terms.ledger, terms.key
        if ledger is None:
            if key is not None:
                raise BadInput(
                    (Argument("key"), " needs a ledger that keeps its answer."),
                    fix=("Give ", Argument("ledger"), ", or leave ", Argument("key"), " out."),
                )
            return self._answer(draw, terms, None)
        memory = behind(ledger)[0]
        if key is not None and not isinstance(memory, AnswerStore):
            raise BadInput(
                "This ledger keeps no answers, so the same key would be drawn twice for one charge.",
                fix="Leave key out: every release is then charged.",
            )
        own = f"{self.release}-{os.urandom(16).hex()}" if key is None else key
        receipt = ledger.charge(self.event, key=own, purpose=self.release)
        if key is None or not isinstance(memory, AnswerStore):
            return self._answer(draw, terms, receipt)
        kept = memory.stored(key)
        if kept is None:
            kept = memory.store(key, self._answer(draw, terms, receipt).text())
        return self._same(Answer.from_json(parsed(kept, "The answer", most=math.inf)))  # its own: as long as it is

    def _answer(self, draw: Callable[[Source], Value], terms: Terms, receipt: Receipt | None) -> Answer:
        chance = source(terms.rng)
        notes = self.notes if self.error is not None or DATA_DEPENDENT in self.notes else (*self.notes, DATA_DEPENDENT)
        notes += ((UNCHARGED,) if terms.ledger is None else ()) + (() if chance.cryptographic else (SEEDED,))
        return Answer(
            value=draw(chance),
            event=self.event,
            release=self.release,
            error=self.error,
            confidence=self.confidence,
            adjacency=self.adjacency,
            receipt=receipt,
            trust=self.trust,
            randomness=chance.name,
            notes=notes,
            asked="" if terms.key is None else self.digest,
        )

    @cached_property
    def digest(self) -> str:
        """A short text that differs where the settings do; none where there are none."""
        return hashlib.sha256(repr(self.asked).encode("utf-8", "replace")).hexdigest()[:16] if self.asked else ""

    def _same(self, answer: Answer) -> Answer:
        if (answer.release, answer.event) != (self.release, self.event):
            raise Mismatch(
                f"The key was used for another release ({answer.release}).", fix="Choose a key of its own for each."
            )
        if answer.asked and answer.asked != self.digest:
            raise Mismatch(
                f"The key was used for {answer.release} with other settings.", fix="Choose a key of its own for each."
            )
        return replace(answer)


def behind(ledger: Any, purpose: str = "", analyst: str = "") -> tuple[Any, str, str]:
    """The ledger behind accounts, with the purpose and the analyst that it is charged for; a ledger is its own."""
    while isinstance(ledger, Account):
        purpose, analyst, ledger = ledger.purpose or purpose, ledger.analyst or analyst, ledger.ledger
    return ledger, purpose, analyst
