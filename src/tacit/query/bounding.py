"""The one pass over the data: bound what each person contributes, then add up, in whole numbers.

    rows      without an id or outside the question are dropped; every row holds whole numbers
    persons   rows of one person in one group are added up and clipped on both sides
    ranks     a person in more groups than `max_groups` keeps some of them (`ranking`), before or after the adding
    groups    contributions are added up

Every step before the last looks at one person's rows only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput, NotFinished
from .engines import Opened, ibis
from .keys import Key
from .ranking import kept_rows, ranked_groups
from .shape import Shape
from .terms import Held, People, Person, Share, Term
from .turns import turn
from .values import Column, Value, clipped, outside, spelling, whole

ROOM = 2**61
Whole = NDArray[np.int64]


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
    names = shape.names
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


def spelt(row: tuple[object, ...]) -> tuple[str, ...]:
    """An order that hangs on no engine's threads, so that a seed gives each key the same noise every time."""
    return tuple(map(repr, row))


def executed(table: Opened, expression: object) -> Any:
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
    rows = _rows(shape, held, lost=lost)
    ranked = shape.ranked and (lost or not shape.all_kept)
    rows_first = ranked and shape.rows_first and not lost
    persons = _persons(shape, held, kept_rows(shape, rows) if rows_first else rows, lost=lost)
    person = Person(persons, held)
    added = {f"t{k}": term for k, term in enumerate(terms) if not isinstance(term, People)}  # people are counted anyway
    if rows_first:
        return _of_kept(shape, person, added)
    columns = {name: _narrow(term.bounded(person, shape.rows), term.most(shape.rows)) for name, term in added.items()}
    columns |= {"cut": _cut(person, terms, shape.rows)} if lost else {}
    bounded = persons.select(*shape.own, *shape.names, **columns)
    if ranked:
        return _over_groups(ranked_groups(shape, bounded, lost=lost), shape, list(added), lost=lost)
    sums = {"people": bounded.count().cast("int64")}
    sums |= {name: _added(bounded[name]) for name in added}
    if lost:
        sums |= {"lost": _number(bounded["cut"]).sum().cast("int64"), "everybody": bounded.count().cast("int64")}
    return bounded.group_by(shape.names).aggregate(**sums) if shape.names else bounded.aggregate(**sums)


def _of_kept(shape: Shape, person: Person, added: Mapping[str, Term]) -> Any:
    """The sums of rows that were ranked first: people with many rows in a group one by one, all others as they are."""
    alone = person.relation["u"].notnull()
    columns = {
        name: ibis().ifelse(alone, term.bounded(person, shape.rows), term.plain(person)) for name, term in added.items()
    }
    bounded = person.relation.select(*shape.names, people=person.people, **columns)
    sums = {name: _added(bounded[name]) for name in ("people", *added)}
    return bounded.group_by(shape.names).aggregate(**sums)


def numbers(shape: Shape, value: Value) -> Any:
    """How often every whole number occurs in each group, where a person has one number in each: the mean of theirs."""
    share = Share(value)
    held = Held.of([share])
    persons = _persons(shape, held, _rows(shape, held, lost=False), lost=False)
    person = Person(persons, held)
    some = persons.select(*shape.own, *shape.names, x=share.bounded(person, 1), c=person.count(value.column))
    some = some.filter(some["c"] > whole(0))
    if shape.ranked and not shape.all_kept:
        some = ranked_groups(shape, some, lost=False)
        some = some.filter(some["r"] < whole(shape.max_groups))
    return some.group_by([*shape.names, "x"]).aggregate(n=some.count().cast("int64"))


def rows_of(shape: Shape, extra: Mapping[str, Column]) -> Any:
    """The rows that the question is about: `u` (whose), `k0` .. (which group), and what is asked for besides."""
    table, columns = shape.table, dict(extra)
    columns |= {name: item.held(table) for name, item in zip(shape.names, shape.by, strict=True)}
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


def _rows(shape: Shape, held: Held, *, lost: bool) -> Any:
    """The rows of the question with clipped numbers `y0` .. and, for what was lost, outsiders `w0` .."""
    table = shape.table
    columns = {f"y{k}": clipped(table, *item) for item, k in held.cuts.items()}
    columns |= {f"w{k}": outside(table, *bounds) for bounds, k in held.bounds.items()} if lost else {}
    if "e" in shape.own:
        columns["e"] = spelling(table, table.column(str(shape.unit)))
    return rows_of(shape, columns)


def _persons(shape: Shape, held: Held, rows: Any, *, lost: bool) -> Any:
    """For every person and group: `n` rows, sums `s0` .. of values, counts `c0` .. of numbers, `o0` .. of outsiders."""
    values = {f"v{k}": value.held(rows[f"y{held.cuts[value.cut]}"]) for value, k in held.values.items()}
    rows = rows.mutate(**values) if values else rows
    counted = sorted(set(held.columns.values()))
    if shape.unit is None:
        found = {f"s{k}": rows[f"v{k}"].fill_null(0.0).cast("int64") for k in held.values.values()}
        found |= {f"c{k}": _flag(rows[f"y{k}"].notnull()) for k in counted}
        found |= {f"o{k}": rows[f"w{k}"] for k in held.bounds.values()} if lost else {}
        return rows.select(*shape.names, n=whole(1), **found)
    several = "first" in rows.columns  # rows of several people are added up together
    sums = {f"s{k}": _summed(rows[f"v{k}"], value.most, several) for value, k in held.values.items()}
    sums |= {"people": rows["first"].sum().cast("int64")} if several else {}
    sums |= {f"c{k}": rows[f"y{k}"].count().cast("int64") for k in counted}
    sums |= {f"o{k}": rows[f"w{k}"].max() for k in held.bounds.values()} if lost else {}
    sums |= {"e": rows["e"].min()} if "e" in shape.own else {}
    return rows.group_by(["u", *shape.names]).aggregate(n=rows.count().cast("int64"), **sums)


def _summed(numbers: Column, most: int, several: bool) -> Column:
    """A sum of whole numbers. Double precision holds that of 2^31 numbers up to 2^22; larger ones are added in 64 bits.

    A single person's needs no more: it is cut long before it is too large to be exact.
    """
    if several and most > 2**22:
        return numbers.cast("int64").sum().fill_null(whole(0)).cast("int64")
    return numbers.sum().fill_null(0.0).cast("int64")


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


def _over_groups(ranked: Any, shape: Shape, added: list[str], *, lost: bool) -> Any:
    """Whoever lost something is counted once: at their first group, or at the first that was not kept."""
    place, most = ranked["r"], whole(shape.max_groups)
    if not lost:
        rest = ranked.filter(place < most)
        sums = {name: _added(rest[name]) for name in added}
        return rest.group_by(shape.names).aggregate(people=rest.count().cast("int64"), **sums)
    rest = ranked.filter(place <= most)
    place = rest["r"]
    kept, first, beyond = _flag(place < most), _flag(place == whole(0)), _flag(place == most)
    sums = {name: _added(rest[name] * kept) for name in added}
    sums["lost"] = (first * rest["any"] + beyond * (whole(1) - rest["any"])).sum().cast("int64")
    sums |= {"people": kept.sum().cast("int64"), "everybody": first.sum().cast("int64")}
    return rest.group_by(shape.names).aggregate(**sums)
