"""Ibis tables that are made row by row: every row of the source comes from one row of a stored table.

A limit, a sample, a window, an aggregate or a join lets one person's rows decide which rows of other people are there,
or what they hold. No sensitivity would hold then. So an ibis table is accepted only if every node of its expression is
on the lists below. They hold relations that keep, drop or change rows one at a time, and values that look at one row.
Values that
an engine could fail to compute for somebody's row (whole numbers that overflow, texts that are no numbers) are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.errors import BadInput

Node = Any
"""A node of an ibis expression; ibis has no types of its own that mypy could use."""
Kind = Any
RELATIONS = frozenset({"DatabaseTable", "Project", "Filter", "DropColumns", "DropNull", "FillNull"})
COMPARED = frozenset({
    "And", "Or", "Not", "Xor", "Equals", "NotEquals", "Less", "LessEqual", "Greater", "GreaterEqual", "Between",
    "InValues", "IsNull", "NotNull", "IsNan", "IsInf", "Field", "Literal", "Lowercase", "Uppercase", "Strip",
    "LStrip", "RStrip", "StartsWith", "EndsWith", "StringContains", "StringLength", "StringSQLLike", "StringSQLILike",
    "ExtractYear", "ExtractMonth", "ExtractDay", "ExtractHour", "ExtractQuarter", "Coalesce", "IdenticalTo",
})  # fmt: skip
"""Values that look at one row, and fail on none where their parts have one kind."""
ARITHMETIC = frozenset({"Add", "Subtract", "Multiply", "Divide", "Negate", "Abs"})
"""In double precision DuckDB gives infinity or NaN where others raise."""
MADE = COMPARED | ARITHMETIC | {"Cast", "TryCast", "IfElse", "SearchedCase", "SimpleCase", "StringConcat", "Substring"}
PATTERNS = frozenset({"StringSQLLike", "StringSQLILike"})
MATCHES = PATTERNS | {"StartsWith", "EndsWith", "StringContains"}
"""Operations that PostgreSQL refuses for a collation of its own, and says so only when it reads a row."""
NATIVE = "duckdb"
PLAIN = frozenset({"boolean", "numeric", "string", "date"})
OTHER_ROWS = (
    "An ibis table may only be made row by row, and this one uses {}: one person could move other people's rows."
)
PREPARE = "Keep to select, filter, drop, rename and mutate of one row's values; ask everything else of tacit.Table."
GUESSED = "The types of the columns would be guessed from people's values, and others would stop the engine."
ITSELF = "Give the path of the .csv file itself, or its rows as a data frame."
GUESSING = ("CSV", "JSON", "XLSX", "SQLITE", "PANDAS", "ARROW")
"""How DuckDB's ways to read texts, and rows that lie in Python's memory, are called."""
MAY_FAIL = "The ibis table uses {} in a way that an engine may fail at for some value, and the error would tell of it."
SAFELY = "Convert with try_cast, calculate with float64, and compare values of one kind."


def kind_of(node: Node, names: Iterable[str]) -> str | None:
    """The name of a node's class where it is one of ibis's own classes; somebody's function may have the same name."""
    from ibis.expr import operations

    name = type(node).__name__
    return name if name in names and getattr(operations, name, None) is type(node) else None


def check_rows(relation: Any, engine: str) -> None:
    """Refuse an ibis table in which a row depends on another row, or whose expressions may fail on a value."""
    from ibis.expr import operations

    for node in relation.op().find(operations.Node):
        if kind_of(node, RELATIONS) is not None:
            continue
        if isinstance(node, operations.InMemoryTable):
            raise BadInput(GUESSED, fix=ITSELF)
        name = kind_of(node, MADE)
        if name is None:
            raise BadInput(OTHER_ROWS.format(type(node).__name__), fix=PREPARE)
        if not _cannot_fail(node, name, engine):
            raise BadInput(MAY_FAIL.format(name), fix=SAFELY)


def check_scans(relation: Any, engine: Any) -> None:
    """Refuse a table whose types DuckDB guesses from values: the plan tells what is read, also behind views."""
    if engine.name != NATIVE:
        return
    try:
        plans = engine.raw_sql(f"explain (format json) {engine.compile(relation)}").fetchall()
    except Exception:  # what the engine says of a file that it cannot read may hold values
        raise BadInput("The table cannot be read.", fix="Are the files there that its view reads?") from None
    if any(mark in name for _, plan in plans for name in _operators(json.loads(plan)) for mark in GUESSING):
        raise BadInput(GUESSED, fix=ITSELF)


