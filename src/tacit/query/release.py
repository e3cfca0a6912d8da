"""Counts, sums, means and variances of every group, computed in one pass and released as one event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..core import Estimate, Event, Source
from ..mechanism import clipping_bound
from .aggregates import Aggregate, Bounded
from .answer import body_of
from .bounding import Totals, query, totals
from .largest import largest_of
from .pricing import Asked, Noise, Prices, prices
from .question import CHOSEN, NOISE_ONLY, Query
from .released_keys import released_keys
from .terms import Term

MOST_PEOPLE = 0.95
"""The share of people whose largest number a private bound should hold; it is then rounded up to a power of two."""


@dataclass(frozen=True)
class Aggregation(Query[Prices]):
    """A query for aggregates of every group. `lost` is the share of epsilon that tells how many people lost rows."""

    aggregates: Mapping[str, Aggregate] = field(kw_only=True)
    lost: float = field(default=0.05, kw_only=True)

    @property
    def _asked(self) -> Mapping[str, object]:
        return self.aggregates

    @property
    def _settings(self) -> object:
        return self.lost

    def _errors(self, found: Prices) -> dict[str, float | None]:
        reach = self._reach(found)
        return {name: item.stated(self.shape.table, reach, self._failure) for name, item in self.aggregates.items()}

    def _event(self, found: Prices) -> Event:
        return found.event

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
        return prices(asked, epsilon=epsilon, delta=delta, neighbours=self._neighbours)

    def _reach(self, found: Prices) -> Callable[[Term, float], float]:
        def reach(term: Term, failure: float) -> float:
            if term in found.free:
                assert found.keys is not None
                return Noise.laplace(self.shape.groups, found.keys.epsilon, self._neighbours).reach(failure)
            return found.terms[term].reach(failure)

        return reach

    def _drawn(self, found: Prices, chance: Source) -> dict[str, object]:
        """All that touches data: bounds, the pass, the keys, and noise on every term."""
        aggregates = self._with_bounds(found, chance)
        terms = self._terms(aggregates)
        noise = dict(zip(terms, (found.terms.get(term) for term in self._terms(self.aggregates)), strict=True))
        exact = totals(self.shape, terms, lost=found.lost is not None)
        chosen, free = released_keys(exact, found.keys, self.shape.groups, self._neighbours, chance)
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

    def _notes(self, found: Prices) -> tuple[str, ...]:
        return (NOISE_ONLY,) if found.keys is None else (NOISE_ONLY, CHOSEN)

    def _expression(self, found: Prices) -> object:
        return query(self.shape, self._terms(self.aggregates), lost=found.lost is not None)

    def _with_bounds(self, found: Prices, chance: Source) -> dict[str, Aggregate]:
        """Aggregates whose bounds were asked to be private get a power of two that most people stay below."""
        largest: dict[str, float] = {}
        for column in self._columns:
            assert found.bounds is not None
            sizes = largest_of(self.shape, column)
            answer = clipping_bound(
                sizes, epsilon=found.bounds, share=MOST_PEOPLE, adjacency=self._neighbours, rng=chance
            )
            largest[column] = answer.value
        return {
            name: item.within(largest[item.column]) if isinstance(item, Bounded) and item.private else item
            for name, item in self.aggregates.items()
        }

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


def _ratio(some: float, others: float) -> float:
    some, others = max(float(some), 0.0), max(float(others), 0.0)
    return some / max(some + others, 1.0)
