"""Conditions that fail on no value: what an engine would cast on its own, and could fail to, is cast here or refused.

Engines bring the two sides of a comparison to one type first. A whole number does not fit into every decimal, nor a
second of the year 100,000 into nanoseconds. The engine then stops, and whoever sees that has learnt something about the
one person who holds the value. So numbers of different kinds are compared in double precision, times are compared with
constants of their own precision, and patterns are constants.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from ..core.errors import BadInput
from .engines import COARSE, Opened, ibis
from .row_wise import COMPARED, MATCHES, PATTERNS, check_pattern, family, kind_of
from .values import Column, doubled, exact_text, number_of, real

ALLOWED = COMPARED
"""Operations of ibis that look at one row and, with the rules of this module, fail on no value."""
NANO = 9
Node = Any
Kind = Any


def total(found: Column, table: Opened) -> Column:
    """The condition with every cast written out; one that could fail on a value is refused."""
    values = ibis().expr.operations.Value

    def checked(node: Node, changed: dict[str, object] | None) -> Node:
        return _total(node if changed is None else node.__recreate__(changed), table)

    return found.op().replace(checked, filter=values).to_expr()


def described(node: Node) -> str:
    """All that tells one condition from another, without the name of the table."""
    return json.dumps(_structure(node))


def constant(moment: Any, kind: Kind) -> Column:
    """A date or time in the precision of the column that it is compared with.

    One without a time zone is in UTC where the column has one: the engine would take that of its session.
    """
    if not kind.is_timestamp():
        return ibis().literal(moment)
    if moment.tzinfo is None and kind.timezone is not None:
        moment = moment.replace(tzinfo=UTC)
    zoned = moment.tzinfo is not None
    if zoned and kind.timezone is None:
        raise BadInput("The column holds times without a time zone.", fix="Compare with one that has none either.")
    given = ibis().literal(_in_utc(moment) if zoned else moment)
    if kind.scale is None:
        return given.cast(kind) if zoned else given
    if kind.scale == NANO and not 1678 <= moment.year <= 2261:
        raise BadInput("Times in nanoseconds lie between the years 1678 and 2261.", fix="Compare with one of those.")
    if moment.microsecond % 10 ** (6 - min(kind.scale, 6)):
        raise BadInput("The column holds times of less precision.", fix="Compare with whole seconds.")
    return given.cast(kind)


def constants(expression: Node) -> list[Column]:
    """Constants that the engine casts or makes. An engine that cannot do so fails only when it reads a row."""
    operations = ibis().expr.operations
    cast = [node for node in expression.op().find(operations.Cast) if isinstance(node.arg, operations.Literal)]
    made = [node for node in expression.op().find(operations.Literal) if node.dtype.is_timestamp()]
    return [node.to_expr() for node in (*cast, *made)]


def _in_utc(moment: datetime) -> str:
    """A time as text in UTC: of another zone ibis would write the name of Python's object, which no engine knows."""
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError:
        raise BadInput("Times lie between the years 1 and 9999.") from None


def _structure(node: Node) -> Any:
    operations = ibis().expr.operations
    if isinstance(node, operations.Field):
        return ["column", node.name]
    if isinstance(node, operations.Literal):
        return ["constant", str(node.dtype), repr(node.value)]
    if isinstance(node, operations.ScalarUDF):  # ibis numbers the classes of functions: another name each time
        return [node.__func_name__, *map(_structure, node.__args__)]
    if isinstance(node, operations.Node):
        return [type(node).__name__, *map(_structure, node.__args__)]
    return list(map(_structure, node)) if isinstance(node, tuple) else repr(node)


