"""Made-up rows that resemble a table: noisy tables of single columns and of the pairs that depend most, and a model.

    1  every column's table gets Gaussian noise;
    2  pairs of columns are chosen for a spanning tree, one after another, each by the exponential mechanism: its score
       is how far the pair's table is from what independence would make of step 1 (in L1 norm, moved by one person by
       at most that person's combinations);
    3  the tables of the chosen pairs get Gaussian noise;
    4  rows are drawn from the tree-shaped distribution that fits them: free, since steps 1 to 3 are private already.

Reference: McKenna, Miklau and Sheldon 2021, Algorithm 2 (MST).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import BadInput, Event, Source, check
from ..core.events import BoundedRange, Compose, Gaussian, Repeat
from ..mechanism import exponential
from ..mechanism.scales import cost
from .answer import body_of
from .bounding import query
from .marginals import Domain, Joint
from .pricing import Noise
from .question import Query
from .terms import People
from .tree_model import Edge, Floats, TreeModel, fitted

SHARES = (0.2, 0.2, 0.6)
"""Of the budget (in zCDP): single columns, the choice of pairs, the tables of pairs."""
FINEST = 1e-3
MOST_ROWS = 10_000_000


@dataclass(frozen=True)
class SynthesisPrices:
    """Noise multipliers of single tables and of pairs, and epsilon of each choice."""

    single: float
    choice: float
    pair: float
    columns: int

    @property
    def event(self) -> Event:
        edges = self.columns - 1
        parts = [Repeat(Gaussian(self.single), self.columns)]
        if edges:
            parts += [Repeat(BoundedRange(self.choice), edges), Repeat(Gaussian(self.pair), edges)]
        return parts[0] if len(parts) == 1 else Compose(tuple(parts))

    @classmethod
    def of(cls, rho: float, columns: int) -> SynthesisPrices:
        """(1/2z^2 per Gaussian table, epsilon^2/8 per choice: Bun and Steinke 2016; Dong et al. 2020.)"""
        edges = max(columns - 1, 1)
        single, choice, pair = (rho * share for share in SHARES)
        return cls(
            math.sqrt(columns / (2 * single)), math.sqrt(8 * choice / edges), math.sqrt(edges / (2 * pair)), columns
        )


@dataclass(frozen=True)
class Synthesis(Query[SynthesisPrices]):
    """Made-up rows; `count` of them, or as many as the noisy number of people."""

    domain: Domain = field(kw_only=True)
    count: int | None = field(default=None, kw_only=True)

    @property
    def _asked(self) -> Mapping[str, object]:
        return {"rows": (self.domain, self.count)}

    @property
    def _moved(self) -> int:
        return self.shape.max_groups if self.shape.unit is not None else 1

    def _prices(self, epsilon: float, delta: float) -> SynthesisPrices:
        """The largest budget, by bisection, whose event is proven to cost at most (epsilon, delta)."""
        check.positive("epsilon", epsilon)
        if check.delta(delta) == 0:
            raise BadInput("Made-up rows need a delta above 0.", fix="Give a delta such as 1e-9.")
        columns, neighbours = len(self.domain.by), self._neighbours

        def fits(rho: float) -> bool:
            return cost(SynthesisPrices.of(rho, columns).event, delta, neighbours) <= epsilon

        root = math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))
        low = root**2 / (4 if neighbours.sensitivity > 1 else 1)  # the plain conversion from zCDP
        while not fits(low):
            low /= 2
        high = 2 * low
        while fits(high):
            low, high = high, 2 * high
        while high / low > 1 + FINEST:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return SynthesisPrices.of(low, columns)

    def _event(self, found: SynthesisPrices) -> Event:
        return found.event

    def _errors(self, found: SynthesisPrices) -> Mapping[str, float | None]:
        return dict.fromkeys(self._asked)

    def _notes(self, found: SynthesisPrices) -> tuple[str, ...]:
        return ("rows are made up and belong to nobody; single columns and pairs along a tree resemble the table",)

    def _expression(self, found: SynthesisPrices) -> Any:
        return query(self.domain.within(self.shape), (People(),), lost=False)

    def _drawn(self, found: SynthesisPrices, chance: Source) -> dict[str, Any]:
        joint = Joint.read(self.domain.within(self.shape), self.domain)
        model = self._model(joint, found, chance)
        count = min(model.total, MOST_ROWS) if self.count is None else self.count
        codes = model.rows(count, chance)
        columns = {}
        for k, item in enumerate(self.domain.by):
            words = [self.domain.shown(k, code) for code in range(self.domain.sizes[k])]
            columns[item.name] = tuple(words[code] for code in codes[:, k].tolist())
        return body_of(columns, {}, None)

    def _model(self, joint: Joint, found: SynthesisPrices, chance: Source) -> TreeModel:
        moved = self._moved
        single, pair = (Noise.gaussian(moved, 1, z) for z in (found.single, found.pair))
        singles = [_noisy(joint, (k,), single, chance) for k in range(len(self.domain.by))]
        edges = self._edges(joint, singles, found, chance)
        pairs = {edge: _noisy(joint, edge, pair, chance) for edge in edges}
        return fitted(singles, pairs, float(single.spread), float(pair.spread))

    def _edges(self, joint: Joint, singles: list[Floats], found: SynthesisPrices, chance: Source) -> list[Edge]:
        """A spanning tree, edge by edge: each joins two parts that were apart."""
        columns = len(singles)
        expected = [np.maximum(table, 0) / max(float(np.maximum(table, 0).sum()), 1.0) for table in singles]
        total = max(float(np.mean([table.sum() for table in singles])), 1.0)
        scores = {
            (i, j): round(float(np.abs(joint.marginal((i, j)) - total * np.outer(expected[i], expected[j])).sum()) * 64)
            for i in range(columns)
            for j in range(i + 1, columns)
        }
        part = list(range(columns))
        chosen: list[Edge] = []
        while len(chosen) < columns - 1:
            left = [edge for edge in scores if part[edge[0]] != part[edge[1]]]
            answer = exponential(
                np.array([scores[edge] for edge in left], dtype=np.int64),
                sensitivity=64 * self._moved + 1,  # rounded to 1/64 after the sum, so one more
                epsilon=found.choice,
                adjacency=self._neighbours,
                rng=chance,
            )
            edge = left[int(answer.value)]
            chosen.append(edge)
            part = [part[edge[0]] if label == part[edge[1]] else label for label in part]
        return chosen


def _noisy(joint: Joint, columns: tuple[int, ...], noise: Noise, chance: Source) -> Floats:
    table = joint.marginal(columns)
    return (table + noise.drawn(table.size, chance).reshape(table.shape)).astype(np.float64)
