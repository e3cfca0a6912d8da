"""A question about a table: priced before it runs, charged before it reads, answered once for each key."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..core import Charger, Estimate, Event, Mismatch, Scoped, Source
from ..mechanism import quantile, unknown_keys
from ..mechanism.charging import Account, Offer, Random, Terms
from ..mechanism.scales import each_failure
from .aggregates import Aggregate, Bounded
from .answer import Answer, body_of
from .bounding import Shape, Totals, query, totals
from .largest import FARTHEST, largest_of
from .pricing import Asked, Noise, Prices, prices
from .terms import Term

ROW_UNITS = frozenset({"row", "record"})
MOST_PEOPLE = 0.98
"""The share of people whose largest number a private bound should hold; it is then rounded up to a power of two."""
NOISE_ONLY = "the errors cover noise, not what bounding took away"


@dataclass(frozen=True)
class Price:
    """What an answer will cost and how far it may be off; nothing was read and nothing was charged.

    `error`: of each aggregate, None where it depends on the data. `remaining`: what the ledger would still accept.
    """

    error: float | dict[str, float | None] | None
    event: Event
    remaining: float | None
    confidence: float = 0.95
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """One or several aggregates of every group, computed in one pass and released as one event."""

    shape: Shape
    aggregates: Mapping[str, Aggregate]
    ledger: Charger | None = None
    lost: float = 0.05
    confidence: float = 0.95

    def preview(self, *, epsilon: float, delta: float = 0.0) -> Price:
        """Price the answer from public numbers: no data are read, nothing is charged."""
        found = self._prices(epsilon, delta)
        errors = {name: item.stated(self.shape.table, self._reach(found), self._failure) for name, item in self._items}
        single = next(iter(errors.values())) if len(errors) == 1 else errors
        remaining = getattr(_behind(self.ledger), "remaining", None)
        return Price(single, found.event, remaining() if callable(remaining) else None, self.confidence, self._notes)

    def release(self, *, epsilon: float, delta: float = 0.0, key: str | None = None, rng: Random = None) -> Answer:
        """Charge the event, run the pass, add noise, keep the answer under `key`, and return it.

        The same key gives the same answer again, bit for bit and free; a key of another question is refused.
        """
        self._check_ledger()
        found = self._prices(epsilon, delta)
        self._expression(found)  # whatever does not fit is said before the charge
        terms = Terms(self.ledger, key, rng)
        offer = Offer(self.name, found.event, terms.neighbours, self._stated(found), self.confidence, notes=self._notes)
        return Answer.of(offer.drawn(lambda chance: self._drawn(found, chance), terms))

    @cached_property
    def name(self) -> str:
        """What is asked, in words, and a digest of all of it: another question never has the same name."""
        by = ", ".join(item.name for item in self.shape.by)
        words = ", ".join(self.aggregates) + (f" by {by}" if by else "")
        return f"query {words[:80]} #{self.digest[:16]}"

    @cached_property
    def digest(self) -> str:
        shape = self.shape
        facts = {
            "table": shape.table.name,
            "columns": {name: str(kind) for name, kind in shape.table.relation.schema().items()},
            "unit": shape.unit,
            "where": [f"{type(item).__name__} {item!r}" for item in shape.conditions],
            "by": [repr(item) for item in shape.by],
            "keys": None if shape.keys is None else [repr(key) for key in shape.keys.values],
            "limits": [shape.max_groups, shape.max_rows, shape.portable],
            "aggregates": {name: repr(item) for name, item in self.aggregates.items()},
            "lost": self.lost,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    # inside

    @property
    def _items(self) -> list[tuple[str, Aggregate]]:
        return list(self.aggregates.items())

    @property
    def _failure(self) -> float:
        return each_failure(self.confidence, 1)

    @property
    def _notes(self) -> tuple[str, ...]:
        return (NOISE_ONLY,)

    @property
    def _columns(self) -> list[str]:
        """Columns whose bounds are still to be found."""
        items = [item for item in self.aggregates.values() if isinstance(item, Bounded) and item.private]
        return list(dict.fromkeys(item.column for item in items))

    def _terms(self, aggregates: Mapping[str, Aggregate]) -> tuple[Term, ...]:
        found = [term for item in aggregates.values() for term in item.terms(self.shape.table)]
        return tuple(dict.fromkeys(found))

    @property
    def _may_lose(self) -> bool:
        """Whether bounding can take anything away."""
        return self.shape.unit is not None or any(isinstance(item, Bounded) for item in self.aggregates.values())

    def _prices(self, epsilon: float, delta: float) -> Prices:
        share = Fraction(self.lost) if self._may_lose else Fraction(0)
        asked = Asked(
            self._terms(self.aggregates),
            self.shape.groups,
            self.shape.rows,
            self.shape.keys is not None,
            share,
            len(self._columns),
        )
        neighbours = Terms(self.ledger).neighbours
        return prices(asked, epsilon=epsilon, delta=delta, neighbours=neighbours)

    def _reach(self, found: Prices) -> Callable[[Term, float], float]:
        def reach(term: Term, failure: float) -> float:
            if term in found.free:
                assert found.keys is not None
                scale = Terms(self.ledger).neighbours
                return Noise.laplace(self.shape.groups, found.keys.epsilon, scale).reach(failure)
            return found.terms[term].reach(failure)

        return reach

    def _stated(self, found: Prices) -> float | None:
        errors = [item.stated(self.shape.table, self._reach(found), self._failure) for _, item in self._items]
        known = [error for error in errors if error is not None]
        return max(known) if len(known) == len(errors) else None

    def _check_ledger(self) -> None:
        """A budget that counts for a person does not cover a release that protects single rows, nor the reverse."""
        ledger = _behind(self.ledger)
        if not isinstance(ledger, Scoped):
            return
        if (ledger.unit in ROW_UNITS) != (self.shape.unit is None):
            own = "row" if self.shape.unit is None else self.shape.unit
            raise Mismatch(
                f"The ledger counts for one {ledger.unit}, and the table's unit is {own}.",
                fix="Open a ledger for this unit, or say whose row it is with unit=.",
            )

    def _drawn(self, found: Prices, chance: Source) -> dict[str, Any]:
        """All that touches data: bounds, the pass, the keys, and noise on every term."""
        aggregates = self._with_bounds(found, chance)
        terms = self._terms(aggregates)
        noise = dict(zip(terms, (found.terms.get(term) for term in self._terms(self.aggregates)), strict=True))
        exact = totals(self.shape, terms, lost=found.lost is not None)
        chosen, free = self._chosen(exact, found, chance)
        noisy = {
            term: free if noise[term] is None else exact.terms[term][chosen] + noise[term].drawn(len(chosen), chance)  # type: ignore[union-attr]
            for term in terms
        }
        renamed = dict(zip(terms, self._terms(self.aggregates), strict=True))
        reach = self._reach(found)
        figures = {
            name: item.figure(self.shape.table, noisy.__getitem__, lambda t, f: reach(renamed[t], f), self._failure)
            for name, item in aggregates.items()
        }
        keys = [exact.keys[place] for place in chosen.tolist()]
        shown = {item.name: tuple(item.shown(key[k]) for key in keys) for k, item in enumerate(self.shape.by)}
        return body_of(shown, figures, self._lost(exact, found, chance))

    def _expression(self, found: Prices) -> Any:
        return query(self.shape, self._terms(self.aggregates), lost=found.lost is not None)

    def _with_bounds(self, found: Prices, chance: Source) -> dict[str, Aggregate]:
        """Aggregates whose bounds were asked to be private get a power of two that most people stay below."""
        largest: dict[str, float] = {}
        for column in self._columns:
            assert found.bounds is not None
            answer = quantile(
                largest_of(self.shape, column),
                MOST_PEOPLE,
                bounds=(-FARTHEST, FARTHEST),
                epsilon=found.bounds,
                adjacency=Terms(self.ledger).neighbours,
                rng=chance,
            )
            largest[column] = 2.0 ** math.ceil(answer.value)
        return {
            name: item.within(largest[item.column]) if isinstance(item, Bounded) and item.private else item
            for name, item in self.aggregates.items()
        }

    def _chosen(self, exact: Totals, found: Prices, chance: Source) -> tuple[Any, Any]:
        """Places of the keys that are released, and the noisy numbers of people that their release told."""
        if found.keys is None:
            return np.arange(len(exact.keys)), None
        counts: dict[Hashable, int] = dict(enumerate(exact.people.tolist()))
        answer = unknown_keys(
            counts,
            epsilon=found.keys.epsilon,
            delta=found.keys.delta,
            keys_per_person=self.shape.groups,
            adjacency=Terms(self.ledger).neighbours,
            rng=chance,
        )
        places = sorted(answer.value, key=lambda place: tuple(map(repr, exact.keys[place])))
        return np.array(places, dtype=np.int64), np.array([answer.value[place] for place in places], dtype=np.int64)

    def _lost(self, exact: Totals, found: Prices, chance: Source) -> Estimate | None:
        """The share of people from whom bounding took something: two counts of different people, sensitivity 1."""
        if found.lost is None:
            return None
        some, none = np.array([exact.lost, exact.everybody - exact.lost]) + found.lost.drawn(2, chance)
        reach = found.lost.reach(self._failure / 2)
        total = max(some + none, 1)
        low = _ratio(some - reach, none + reach)
        high = _ratio(some + reach, none - reach)
        value = min(max(some / total, low), high)
        return Estimate(float(value), low, high, self.confidence, int(total))


def _behind(ledger: object) -> object:
    while isinstance(ledger, Account):
        ledger = ledger.ledger
    return ledger


def _ratio(some: float, others: float) -> float:
    some, others = max(float(some), 0.0), max(float(others), 0.0)
    return some / max(some + others, 1.0)