def _operators(plan: Sequence[dict[str, Any]]) -> list[str]:
    """The names of all operators of a plan."""
    return [name for node in plan for name in (str(node["name"]), *_operators(node["children"]))]


def check_pattern(node: Node) -> None:
    """A pattern of a column, or one that ends with half an escape, is an error for some values and not for others."""
    text = node.pattern.value if type(node.pattern).__name__ == "Literal" else None
    if not isinstance(text, str) or node.escape is not None:
        raise BadInput("A pattern is a constant text without an escape character of its own.")
    if (len(text) - len(text.rstrip("\\"))) % 2:
        raise BadInput("A pattern may not end with a single backslash.", fix="Write it twice.")


def family(kind: Kind) -> str:
    """Kinds that engines compare without a cast that may fail on a value."""
    names = ("boolean", "numeric", "string", "date", "timestamp", "time")
    return next((name for name in names if getattr(kind, f"is_{name}")()), str(kind))


def _cannot_fail(node: Node, name: str, engine: str) -> bool:
    if name in ("Field", "Literal"):
        return True
    if name in PATTERNS:
        check_pattern(node)
    if name in MATCHES and engine == "postgres":
        return False
    if name == "Cast":
        return _widens(node.arg.dtype, node.to)
    if name == "TryCast":
        return family(node.arg.dtype) in PLAIN and family(node.to) in PLAIN and not node.to.is_decimal()
    if name == "Substring":
        return all(_constant(part) for part in (node.start, node.length))
    if name.startswith("Extract") and node.arg.dtype.is_timestamp() and node.arg.dtype.scale not in (None, 6, 9):
        return False
    if name in ARITHMETIC:
        return engine == NATIVE and node.dtype.is_floating() and _in_double(_parts(node.__args__))
    return all(_of_one_kind(part) for part in _brought_together(node, name))


def _widens(own: Kind, to: Kind) -> bool:
    """Whether a cast has a result for every value: texts of numbers, and numbers in a type that holds them all."""
    if own.copy(nullable=True) == to.copy(nullable=True):
        return True
    if to.is_string():
        return bool(own.is_numeric() or own.is_boolean() or own.is_date())
    if to.is_float64():
        return bool(own.is_integer() or own.is_floating())
    if to.is_integer() and own.is_integer():
        return bool(to.bounds.lower <= own.bounds.lower and own.bounds.upper <= to.bounds.upper)
    return bool(to.is_integer() and own.is_boolean())


def _constant(part: Node) -> bool:
    return part is None or (kind_of(part, ("Literal",)) is not None and isinstance(part.value, int) and part.value >= 0)


def _in_double(parts: Sequence[Node]) -> bool:
    """Whether an engine computes in floating point: one part does, and the others are no decimals."""
    kinds = [part.dtype for part in parts]
    return any(kind.is_floating() for kind in kinds) and not any(kind.is_decimal() for kind in kinds)


def _brought_together(node: Node, name: str) -> list[list[Node]]:
    """Groups of values that the engine brings to one type each."""
    if name == "IfElse":
        return [_parts((node.true_expr, node.false_null_expr))]
    if name == "SearchedCase":
        return [_parts((*node.results, node.default))]
    if name == "SimpleCase":
        return [_parts((node.base, *node.cases)), _parts((*node.results, node.default))]
    return [_parts(node.__args__)]


def _parts(given: Iterable[object]) -> list[Node]:
    from ibis.expr import operations

    flat = [item for part in given for item in (part if isinstance(part, tuple) else (part,))]
    return [item for item in flat if isinstance(item, operations.Value) and not item.dtype.is_null()]


def _of_one_kind(parts: Sequence[Node]) -> bool:
    kinds = {part.dtype.copy(nullable=True) for part in parts}
    if len(kinds) < 2:
        return True
    if len({family(kind) for kind in kinds}) > 1 or any(kind.is_decimal() for kind in kinds):
        return False
    if any(kind.is_timestamp() for kind in kinds):
        return len({kind.timezone for kind in kinds}) == 1 and all(kind.scale in (None, 6) for kind in kinds)
    return True
