"""What one person adds to a statistic, in whole numbers: the terms that noise is added to.

A person's contribution to a group is a function of that person's rows alone and lies in [-most, most] whatever they
hold. `most` is public: it is what the noise is scaled by.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from .engines import ibis
from .values import Column, Value, whole

Item = TypeVar("Item")


def _numbered(items: Iterable[Item]) -> dict[Item, int]:
    return {item: place for place, item in enumerate(items)}


@dataclass(frozen=True)
class Held:
    """Where what rows hold is found: clipped numbers `y0` .., values `v0` .. with sums `s0` .., and bounds `o0` ..

    `columns` gives for each column the place of a clipped number, whose presence is counted.
    """

    values: dict[Value, int]
    cuts: dict[tuple[str, tuple[float, float]], int]
    bounds: dict[tuple[str, float, float], int]

    @classmethod
    def of(cls, terms: Iterable[Term]) -> Held:
        values = dict.fromkeys(value.added for term in terms for value in term.values)
        cuts = dict.fromkeys(value.cut for value in values)
        bounds = dict.fromkeys(value.bounds for value in values)
        return cls(_numbered(values), _numbered(cuts), _numbered(bounds))

    @property
    def columns(self) -> dict[str, int]:
        return {column: place for (column, _), place in reversed(self.cuts.items())}


@dataclass(frozen=True)
class Person:
    """One person's rows in one group, added up: `n`, sums `s0` .. of values, and what `Held` counts of columns."""

    relation: Any
    held: Held

    @property
    def rows(self) -> Column:
        return self.relation["n"]

    @property
    def people(self) -> Column:
        """How many people these rows are of, where rows were ranked first."""
        return self.relation["people"]

    def sum(self, value: Value) -> Column:
        """The sum of the whole numbers that the rows hold; that of centred ones follows from the sum of steps."""
        found = self.relation[f"s{self.held.values[value.added]}"]
        return found if value.added == value else found - self.count(value.column) * whole(value.grid.middle)

    def count(self, column: str) -> Column:
        """How many rows hold a number."""
        return self.relation[f"c{self.held.columns[column]}"]

    def outside(self, value: Value) -> Column:
        """Whether any number lay beyond the bounds."""
        return self.relation[f"o{self.held.bounds[value.bounds]}"] > whole(0)


class Term(ABC):
    """One whole number per person and group. Frozen and public: equal terms are computed and paid once."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The values of a row that this term adds up."""
        return ()

    @abstractmethod
    def most(self, rows: int) -> int:
        """How far one person moves the statistic of one group, where `rows` rows of a person count at most."""

    @abstractmethod
    def bounded(self, person: Person, rows: int) -> Column:
        """The person's contribution to the group, in [-most, most]."""

    @abstractmethod
    def plain(self, person: Person) -> Column:
        """What several people add together of whom nobody has more rows than count: no bound could change it."""

    @abstractmethod
    def cut(self, person: Person, rows: int) -> Column:
        """Whether bounding changed this person's contribution."""


@dataclass(frozen=True)
class People(Term):
    """1 for every person in the group."""

    def most(self, rows: int) -> int:
        return 1

    def bounded(self, person: Person, rows: int) -> Column:
        return ibis().least(person.rows, whole(1))

    def plain(self, person: Person) -> Column:
        return person.people

    def cut(self, person: Person, rows: int) -> Column:
        return ibis().literal(False)


@dataclass(frozen=True)
class Rows(Term):
    """The rows of a person, at most `rows`."""

    def most(self, rows: int) -> int:
        return rows

    def bounded(self, person: Person, rows: int) -> Column:
        return ibis().least(person.rows, whole(rows))

    def plain(self, person: Person) -> Column:
        return person.rows

    def cut(self, person: Person, rows: int) -> Column:
        return person.rows > whole(rows)


@dataclass(frozen=True)
class Numbers(Term):
    """The rows of a person that hold a number in a column, at most `rows`; another term adds up that column."""

    of: str

    def most(self, rows: int) -> int:
        return rows

    def bounded(self, person: Person, rows: int) -> Column:
        return ibis().least(person.count(self.of), whole(rows))

    def plain(self, person: Person) -> Column:
        return person.count(self.of)

    def cut(self, person: Person, rows: int) -> Column:
        return person.count(self.of) > whole(rows)


@dataclass(frozen=True)
class Total(Term):
    """The sum of a person's numbers, clipped on both sides to what `rows` rows can hold.

    With bounds [low, high] that is [min(low, 0), max(high, 0)] times `rows`: many small rows are kept whole.
    """

    of: Value

    @property
    def values(self) -> tuple[Value, ...]:
        return (self.of,)

    def most(self, rows: int) -> int:
        return rows * self.of.most

    def bounded(self, person: Person, rows: int) -> Column:
        low, high = self._ends(rows)
        return ibis().greatest(ibis().least(person.sum(self.of), whole(high)), whole(low))

    def plain(self, person: Person) -> Column:
        return person.sum(self.of)

    def cut(self, person: Person, rows: int) -> Column:
        low, high = self._ends(rows)
        total = person.sum(self.of)
        return person.outside(self.of) | (total > whole(high)) | (total < whole(low))

    def _ends(self, rows: int) -> tuple[int, int]:
        return rows * min(self.of.grid.low, 0), rows * max(self.of.grid.high, 0)


@dataclass(frozen=True)
class Share(Term):
    """A person's numbers, added where there are at most `rows`, else `rows` times their mean, rounded to a step.

    A person with many rows keeps the mean of their own, so that ratios with `Numbers` are means over rows that count.
    """

    of: Value

    @property
    def values(self) -> tuple[Value, ...]:
        return (self.of,)

    def most(self, rows: int) -> int:
        return rows * self.of.most

    def bounded(self, person: Person, rows: int) -> Column:
        total, count, most = person.sum(self.of), person.count(self.of.column), whole(self.of.most)
        doubled = (whole(2) * (total + count * most) + count).cast("float64")  # of numbers from 0 to 2 most
        mean = (doubled / ibis().greatest(whole(2) * count, whole(1)).cast("float64")).floor().cast("int64") - most
        kept = ibis().greatest(ibis().least(mean, most), -most) * whole(rows)
        within = ibis().greatest(ibis().least(total, whole(self.most(rows))), whole(-self.most(rows)))
        return ibis().ifelse(count > whole(rows), kept, within)

    def plain(self, person: Person) -> Column:
        return person.sum(self.of)

    def cut(self, person: Person, rows: int) -> Column:
        return person.outside(self.of) | (person.count(self.of.column) > whole(rows))