def _total(node: Node, table: Opened) -> Node:
    operations = ibis().expr.operations
    name = kind_of(node, ALLOWED)
    if name is None:
        raise BadInput(
            f"A condition may not use {type(node).__name__}.",
            fix="Compare columns with constants; prepare anything else in the table itself, row by row.",
        )
    if isinstance(node, operations.Field) and node.rel != table.relation.op():
        raise BadInput("A condition may only use columns of this table.")
    if isinstance(node, operations.Field):
        table.column(node.name)  # refuses kinds that an engine cannot read
    if name in PATTERNS:
        check_pattern(node)
    if name in MATCHES:
        node = _spelt(node, table)
    if name.startswith("Extract") and node.arg.dtype.is_timestamp() and node.arg.dtype.scale in COARSE:
        raise BadInput(
            "Parts of times are taken of microseconds and nanoseconds alone.", fix="Compare the time itself."
        )
    return _aligned(node, table)


def _spelt(node: Node, table: Opened) -> Node:
    """The node with its texts as they are spelt, which no collation changes."""
    names = zip(node.__argnames__, node.__args__, strict=True)
    texts = {name: part for name, part in names if isinstance(part, ibis().expr.operations.Value)}
    changed = {name: exact_text(table, part.to_expr()).op() for name, part in texts.items() if _varies(part)}
    return node.__recreate__({**dict(zip(node.__argnames__, node.__args__, strict=True)), **changed})


def _varies(part: Node) -> bool:
    return bool(part.dtype.is_string() and type(part).__name__ != "Literal")


def _aligned(node: Node, table: Opened) -> Node:
    """The node with its parts of one kind; parts that no cast can bring together are refused."""
    operations = ibis().expr.operations
    parts = [part for part in node.__args__ if isinstance(part, operations.Value)]
    lists = [part for part in node.__args__ if isinstance(part, tuple)]
    parts += [item for part in lists for item in part if isinstance(item, operations.Value)]
    kinds = [part.dtype for part in parts if not part.dtype.is_null()]
    if len({family(kind) for kind in kinds}) > 1:
        raise BadInput("A condition may only compare values of one kind: an engine would cast them, and could fail.")
    if len(kinds) < 2 or not (kinds[0].is_numeric() or kinds[0].is_timestamp()):
        return node
    moved = _numbers(parts, kinds, table) if kinds[0].is_numeric() else _times(parts)
    changed = {name: _replaced(part, moved) for name, part in zip(node.__argnames__, node.__args__, strict=True)}
    return node.__recreate__(changed) if moved else node


def _replaced(part: object, moved: dict[Node, Node]) -> object:
    return tuple(moved.get(item, item) for item in part) if isinstance(part, tuple) else _one(part, moved)


def _one(part: object, moved: dict[Node, Node]) -> Any:
    return moved.get(part, part) if isinstance(part, ibis().expr.operations.Value) else part


def _numbers(parts: list[Node], kinds: list[Kind], table: Opened) -> dict[Node, Node]:
    """Whole numbers among themselves stay as they are; all others are compared in double precision."""
    if all(kind.is_integer() for kind in kinds):
        return {}
    found = {}
    for part in parts:
        if type(part).__name__ == "Literal" and part.dtype.is_decimal():
            found[part] = real(float(part.value)).op()  # an engine would cast it to a decimal that it may not fit
            continue
        if part.dtype.is_null() or part.dtype.is_floating() or type(part).__name__ == "Literal":
            continue
        column = type(part).__name__ == "Field"
        wide = number_of(table, part.name) if column else doubled(table, part.to_expr())
        found[part] = wide.op()
    return found


def _times(parts: list[Node]) -> dict[Node, Node]:
    constants = [part for part in parts if type(part).__name__ == "Literal" and not part.dtype.is_null()]
    columns = {part.dtype for part in parts if part not in constants and not part.dtype.is_null()}
    if len({(kind.scale, kind.timezone) for kind in columns}) > 1:
        raise BadInput("A condition may only compare times of one precision and time zone.")
    kind = next(iter(columns), None)
    if kind is None:
        return {}
    if not all(isinstance(part.value, datetime) for part in constants):
        raise BadInput("A time is compared with times.")
    return {part: constant(part.value, kind).op() for part in constants}
