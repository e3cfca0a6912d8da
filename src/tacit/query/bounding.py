"""The one pass over the data: bound what each person contributes, then add up, in whole numbers.

    rows      without an id or outside the question are dropped; every row holds whole numbers
    persons   rows of one person in one group are added up and clipped on both sides
    ranks     a person in more groups than `max_groups` keeps those of the least salted hash
    groups    contributions are added up

Every step before the last looks at one person's rows only. The hash is salted with a public constant: which groups are
kept depends on the person's own id and groups, never on others and never on chance that could be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput, NotFinished
from .engines import NATIVE, Opened, ibis
from .keys import By, Key, Keys
from .terms import Held, People, Person, Share, Term
from .turns import turn
from .values import Column, Value, clipped, engines_own, outside, respelt, spelling, whole

SALT = "tacit.query/1"
ROOM = 2**61
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """The public description of a question to the engine: table, unit, conditions, groups and limits."""

    table: Opened
    unit: str | None
    conditions: tuple[Any, ...]
    by: tuple[By, ...]
    keys: Keys | None
    max_groups: int
    max_rows: int
    portable: bool = False

    @property
    def groups(self) -> int:
        """How many groups one person counts in at most."""
        if not self.by or self.unit is None:
            return 1
        return self.max_groups if self.keys is None else min(self.max_groups, len(self.keys.values))

    @property
    def own(self) -> tuple[str, ...]:
        """Columns that say whose a row is: `u`, and where an engine may take two spellings for one person, `e`.

        `e` is the least of a person's own spellings in a group. An engine calls a group by the spelling that it reads
        first: a choice by that one would hang on the order of everybody's rows.
        """
        if self.unit is None:
            return ()
        by_value = self.native and not self.table.column(self.unit).type().is_string()  # equal values, equal hashes
        return ("u", "e") if not by_value and respelt(self.table, self.unit) else ("u",)

    @property
    def native(self) -> bool:
        """Whether DuckDB's own hash chooses a person's groups."""
        return self.table.engine == NATIVE and not self.portable

    @property
    def rows(self) -> int:
        """How many rows one person counts with in a group."""
        return 1 if self.unit is None else self.max_rows


@dataclass(frozen=True)
class Totals:
    """Exact statistics, never released as they are: for each key one whole number per term."""

    keys: tuple[Key, ...]
    people: Whole
    terms: Mapping[Term, Whole]
    lost: int
    everybody: int


def totals(shape: Shape, terms: tuple[Term, ...], *, lost: bool) -> Totals:
    """Run the pass. `lost`: also count the people from whom bounding took something."""
    found = executed(shape.table, query(shape, terms, lost=lost))
    names = [f"k{place}" for place in range(len(shape.by))]
    rows = list(zip(*(found[name].to_pylist() for name in names), strict=True)) if names else [()] * found.num_rows
    keys = tuple(sorted(rows, key=spelt)) if shape.keys is None else shape.keys.values
    place = {key: k for k, key in enumerate(rows)}

    def column(name: str) -> Whole:
        numbers = [int(number or 0) for number in found[name].to_pylist()]
        return np.array([numbers[place[key]] if key in place else 0 for key in keys], dtype=np.int64)

    def together(name: str) -> int:
        return sum(int(number or 0) for number in found[name].to_pylist()) if lost else 0

    values = {term: column("people" if isinstance(term, People) else f"t{k}") for k, term in enumerate(terms)}
    return Totals(keys, column("people"), values, together("lost"), together("everybody"))


def spelt(row: tuple[Any, ...]) -> tuple[str, ...]:
    """An order that hangs on no engine's threads, so that a seed gives each key the same noise every time."""
    return tuple(map(repr, row))


def executed(table: Opened, expression: Any) -> Any:
    """An Arrow table. What an engine says when it fails may hold data, so only the kind of the error is told."""
    try:
        with turn(table.backend):
            return table.backend.to_pyarrow(expression)
    except Exception as error:
        if isinstance(error, MemoryError | BadInput):
            raise
        raise NotFinished(
            f"The engine ({table.engine}) stopped with {type(error).__name__}.",
            fix="Ask again with the same key: what was charged is not charged again.",
        ) from None


