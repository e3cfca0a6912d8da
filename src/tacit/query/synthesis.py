"""Synthetic rows that resemble a table: noisy tables of single columns and of the pairs that depend most, and a model.

    1  every column's table gets Gaussian noise;
    2  pairs of columns are chosen for a spanning tree, one after another, each by the exponential mechanism: its score
       is how far the pair's table is from what independence would make of step 1 (in L1 norm, moved by one person by
       at most that person's combinations);
    3  the tables of the chosen pairs get Gaussian noise;
    4  rows are drawn from the tree-shaped distribution that fits them: free, since steps 1 to 3 are private already.

With a label, the column that others will be used to predict, every table of steps 1 and 3 is split by its values. Step
4 then has one distribution for each of them, so no dependence on the label is left out. Tables are larger then: half of
what the noise of step 3 will add to a table of its size is taken off the score.

Reference: McKenna, Miklau and Sheldon 2021, Winning the NIST contest (MST). The expected noise in the score is that of
AIM (McKenna, Mullins, Sheldon and Miklau 2022). Trees for each value of a label: Friedman, Geiger and Goldszmidt 1997.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..core import BadInput, Event, Source, check
from ..core.events import BoundedRange, Compose, Gaussian, Repeat
from ..mechanism import exponential
from ..mechanism.scales import cost
from .answer import body_of
from .bounding import query
from .marginals import Domain, Joint, Whole
from .pricing import Noise
from .question import Query
from .terms import People
from .tree_model import Edge, Floats, TreeModel, fitted, spread

SHARES, LABELLED = (0.3, 0.05, 0.65), (0.45, 0.05, 0.5)
"""Of the budget (in zCDP): single columns, the choice of pairs, the tables of pairs; the second with a label."""
NOISE_SHARE = 0.5
"""How much of the noise that a table will get is taken off the score of its pair, where there is a label."""
FINEST = 1e-3
MOST_ROWS = 10_000_000
FINE = 64
"""Steps of a score in one person."""


@dataclass(frozen=True)
class SynthesisPrices:
    """Noise multipliers of single tables and of pairs, and epsilon of each choice; `columns` but the label."""

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
    def of(cls, rho: float, columns: int, shares: tuple[float, float, float] = SHARES) -> SynthesisPrices:
        """1/2z^2 per Gaussian table (Bun and Steinke 2016), epsilon^2/8 per choice (Cesar and Rogers 2021)."""
        edges = max(columns - 1, 1)
        single, choice, pair = (rho * share for share in shares)
        return cls(
            math.sqrt(columns / (2 * single)), math.sqrt(8 * choice / edges), math.sqrt(edges / (2 * pair)), columns
        )


@dataclass(frozen=True)
class Synthesis(Query[SynthesisPrices]):
    """A query for synthetic rows: `count` of them, or as many as the noisy number of people."""

    domain: Domain = field(kw_only=True)
    count: int | None = field(default=None, kw_only=True)
    label: int | None = field(default=None, kw_only=True)
    """The place of the column that others predict."""

    @property
    def _asked(self) -> Mapping[str, object]:
        return {"rows": (self.domain, self.count, self.label)}

    @property
    def _others(self) -> list[int]:
        """Places of all columns but the label."""
        return [place for place in range(len(self.domain.by)) if place != self.label]

    @property
    def _moved(self) -> int:
        return self.shape.max_groups if self.shape.unit is not None else 1

    def _prices(self, epsilon: float, delta: float) -> SynthesisPrices:
        """The largest budget, by bisection, whose event is proven to cost at most (epsilon, delta)."""
        check.positive("epsilon", epsilon)
        if check.delta(delta) == 0:
            raise BadInput("Synthetic rows need a delta above 0.", fix="Give a delta such as 1e-9.")
        columns, neighbours = len(self._others), self._neighbours
        shares = SHARES if self.label is None else LABELLED

        def fits(rho: float) -> bool:
            return cost(SynthesisPrices.of(rho, columns, shares).event, delta, neighbours) <= epsilon

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
        return SynthesisPrices.of(low, columns, shares)

    def _event(self, found: SynthesisPrices) -> Event:
        return found.event

    def _errors(self, found: SynthesisPrices) -> Mapping[str, float | None]:
        return dict.fromkeys(self._asked)

    def _notes(self, found: SynthesisPrices) -> tuple[str, ...]:
        label = "" if self.label is None else f", for each value of {self.domain.by[self.label].name}"
        told = f"rows are made up and belong to nobody; columns and pairs along a tree resemble the table{label}"
        return (told,)

    def _expression(self, found: SynthesisPrices) -> object:
        return query(self.domain.within(self.shape), (People(),), lost=False)

    def _drawn(self, found: SynthesisPrices, chance: Source) -> dict[str, object]:
        joint = Joint.read(self.domain.within(self.shape), self.domain)
        models = self._models(joint, found, chance)
        totals = np.array([model.total for model in models], dtype=np.float64)
        count = min(int(totals.sum()), MOST_ROWS) if self.count is None else self.count
        labels = spread(totals, count, chance)
        codes = np.zeros((count, len(self.domain.by)), dtype=np.int64)
        for value, model in enumerate(models):
            own = np.flatnonzero(labels == value)
            codes[np.ix_(own, np.array(self._others))] = model.rows(own.size, chance)
        if self.label is not None:
            codes[:, self.label] = labels
        columns = {}
        for k, item in enumerate(self.domain.by):
            words = [self.domain.shown(k, code) for code in range(self.domain.sizes[k])]
            columns[item.name] = tuple(words[code] for code in codes[:, k].tolist())
        return body_of(columns, {}, None)

    def _models(self, joint: Joint, found: SynthesisPrices, chance: Source) -> list[TreeModel]:
        """A distribution of the other columns for each value of the label; one where there is no label."""
        moved = self._moved
        single, pair = (Noise.gaussian(moved, 1, z) for z in (found.single, found.pair))
        singles = [_noisy(self._split(joint, (k,)), single, chance) for k in range(len(self._others))]
        edges = self._edges(joint, singles, found, float(pair.spread), chance)
        pairs = {edge: _noisy(self._split(joint, edge), pair, chance) for edge in edges}
        spreads = float(single.spread), float(pair.spread)
        return [
            fitted([table[..., k] for table in singles], {e: table[..., k] for e, table in pairs.items()}, *spreads)
            for k in range(singles[0].shape[-1])
        ]

    def _split(self, joint: Joint, places: tuple[int, ...]) -> Whole:
        """Marginal counts of the columns at these places, with the label's values as the last axis."""
        own = tuple(self._others[place] for place in places)
        return joint.marginal(own)[..., None] if self.label is None else joint.marginal((*own, self.label))

    def _edges(
        self, joint: Joint, singles: list[Floats], found: SynthesisPrices, noise: float, chance: Source
    ) -> list[Edge]:
        """A spanning tree, edge by edge: each joins two parts that were apart."""
        scores = self._scores(joint, singles, noise)
        part = list(range(len(singles)))
        chosen: list[Edge] = []
        while len(chosen) < len(singles) - 1:
            left = [edge for edge in scores if part[edge[0]] != part[edge[1]]]
            answer = exponential(
                np.array([scores[edge] for edge in left], dtype=np.int64),
                sensitivity=FINE * self._moved + 1,  # rounded after the sum, so one more
                epsilon=found.choice,
                adjacency=self._neighbours,
                rng=chance,
            )
            edge = left[int(answer.value)]
            chosen.append(edge)
            part = [part[edge[0]] if label == part[edge[1]] else label for label in part]
        return chosen

    def _scores(self, joint: Joint, singles: list[Floats], noise: float) -> dict[Edge, int]:
        """How much each pair depends, in steps of 1/64 person: the noisy singles and the size of a table are public."""
        positive = [np.maximum(table, 0) for table in singles]
        shares = [table / np.maximum(table.sum(axis=0), 1.0) for table in positive]
        totals = np.maximum(np.mean([table.sum(axis=0) for table in singles], axis=0), 1.0)
        scores = {}
        for i, j in itertools.combinations(range(len(singles)), 2):
            exact = self._split(joint, (i, j))
            expected = np.einsum("ik,jk,k->ijk", shares[i], shares[j], totals)
            added = (0.0 if self.label is None else NOISE_SHARE) * math.sqrt(2 / math.pi) * noise * exact.size
            scores[i, j] = round((float(np.abs(exact - expected).sum()) - added) * FINE)
        return scores


def _noisy(table: Whole, noise: Noise, chance: Source) -> Floats:
    return (table + noise.drawn(table.size, chance).reshape(table.shape)).astype(np.float64)
