"""Private quantiles of every group: each person has one number in a group, the mean of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import Adjacency, BadInput, Event, Source, check
from ..core.errors import Argument
from ..core.events import BoundedRange, Compose, PartitionSelection, Repeat
from ..mechanism import quantile
from ..mechanism.scales import part, round_epsilon
from .aggregates import Figure
from .answer import body_of
from .bounding import Totals, executed, numbers, spelt
from .grids import FINE, Grid, bounds_of
from .pricing import selection
from .question import NOISE_ONLY, Query
from .released_keys import released_keys
from .values import Value, is_whole


@dataclass(frozen=True)
class QuantilePrices:
    """`each`: epsilon of one group; `rounds`: how many groups one person moves; `keys`: where they are not known."""

    each: float
    rounds: int
    keys: PartitionSelection | None


@dataclass(frozen=True)
class Quantiles(Query[QuantilePrices]):
    """The number that about a share `q` of the people of each group are below."""

    column: str = field(kw_only=True)
    q: float = field(kw_only=True)
    bounds: tuple[float, float] = field(kw_only=True)

    @property
    def _asked(self) -> Mapping[str, object]:
        return {f"quantile({self.column}, {self.q:g})": (self.column, self.q, self.bounds)}

    def _prices(self, epsilon: float, delta: float) -> QuantilePrices:
        """A person moves the distributions of at most `groups` groups; one who is replaced, of twice as many."""
        check.positive("epsilon", epsilon)
        check.delta(delta)
        twice = self._neighbours is Adjacency.REPLACE and bool(self.shape.by)
        rounds = self.shape.groups * (2 if twice else 1)
        if self.shape.keys is not None:
            return QuantilePrices(round_epsilon(epsilon, delta, rounds, self._neighbours), rounds, None)
        if delta == 0:
            raise BadInput(
                "The keys are not known beforehand, and releasing them needs a delta above 0.",
                fix=(
                    "Give ",
                    Argument("keys"),
                    " (all that should be released), or ",
                    Argument("delta"),
                    " such as 1e-6.",
                ),
            )
        share = part(epsilon, 2)
        return QuantilePrices(
            round_epsilon(share, 0.0, rounds, self._neighbours),
            rounds,
            selection(share, delta, self.shape.groups, self._neighbours),
        )

    def _event(self, found: QuantilePrices) -> Event:
        chosen = BoundedRange(found.each) if found.rounds == 1 else Repeat(BoundedRange(found.each), found.rounds)
        return chosen if found.keys is None else Compose((found.keys, chosen))

    def _errors(self, found: QuantilePrices) -> Mapping[str, float | None]:
        return dict.fromkeys(self._asked)

    def _notes(self, found: QuantilePrices) -> tuple[str, ...]:
        return NOISE_ONLY, "each person has one number in a group: the mean of theirs"

    @property
    def _value(self) -> Value:
        grid = Grid.of_mean(self.bounds, is_whole(self.shape.table, self.column), FINE)
        return Value(self.column, grid, "centred")

    def _expression(self, found: QuantilePrices) -> object:
        return numbers(self.shape, self._value)

    def _drawn(self, found: QuantilePrices, chance: Source) -> dict[str, Any]:
        held = executed(self.shape.table, self._expression(found))
        names = [f"k{place}" for place in range(len(self.shape.by))]
        rows = list(zip(*(held[name].to_pylist() for name in names), strict=True)) if names else [()] * held.num_rows
        steps, counts = (np.array(held[name].to_pylist(), dtype=np.int64) for name in ("x", "n"))
        places: dict[Any, list[int]] = {}
        for place, key in enumerate(rows):
            places.setdefault(key, []).append(place)
        keys = tuple(sorted(places, key=spelt)) if self.shape.keys is None else self.shape.keys.values
        people = np.array([counts[places.get(key, [])].sum() for key in keys], dtype=np.int64)
        exact = Totals(keys, people, {}, 0, 0)
        chosen, _ = released_keys(exact, found.keys, self.shape.groups, self._neighbours, chance)
        values = []
        for place in chosen.tolist():
            own = places.get(keys[place], [])
            values.append(self._chosen(np.repeat(steps[own], counts[own]), found, chance))
        shown = {
            item.name: tuple(item.shown(keys[place][k]) for place in chosen.tolist())
            for k, item in enumerate(self.shape.by)
        }
        figure = Figure(np.array(values, dtype=np.float64), np.full(len(values), np.nan))
        return body_of(shown, dict.fromkeys(self._asked, figure), None)

    def _chosen(self, steps: Any, found: QuantilePrices, chance: Source) -> float:
        """One of the values that a row can have, which are steps of a grid: the cells around whole numbers."""
        grid = self._value.grid
        answer = quantile(
            steps + grid.middle,
            self.q,
            bounds=(-0.5, grid.high + 0.5),
            grid=grid.high + 1,
            epsilon=found.each,
            adjacency=self._neighbours,
            rng=chance,
        )
        return self.bounds[0] + round(float(answer.value)) * float(grid.spacing)


def checked_quantile(column: str, q: float, bounds: object) -> tuple[float, tuple[float, float]]:
    """A share in [0, 1] and two numbers."""
    found = bounds_of(bounds, column)
    if isinstance(found, str):
        raise BadInput(
            "A quantile needs bounds that are given.",
            fix=("Give ", Argument("bounds", ("lower", "upper")), ": they may be wide."),
        )
    return check.probability("q", q), found
