"""Which groups of a person count: those of the least salted hash.

The hash is salted with a public constant: which groups are kept depends on the person's own id and groups, never on
others and never on chance that could be tried again. Groups of one hash are ordered by their keys, so that no two of a
person's groups have one place.
"""

from __future__ import annotations

from typing import Any

from .engines import ibis
from .shape import Shape
from .values import Column, engines_own, spelling, whole

SALT = "tacit.query/1"


def kept_rows(shape: Shape, rows: Any, *, lost: bool) -> Any:
    """Rows of the groups that a person counts in; with `lost` also of one group more, and the place `r` of each group.

    The rank is dense: all rows of a group have its place, so a person keeps at most `max_groups` groups whatever and
    however many rows they have.
    """
    return _kept(shape, rows, ibis().dense_rank(), lost=lost)


def kept_groups(shape: Shape, groups: Any, *, lost: bool) -> Any:
    """Groups that a person counts in; with `lost` also one group more, and the place `r` of each.

    groups: one row for every person and group.
    """
    return _kept(shape, groups, ibis().row_number(), lost=lost)


def _kept(shape: Shape, relation: Any, rank: Column, *, lost: bool) -> Any:
    hashed = relation.mutate(h=_hash(shape, [relation[shape.own[-1]], *(relation[name] for name in shape.names)]))
    window = ibis().window(group_by="u", order_by=["h", *shape.names])
    ranked = hashed.mutate(r=rank.over(window)).drop("h")
    if lost:
        return ranked.filter(ranked["r"] <= whole(shape.max_groups))
    return ranked.filter(ranked["r"] < whole(shape.max_groups)).drop("r")


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
