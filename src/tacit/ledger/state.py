"""What the entries of a ledger add up to. Charging and verifying go through the same functions, entry by entry."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.adjacency import Adjacency
from ..core.event import Event
from ..core.events import Compose
from ..core.json_text import Json
from .amounts import Amounts, added, plain, read, written
from .chain import SCHEMA, text
from .criteria import STATED, Criterion, accepts, remaining, resized

PLANNED, ADAPTIVE = "planned", "adaptive"


@dataclass(frozen=True)
class Terms:
    """What was fixed when the ledger was made; the first entry holds it."""

    epsilon: float
    delta: float
    unit: str
    adjacency: Adjacency
    composition: str
    criteria: tuple[Criterion, ...]
    events: tuple[Event, ...] = ()
    planned_epsilon: float | None = None

    def to_json(self) -> Json:
        return {
            "schema": SCHEMA,
            "budget": {"epsilon": self.epsilon, "delta": self.delta},
            "unit": self.unit,
            "adjacency": self.adjacency.value,
            "composition": self.composition,
            "criteria": [item.to_json() for item in self.criteria],
            "events": [event.to_json() for event in self.events],
            "planned_epsilon": self.planned_epsilon,
        }

    @classmethod
    def from_json(cls, data: Json) -> Terms:
        return cls(
            float(data["budget"]["epsilon"]),
            float(data["budget"]["delta"]),
            str(data["unit"]),
            Adjacency.of(data["adjacency"]),
            str(data["composition"]),
            tuple(Criterion.from_json(item) for item in data["criteria"]),
            tuple(Event.from_json(item) for item in data["events"]),
            data["planned_epsilon"],
        )

    @property
    def stated(self) -> float:
        """The delta that is set aside for events that state one; 0 in a planned ledger, whose events are fixed."""
        limits = [item.limit for item in self.criteria if item.name == STATED and self.composition == ADAPTIVE]
        return plain(sum(limits))

    @property
    def whole(self) -> Event:
        """All that a planned ledger may release."""
        return Compose(self.events)


@dataclass(frozen=True)
class Allotment:
    """What one analyst, one purpose, or one analyst for one purpose may use of the budget: a limit, not a claim."""

    analyst: str
    purpose: str
    epsilon: float
    totals: Amounts

    def concerns(self, analyst: str, purpose: str) -> bool:
        return self.analyst in ("", analyst) and self.purpose in ("", purpose)

    def criteria(self, terms: Terms) -> tuple[Criterion, ...]:
        """The ledger's own criteria with limits for this epsilon, at the same orders and shares of delta."""
        return tuple(resized(item, self.epsilon) for item in terms.criteria)

    def remaining(self, terms: Terms) -> float:
        return remaining(self.criteria(terms), self.totals)


@dataclass(frozen=True)
class State:
    """Totals after some entry. `closed`: the first charge took the whole budget. `used`: planned events charged."""

    totals: Amounts
    charges: int = 0
    closed: bool = False
    used: tuple[int, ...] = ()
    allotments: tuple[Allotment, ...] = field(default=())
    conditions: tuple[str, ...] = field(default=())
    time: str = ""

    @classmethod
    def start(cls, terms: Terms) -> State:
        return cls({item.name: 0 for item in terms.criteria})

    def to_text(self) -> str:
        allotted = [
            {"analyst": a.analyst, "purpose": a.purpose, "epsilon": a.epsilon, "totals": written(a.totals)}
            for a in self.allotments
        ]
        return text(
            {
                "totals": written(self.totals),
                "charges": self.charges,
                "closed": self.closed,
                "used": list(self.used),
                "allotments": allotted,
                "conditions": list(self.conditions),
                "time": self.time,
            }
        )

    @classmethod
    def from_text(cls, given: str) -> State:
        data = json.loads(given)
        allotted = [Allotment(a["analyst"], a["purpose"], a["epsilon"], read(a["totals"])) for a in data["allotments"]]
        return cls(
            read(data["totals"]),
            data["charges"],
            data["closed"],
            tuple(data["used"]),
            tuple(allotted),
            tuple(data["conditions"]),
            data["time"],
        )

    @classmethod
    def of_head(cls, head: Any, terms: Terms) -> State:
        """The state that a ledger's head keeps; ValueError where it cannot be that of a ledger with these terms."""
        found, names = cls.from_text(head.state), {item.name for item in terms.criteria}
        texts = [
            found.time,
            *found.conditions,
            *(part for item in found.allotments for part in (item.analyst, item.purpose)),
        ]
        plain = all(isinstance(part, str) for part in texts) and isinstance(found.closed, bool)
        counts = all(type(number) is int and number >= 0 for number in (head.seq, found.charges, *found.used))
        sums = all(set(totals) == names for totals in (found.totals, *(item.totals for item in found.allotments)))
        if not (plain and counts and sums and all(isinstance(item.epsilon, float | int) for item in found.allotments)):
            raise ValueError
        return found

    def after(self, body: Json) -> State:
        """The state after an entry, whatever it is; whether the entry was allowed is another question."""
        found = self
        if body["kind"] == "charge":
            found = self._charged(read(body["cost"]), body["analyst"], body["purpose"], body["place"], body["sole"])
            found = replace(found, conditions=tuple(dict.fromkeys((*self.conditions, *body["conditions"]))))
        elif body["kind"] == "allot":
            found = self._allotted(body["analyst"], body["purpose"], body["epsilon"])
        return replace(found, time=max(self.time, body["time"]))

    def _charged(self, cost: Amounts, analyst: str, purpose: str, place: int | None, sole: bool) -> State:
        """After a charge; in a planned ledger `place` is which of the events it was."""
        allotted = tuple(
            replace(item, totals=added(item.totals, cost)) if item.concerns(analyst, purpose) else item
            for item in self.allotments
        )
        used = self.used if place is None else tuple(sorted((*self.used, place)))
        totals = added(self.totals, cost)
        return replace(
            self, totals=totals, charges=self.charges + 1, closed=self.closed or sole, used=used, allotments=allotted
        )

    def _allotted(self, analyst: str, purpose: str, epsilon: float) -> State:
        """After an allotment, which takes the place of an earlier one for the same analyst and purpose."""
        old = [a for a in self.allotments if (a.analyst, a.purpose) == (analyst, purpose)]
        others = tuple(a for a in self.allotments if a not in old)
        totals = old[0].totals if old else dict.fromkeys(self.totals, 0)
        return replace(self, allotments=(*others, Allotment(analyst, purpose, epsilon, totals)))

    def within(self, terms: Terms) -> bool:
        """Whether the totals are what the ledger may hold."""
        if terms.composition == PLANNED:
            return len(set(self.used)) == len(self.used) == self.charges
        return self.charges == 0 or (self.closed and self.charges == 1) or accepts(terms.criteria, self.totals)

    def remaining(self, terms: Terms) -> float:
        """The largest pure epsilon that is still accepted from anybody without an allotment."""
        if terms.composition == PLANNED or self.closed:
            return 0.0
        return remaining(terms.criteria, self.totals)
