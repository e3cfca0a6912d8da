"""Many tables at once: all marginals of some columns, each cell a noisy number of people.

A person counts in at most `max_groups` combinations of all columns, once in each, so moves every marginal by at most
that. All marginals are asked of the engine in one pass, as the combinations that occur.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Event, Source, check
from ..core.errors import Argument
from ..core.events import Repeat
from ..loss import calibrate
from ..mechanism.scales import part
from .aggregates import Figure
from .answer import body_of
from .bounding import query, totals
from .consistency import agreed
from .engines import Opened
from .keys import By, ByBin, listed
from .pricing import Noise
from .question import Query
from .shape import Shape
from .terms import People
from .values import Column

Whole = NDArray[np.int64]
MOST_CELLS = 2_000_000
Subset = tuple[int, ...]


@dataclass(frozen=True)
class Among:
    """Condition: the row's value of a column is among the known values."""

    by: By
    values: tuple[Any, ...]

    def described(self, table: Opened) -> str:
        return repr(self)

    def holds(self, table: Opened) -> Column:
        return self.by.present(table) if isinstance(self.by, ByBin) else self.by.held(table).isin(list(self.values))


@dataclass(frozen=True)
class Domain:
    """Columns with all their values, known beforehand."""

    by: tuple[By, ...]
    values: tuple[tuple[Any, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.values))

    def within(self, shape: Shape) -> Shape:
        """The question about rows whose values are all known, grouped by all columns at once."""
        known = tuple(Among(item, values) for item, values in zip(self.by, self.values, strict=True))
        return replace(shape, conditions=(*shape.conditions, *known), by=self.by, keys=None)

    def shown(self, column: int, code: int) -> Any:
        return self.by[column].shown(self.values[column][code])


@dataclass(frozen=True)
class Joint:
    """The combinations that occur, by code, and how many people have each. Never released as it is."""

    codes: Whole
    people: Whole
    sizes: tuple[int, ...]

    @classmethod
    def read(cls, shape: Shape, domain: Domain) -> Joint:
        exact = totals(shape, (People(),), lost=False)
        places = [{value: code for code, value in enumerate(values)} for values in domain.values]
        rows = [[places[k].get(key[k], -1) for k in range(len(places))] for key in exact.keys]
        codes = np.array(rows, dtype=np.int64).reshape(-1, len(places))
        known = (codes >= 0).all(axis=1)  # an engine may take texts for equal that are not
        return cls(codes[known], exact.people[known], domain.sizes)

    def marginal(self, columns: Subset) -> Whole:
        """The table of some columns."""
        sizes = [self.sizes[k] for k in columns]
        flat = np.ravel_multi_index([self.codes[:, k] for k in columns], sizes) if len(self.codes) else np.zeros(0, int)
        return np.bincount(flat, self.people, minlength=int(np.prod(sizes))).astype(np.int64).reshape(sizes)


@dataclass(frozen=True)
class Marginals(Query[Noise]):
    """Noisy tables of all combinations of `ways` columns."""

    domain: Domain = field(kw_only=True)
    ways: int = field(kw_only=True)
    consistent: bool = field(default=False, kw_only=True)
    """Whether the tables are made to agree: non-negative whole numbers that add up."""

    @property
    def _subsets(self) -> list[Subset]:
        return list(itertools.combinations(range(len(self.domain.by)), self.ways))

    @property
    def _asked(self) -> Mapping[str, object]:
        return {f"{self.ways}-way marginals": (self.domain, self.ways, self.consistent)}

    def _prices(self, epsilon: float, delta: float) -> Noise:
        """One noise for all tables: Laplace, or Gaussian where that reaches less far."""
        count, moved = len(self._subsets), self.shape.max_groups if self.shape.unit is not None else 1
        each = part(check.positive("epsilon", epsilon), count)
        plain = Noise.laplace(moved, each, self._neighbours)
        if check.delta(delta) == 0:
            return plain
        found = calibrate(epsilon=epsilon, delta=delta, steps=count, adjacency=self._neighbours).noise_multiplier
        normal = Noise.gaussian(moved, 1, found)  # all of a person's combinations may fall into one cell
        return normal if normal.reach(0.05) < plain.reach(0.05) else plain

    def _event(self, found: Noise) -> Event:
        count = len(self._subsets)
        return found.event if count == 1 else Repeat(found.event, count)

    def _errors(self, found: Noise) -> Mapping[str, float | None]:
        return dict.fromkeys(self._asked, None if self.consistent else found.reach(self._failure))

    def _notes(self, found: Noise) -> tuple[str, ...]:
        if not self.consistent:
            return super()._notes(found)
        return (f"before they were made to agree, each was within {found.reach(self._failure):.4g} of the truth",)

    def _expression(self, found: Noise) -> object:
        return query(self.domain.within(self.shape), (People(),), lost=False)

    def _drawn(self, found: Noise, chance: Source) -> dict[str, object]:
        joint = Joint.read(self.domain.within(self.shape), self.domain)
        exact = {columns: joint.marginal(columns) for columns in self._subsets}
        tables = {
            columns: table + found.drawn(table.size, chance).reshape(table.shape) for columns, table in exact.items()
        }
        tables = agreed(tables, self.domain.sizes) if self.consistent else tables
        names, cells, values = [], [], []
        for columns, table in tables.items():
            values.append(table.ravel())
            title = ", ".join(self.domain.by[k].name for k in columns)
            for place in np.ndindex(*table.shape):
                names.append(title)
                cells.append(", ".join(str(self.domain.shown(k, code)) for k, code in zip(columns, place, strict=True)))
        value = np.concatenate(values)
        figure = Figure(value, np.full(value.shape, np.nan if self.consistent else found.reach(self._failure)))
        return body_of({"columns": tuple(names), "cell": tuple(cells)}, {"people": figure}, None)


def domain_of(
    table: Opened, by: Sequence[By], words: Mapping[str, Sequence[object]], *, ways: int = 1, most: int = MOST_CELLS
) -> Domain:
    """All values of every column; columns without a list are refused, and so are tables that are too large."""
    values = []
    for item in by:
        given = item.keys if isinstance(item, ByBin) else words.get(item.name)
        if given is None:
            raise BadInput(
                f"The values of column {item.name!r} are not known beforehand.",
                fix=(
                    *("List them in ", Argument("keys"), ", cut a number at edges in ", Argument("bins"), ", or give "),
                    *("them in ", Argument("schema"), "."),
                ),
            )
        values.append(tuple(dict.fromkeys(item.typed(table, value) for value in listed(given))))
    if ways > len(by):
        raise BadInput((Argument("ways"), f" must be at most the number of columns {len(by)}, got {ways}."))
    found = Domain(tuple(by), tuple(values))
    cells = math.prod(sorted(found.sizes)[-ways:])
    if cells > most:
        raise BadInput(
            f"A table of {ways} columns would have {cells:,} cells, and at most {most:,} are released.",
            fix="Leave columns out, or take fewer bins.",
        )
    return found