def query(shape: Shape, terms: tuple[Term, ...], *, lost: bool) -> Any:
    """The expression: for every group `people`, `t0`, `t1` .. and, if asked for, `lost` and `everybody`."""
    held = Held.of(terms)
    persons = _persons(shape, held, lost=lost)
    person = Person(persons, held)
    rows = shape.rows
    added = {f"t{k}": term for k, term in enumerate(terms) if not isinstance(term, People)}  # people are counted anyway
    columns = {name: _narrow(term.bounded(person, rows), term.most(rows)) for name, term in added.items()}
    columns |= {"cut": _cut(person, terms, rows)} if lost else {}
    names = [f"k{place}" for place in range(len(shape.by))]
    bounded = persons.select(*shape.own, *names, **columns)
    if shape.unit is not None and shape.by:
        return _over_groups(_ranked(shape, bounded, names, lost=lost), names, list(added), shape.max_groups, lost=lost)
    sums = {"people": bounded.count().cast("int64")}
    sums |= {name: _added(bounded[name]) for name in added}
    if lost:
        sums |= {"lost": _number(bounded["cut"]).sum().cast("int64"), "everybody": bounded.count().cast("int64")}
    return bounded.group_by(names).aggregate(**sums) if names else bounded.aggregate(**sums)


def numbers(shape: Shape, value: Value) -> Any:
    """How often every whole number occurs in each group, where a person has one number in each: the mean of theirs."""
    share = Share(value)
    held = Held.of([share])
    persons = _persons(shape, held, lost=False)
    person = Person(persons, held)
    names = [f"k{place}" for place in range(len(shape.by))]
    some = persons.select(*shape.own, *names, x=share.bounded(person, 1), c=person.count(value.column))
    some = some.filter(some["c"] > whole(0))
    if shape.unit is not None and shape.by:
        some = _ranked(shape, some, names, lost=False)
        some = some.filter(some["r"] < whole(shape.max_groups))
    return some.group_by([*names, "x"]).aggregate(n=some.count().cast("int64"))


def rows_of(shape: Shape, extra: Mapping[str, Column]) -> Any:
    """The rows that the question is about: `u` (whose), `k0` .. (which group), and what is asked for besides."""
    table, columns = shape.table, dict(extra)
    columns |= {f"k{place}": item.held(table) for place, item in enumerate(shape.by)}
    checks = [condition.holds(table) for condition in shape.conditions]
    if shape.unit is not None:
        columns["u"] = table.column(shape.unit)
        checks.append(present(columns["u"]))
    checks += [item.present(table) for item in shape.by]
    if shape.keys is not None and shape.by:
        checks += shape.keys.among(shape.by, table)
    relation = table.relation.filter(*checks) if checks else table.relation
    return relation.select(**columns) if columns else relation.select(one=whole(1))


def present(unit: Column) -> Column:
    """Whether a row says whose it is."""
    return unit.notnull() & ~unit.isnan() if unit.type().is_floating() else unit.notnull()


def _persons(shape: Shape, held: Held, *, lost: bool) -> Any:
    """For every person and group: `n` rows, sums `s0` .. of values, counts `c0` .. of numbers, `o0` .. of outsiders."""
    table = shape.table
    columns = {f"y{k}": clipped(table, *item) for item, k in held.cuts.items()}
    columns |= {f"w{k}": outside(table, *bounds) for bounds, k in held.bounds.items()} if lost else {}
    if "e" in shape.own:
        columns["e"] = spelling(table, table.column(str(shape.unit)))
    rows = rows_of(shape, columns)
    values = {f"v{k}": value.held(rows[f"y{held.cuts[value.cut]}"]) for value, k in held.values.items()}
    rows = rows.mutate(**values) if values else rows
    names, counted = [f"k{place}" for place in range(len(shape.by))], sorted(set(held.columns.values()))
    if shape.unit is None:
        found = {f"s{k}": rows[f"v{k}"].fill_null(0.0).cast("int64") for k in held.values.values()}
        found |= {f"c{k}": _flag(rows[f"y{k}"].notnull()) for k in counted}
        found |= {f"o{k}": rows[f"w{k}"] for k in held.bounds.values()} if lost else {}
        return rows.select(*names, n=whole(1), **found)
    sums = {f"s{k}": rows[f"v{k}"].sum().fill_null(0.0).cast("int64") for k in held.values.values()}
    sums |= {f"c{k}": rows[f"y{k}"].count().cast("int64") for k in counted}
    sums |= {f"o{k}": rows[f"w{k}"].max() for k in held.bounds.values()} if lost else {}
    sums |= {"e": rows["e"].min()} if "e" in shape.own else {}
    return rows.group_by(["u", *names]).aggregate(n=rows.count().cast("int64"), **sums)


