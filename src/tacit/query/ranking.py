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
NARROW = (("uint8", 0, 2**8 - 1), ("int16", -(2**15), 2**15 - 1), ("int32", -(2**31), 2**31 - 1))
"""Types of whole numbers, with the least and the largest that they hold."""


def kept_rows(shape: Shape, rows: Any) -> Any:
    """Rows of the groups that a person counts in, in a form that is cheap to add up.

    The rank is dense: all rows of a group have its place, so a person keeps at most `max_groups` groups whatever and
    however many rows they have. `first` is 1 in one row of each person and group.

    Whose a row is (`u`) is left out where the person has at most `max_rows` rows in the group: nothing needs to be
    bounded there, so nobody is told apart.
    """
    hashed, window = _hashed(shape, rows)
    hashed = hashed.mutate(**_narrow_keys(shape, hashed))
    alike = ibis().window(group_by="u", order_by=["h", *shape.names], range=(0, 0))  # the person's rows in the group
    ranked = hashed.mutate(
        r=ibis().dense_rank().over(window),
        row=ibis().row_number().over(window),
        start=ibis().rank().over(window),
        own=hashed.count().over(alike),
    )
    kept = ranked.filter(ranked["r"] < whole(shape.max_groups))
    nobody = ibis().null(kept["u"].type())
    told = ibis().ifelse(kept["own"] > whole(shape.max_rows), kept["u"], nobody)
    first = ibis().ifelse(kept["row"] == kept["start"], ibis().literal(1, "int8"), ibis().literal(0, "int8"))
    return kept.mutate(u=told, first=first).drop("h", "r", "row", "start", "own")


def _narrow_keys(shape: Shape, rows: Any) -> dict[str, Column]:
    """Keys that are listed whole numbers in as few bits as hold the list: there is less to sort."""
    if shape.keys is None:
        return {}
    found = {}
    for place, name in enumerate(shape.names):
        if rows[name].type().is_integer():
            listed: list[Any] = [key[place] for key in shape.keys.values]
            kinds = [kind for kind, low, high in NARROW if low <= min(listed) and max(listed) <= high]
            found[name] = rows[name].try_cast(kinds[0]) if kinds else rows[name]
    return found


def ranked_groups(shape: Shape, groups: Any, *, lost: bool) -> Any:
    """`r`: the place of a group among the person's; `any`: whether bounding cut something in one of them.

    groups: one row for every person and group.
    """
    hashed, window = _hashed(shape, groups)
    columns = {"r": ibis().row_number().over(window)}
    columns |= {"any": hashed["cut"].max().over(ibis().window(group_by="u"))} if lost else {}
    return hashed.mutate(**columns)


def _hashed(shape: Shape, relation: Any) -> tuple[Any, Any]:
    """Rows with their hash `h`, and the window in which a person's are put in order."""
    hashed = relation.mutate(h=_hash(shape, [relation[shape.own[-1]], *(relation[name] for name in shape.names)]))
    return hashed, ibis().window(group_by="u", order_by=["h", *shape.names])


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
