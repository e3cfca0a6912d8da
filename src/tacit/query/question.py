"""A question about a table: priced before it runs, charged before it reads, answered once for each key."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from ..core import Adjacency, BadInput, Charger, Event, Mismatch, NotFinished, Scoped, Source, check
from ..core.errors import Argument
from ..loss.conditions import conditions
from ..mechanism.charging import Offer, Random, Terms, behind
from ..mechanism.scales import each_failure
from .answer import Answer, check_titles
from .bounding import executed
from .engines import ibis
from .shape import Shape
from .total import constants

ROW_UNITS = frozenset({"row", "record"})
NOISE_ONLY = "the errors cover noise, not what bounding took away"
CHOSEN = "keys appear where a noisy number is large: those that few people hold are overestimated when they appear"
Prices = TypeVar("Prices")
"""What a kind of question pays for what."""


CALLER = (
    "a row holds facts of its own person only, also where the table is a view or was computed from others",
    "bounds, keys, edges, limits and joined tables that were given are public: chosen without looking at the data",
)
"""What no code can see of a table."""


@dataclass(frozen=True)
class Price:
    """What an answer will cost and how far it may be off; nothing was read and nothing was charged.

    `error`: of each aggregate, None where it depends on the data. `remaining`: what the ledger would still accept.
    """

    error: float | Mapping[str, float | None] | None
    event: Event
    remaining: float | None
    confidence: float = 0.95
    notes: tuple[str, ...] = ()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must be believed for the answer to cost no more than it says."""
        return assumed(self.event)


def assumed(event: Event) -> tuple[str, ...]:
    """What the theorems behind a table's answer assume, and what nobody but its caller knows."""
    return (*conditions(event), *CALLER)


@dataclass(frozen=True)
class Query(ABC, Generic[Prices]):
    """A question about a table, and the ledger that pays for its answer."""

    shape: Shape
    ledger: Charger | None = field(default=None, kw_only=True)
    confidence: float = field(default=0.95, kw_only=True)

    def __post_init__(self) -> None:
        check_titles([item.name for item in self.shape.by], list(self._asked))

    def preview(self, *, epsilon: float, delta: float = 0.0) -> Price:
        """Price the answer from public numbers: no data are read, nothing is charged."""
        found = self._prices(check.positive("epsilon", epsilon), check.delta(delta))
        errors = self._errors(found)
        single = next(iter(errors.values())) if len(errors) == 1 else errors
        remaining = left(self.ledger)
        return Price(single, self._event(found), remaining, self.confidence, self._notes(found))

    def release(self, *, epsilon: float, delta: float = 0.0, key: str | None = None, rng: Random = None) -> Answer:
        """Charge the event, read the data, add noise, keep the answer under `key`, and return it.

        The same key gives the same answer again, bit for bit and free; a key of another question is refused.
        """
        self._check_ledger()
        found = self._prices(check.positive("epsilon", epsilon), check.delta(delta))
        self._check_form(found)
        terms = Terms(self.ledger, key, rng)
        errors = list(self._errors(found).values())
        stated = max((error for error in errors if error is not None), default=None) if None not in errors else None
        offer = Offer(
            self.name, self._event(found), self._neighbours, stated, self.confidence, notes=self._notes(found)
        )
        return Answer.of(offer.drawn(lambda chance: self._drawn(found, chance), terms))

    @cached_property
    def name(self) -> str:
        """What is asked, in words, and a digest of all of it: another question never has the same name."""
        by = ", ".join(item.name for item in self.shape.by)
        words = ", ".join(self._asked) + (f" by {by}" if by else "")
        return f"query {words[:80]} #{self.digest[:16]}"

    @cached_property
    def digest(self) -> str:
        shape = self.shape
        facts = {
            "kind": type(self).__name__,
            "table": [shape.table.name, shape.table.place],
            "columns": {name: str(kind) for name, kind in shape.table.relation.schema().items()},
            "unit": shape.unit,
            "where": [f"{type(item).__name__} {item.described(shape.table)}" for item in shape.conditions],
            "by": [repr(item) for item in shape.by],
            "keys": None if shape.keys is None else [repr(key) for key in shape.keys.values],
            "limits": [shape.max_groups, shape.max_rows, shape.portable],
            "settings": repr(self._settings),
            "asked": {name: repr(item) for name, item in self._asked.items()},
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    # what a kind of question says

    @property
    @abstractmethod
    def _asked(self) -> Mapping[str, object]:
        """What is asked, by name: public, and all that tells it from another question."""

    @property
    def _settings(self) -> object:
        """Further settings that are part of the question's digest."""
        return None

    @abstractmethod
    def _prices(self, epsilon: float, delta: float) -> Prices:
        """Share out (epsilon, delta); raises where that cannot be."""

    @abstractmethod
    def _event(self, found: Prices) -> Event:
        """The event that the question is charged as."""

    @abstractmethod
    def _errors(self, found: Prices) -> Mapping[str, float | None]:
        """The error of everything asked; None where it depends on the data."""

    @abstractmethod
    def _expression(self, found: Prices) -> object:
        """What the engine will be asked; built before the charge to see that it fits."""

    @abstractmethod
    def _drawn(self, found: Prices, chance: Source) -> dict[str, object]:
        """All that touches data, noise included: the body of the answer."""

    def _notes(self, found: Prices) -> tuple[str, ...]:
        return (NOISE_ONLY,)

    # common

    @property
    def _failure(self) -> float:
        return each_failure(self.confidence, 1)

    @property
    def _neighbours(self) -> Adjacency:
        return Terms(self.ledger).neighbours

    def _check_form(self, found: Prices) -> None:
        """Whatever does not fit is said before the charge: the engine plans the question for no rows at all."""
        expression: Any = self._expression(found)
        if self.shape.table.form is not None:
            self.shape.table.form({node.name for node in expression.op().find(ibis().expr.operations.Field)})
        try:
            executed(self.shape.table, expression.limit(0))
            for constant in constants(expression):
                executed(self.shape.table, constant)
        except NotFinished as error:
            raise BadInput(f"{error.message} No row was read and nothing was charged.") from None

    def _check_ledger(self) -> None:
        """A budget that counts for a person does not cover a release that protects single rows, nor the reverse."""
        ledger = behind(self.ledger)[0]
        if not isinstance(ledger, Scoped):
            return
        if (ledger.unit in ROW_UNITS) != (self.shape.unit is None):
            own = "row" if self.shape.unit is None else self.shape.unit
            raise Mismatch(
                f"The ledger counts for one {ledger.unit}, and the table's unit is {own}.",
                fix=("Open a ledger for this unit, or say whose row it is by ", Argument("unit"), "."),
            )
        if ledger.unit != self.shape.unit and ledger.unit in self.shape.table.columns:
            raise Mismatch(
                f"The ledger counts for one {ledger.unit}, which is another column than the unit {self.shape.unit}.",
                fix=("Give ", Argument("unit", ledger.unit), f", or open a ledger for {self.shape.unit}."),
            )


def left(ledger: object) -> float | None:
    """What remains for whoever asks; None where the ledger does not say."""
    payer, purpose, analyst = behind(ledger)
    remaining = getattr(payer, "remaining", None)
    if not callable(remaining):
        return None
    return float(remaining(analyst=analyst, purpose=purpose) if analyst or purpose else remaining())