def _flag(condition: Column) -> Column:
    return ibis().ifelse(condition, whole(1), whole(0))


def _narrow(contribution: Column, most: int) -> Column:
    """32 bits where that is enough: less is moved about when groups are ranked."""
    return contribution.cast("int32") if most < 2**31 else contribution


def _added(contributions: Column) -> Column:
    """A sum that stays within 62 bits, with room for noise: clipping moves no two sums farther apart.

    An engine would raise where a sum leaves 64 bits, and one person could be the one who makes it.
    """
    total = contributions.sum().fill_null(whole(0))
    return ibis().greatest(ibis().least(total, whole(ROOM)), whole(-ROOM)).cast("int64")


def _cut(person: Person, terms: tuple[Term, ...], rows: int) -> Column:
    return _flag(ibis().or_(*(term.cut(person, rows) for term in terms)))


def _number(flag: Column) -> Column:
    return flag.cast("int64")


def _ranked(shape: Shape, bounded: Any, names: list[str], *, lost: bool) -> Any:
    """`r`: the place of a group among the person's; `any`: whether bounding cut something in one of them."""
    hashed = bounded.mutate(h=_hash(shape, [bounded[shape.own[-1]], *(bounded[name] for name in names)]))
    window = ibis().window(group_by="u", order_by=["h", *names])
    columns = {"r": ibis().row_number().over(window)}
    columns |= {"any": hashed["cut"].max().over(ibis().window(group_by="u"))} if lost else {}
    return hashed.mutate(**columns)


def _hash(shape: Shape, columns: list[Column]) -> Column:
    """DuckDB's own hash where that is the engine; md5 of the texts where other engines must agree."""
    library = ibis()
    if shape.native:
        kinds = [*(column.type() for column in columns), "string"]
        hashed = engines_own("hash", kinds, "uint64")(*columns, SALT)
        return (hashed >> library.literal(32, "uint64")).cast("uint32")  # less to sort by; equal ones go by their keys
    # of one collation: PostgreSQL cannot join texts of two, and says so only when it reads
    texts = [spelling(shape.table, column) for column in columns]
    joined = texts[0]
    for text in texts[1:]:
        joined = joined + library.literal("|") + text
    return engines_own("md5", ["string"], "string")(joined + library.literal(f"|{SALT}"))


def _over_groups(ranked: Any, names: list[str], added: list[str], most: int, *, lost: bool) -> Any:
    """Whoever lost something is counted once: at their first group, or at the first that was not kept."""
    kept = ranked["r"] < whole(most)
    if not lost:
        rest = ranked.filter(kept)
        sums = {name: _added(rest[name]) for name in added}
        return rest.group_by(names).aggregate(people=rest.count().cast("int64"), **sums)
    rest = ranked.filter(ranked["r"] <= whole(most))
    kept, first, beyond = (_flag(place) for place in _places(rest, most))
    sums = {name: _added(rest[name] * kept) for name in added}
    sums["lost"] = (first * rest["any"] + beyond * (whole(1) - rest["any"])).sum().cast("int64")
    return rest.group_by(names).aggregate(people=kept.sum().cast("int64"), everybody=first.sum().cast("int64"), **sums)


def _places(ranked: Any, most: int) -> tuple[Column, Column, Column]:
    place = ranked["r"]
    return place < whole(most), place == whole(0), place == whole(most)
