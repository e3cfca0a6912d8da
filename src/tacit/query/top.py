"""The most frequent words of a column, by how many people have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..core import BadInput, Event, Source, check
from ..core.errors import Argument
from ..core.events import BoundedRange, PartitionSelection, Repeat
from ..mechanism import top
from ..mechanism.scales import each_failure, round_epsilon
from ..mechanism.selection import reach, scale_of
from .aggregates import Figure
from .answer import body_of
from .bounding import query, totals
from .pricing import Noise, selection
from .question import CHOSEN, Query
from .released_keys import released_keys
from .terms import People


@dataclass(frozen=True)
class TopPrices:
    """One event: k choices among listed words, or the release of words that enough people have."""

    event: Event
    epsilon: float
    delta: float
    error: float


@dataclass(frozen=True)
class Top(Query[TopPrices]):
    """About the `k` words that most people have, best first.

    Listed words: k rounds of the exponential mechanism. A person may have any number of words, since each count moves
    by one at most. Words that are not listed: those that enough people have, of which the first k are kept.
    """

    k: int = field(kw_only=True)

    @property
    def _asked(self) -> Mapping[str, object]:
        return {f"top {self.k}": self.k}

    def _prices(self, epsilon: float, delta: float) -> TopPrices:
        check.positive("epsilon", epsilon)
        check.delta(delta)
        if self.shape.keys is None:
            if delta == 0:
                raise BadInput(
                    "The words are not known beforehand, and releasing them needs a delta above 0.",
                    fix=(
                        "Give ",
                        Argument("keys"),
                        " (all that may be released), or ",
                        Argument("delta"),
                        " such as 1e-6.",
                    ),
                )
            noise = Noise.laplace(self.shape.groups, epsilon, self._neighbours)
            event = selection(epsilon, delta, self.shape.groups, self._neighbours)
            return TopPrices(event, epsilon, delta, noise.reach(self._failure))
        words = len(self.shape.keys.values)
        if self.k > words:
            raise BadInput((Argument("k"), f" must be at most the number of words {words}, got {self.k}."))
        each = round_epsilon(float(epsilon), float(delta), self.k, self._neighbours)
        scale = scale_of(1, each, True, self._neighbours)
        error = reach(scale, words, each_failure(self.confidence, self.k))
        return TopPrices(Repeat(BoundedRange(each), self.k), epsilon, delta, error)

    def _event(self, found: TopPrices) -> Event:
        return found.event

    def _errors(self, found: TopPrices) -> Mapping[str, float | None]:
        return dict.fromkeys(self._asked, found.error)

    def _notes(self, found: TopPrices) -> tuple[str, ...]:
        if self.shape.keys is None:
            return ("values are noisy numbers of people; words that few people have are not released", CHOSEN)
        return (f"values are places; each word has at most {found.error:.4g} people fewer than the best one left",)

    def _expression(self, found: TopPrices) -> object:
        return query(self.shape, (People(),), lost=False)

    def _drawn(self, found: TopPrices, chance: Source) -> dict[str, object]:
        exact = totals(self.shape, (People(),), lost=False)
        (item,) = self.shape.by
        if isinstance(found.event, PartitionSelection):
            places, noisy = released_keys(exact, found.event, self.shape.groups, self._neighbours, chance)
            assert noisy is not None
            order = np.argsort(-noisy, kind="stable")[: self.k]
            places, values = places[order], noisy[order]
        else:
            answer = top(
                exact.terms[People()],
                self.k,
                sensitivity=1,
                epsilon=found.epsilon,
                delta=found.delta,
                monotone=True,
                adjacency=self._neighbours,
                rng=chance,
            )
            places, values = np.asarray(answer.value), np.arange(1, self.k + 1)
        words = tuple(item.shown(exact.keys[place][0]) for place in places.tolist())
        off = found.error if isinstance(found.event, PartitionSelection) else np.nan  # a place has none
        figure = Figure(values, np.full(len(values), off))
        return body_of({item.name: words}, dict.fromkeys(self._asked, figure), None)
