"""Which rows a question is about: conditions on one row at a time.

A condition may not look at other rows (an average, a rank, a subquery): then one person could move many rows in or out,
and no sensitivity would hold. Nor may it fail on a value: arithmetic overflows, division by zero raises, and whoever
sees the error has learnt something. So conditions are comparisons of columns with constants, joined by and, or, not.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import BadInput
from .sources import Opened, ibis
from .values import Column, number_of, real

COMPARISON = re.compile(
    r"\s*(?P<column>`[^`]+`|[^\s=<>!`]+)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>.+?)\s*", re.DOTALL
)
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ALLOWED = frozenset({
    "And", "Or", "Not", "Xor", "Equals", "NotEquals", "Less", "LessEqual", "Greater", "GreaterEqual", "Between",
    "InValues", "IsNull", "NotNull", "IsNan", "IsInf", "Field", "Literal", "NULL", "Lowercase", "Uppercase", "Strip",
    "LStrip", "RStrip", "StartsWith", "EndsWith", "StringContains", "StringLength", "StringSQLLike", "StringSQLILike",
    "ExtractYear", "ExtractMonth", "ExtractDay", "ExtractHour", "ExtractQuarter", "Coalesce", "FillNull", "IdenticalTo",
})  # fmt: skip
"""Operations of ibis that look at one row and fail on no value."""


@dataclass(frozen=True)
class Comparison:
    """`column sign value`, as text: `age >= 30`, `city = Basel`."""

    column: str
    sign: str
    value: str

    def described(self, table: Opened) -> str:
        return f"{self.column} {self.sign} {self.value}"

    def holds(self, table: Opened) -> Column:
        found = table.column(self.column)
        kind, text = found.type(), _unquoted(self.value)
        compare = SIGNS[self.sign]
        if kind.is_boolean():
            return compare(found, _truth(text, self.column))
        if kind.is_numeric() or (kind.is_string() and self.value == text and _is_number(text)):
            if not _is_number(text):
                raise BadInput(f"Column {self.column!r} holds numbers and is compared with a text.")
            if kind.is_string() and self.sign in ("=", "==", "!="):
                return compare(found, text)
            return compare(number_of(table, self.column), real(float(text)))
        if kind.is_date() or kind.is_timestamp():
            return compare(found, _moment(text, self.column, kind))
        if kind.is_string():
            return compare(found, text)
        raise BadInput(f"Column {self.column!r} cannot be compared: it holds {kind}.")


@dataclass(frozen=True, repr=False)
class Expression:
    """An ibis expression, deferred (`_.age > 30`) or a function of the table."""

    given: Any

    def described(self, table: Opened) -> str:
        """The condition as the engine is told it, without the name of a table that lives in memory."""
        text = str(table.backend.compile(table.relation.select(it=self.holds(table))))
        return re.sub(r"ibis_[a-z]+_\w+", "table", text)

    def holds(self, table: Opened) -> Column:
        try:
            found = table.relation.bind(self.given)[0]
        except Exception as error:  # ibis has several kinds of errors for what cannot be bound
            raise BadInput(
                f"The condition does not fit the table ({type(error).__name__}).", fix="Compare columns that are there."
            ) from None
        _check(found, table.relation.op())
        return found


Condition = Comparison | Expression


def condition(given: object) -> Condition:
    """A text `column >= value`, or an ibis expression."""
    if not isinstance(given, str):
        return Expression(given)
    if (match := COMPARISON.fullmatch(given)) is None:
        raise BadInput(
            "A condition is written as: column, sign, value.", fix='where("age >= 30") or where("city = Bern").'
        )
    return Comparison(match["column"].strip("`"), match["sign"], match["value"])


def _check(found: Any, relation: Any) -> None:
    operations = ibis().expr.operations
    if not found.type().is_boolean():
        raise BadInput("A condition must be true or false in every row.")
    waiting = [found.op()]
    while waiting:
        node = waiting.pop()
        if isinstance(node, operations.Field) and node.rel != relation:
            raise BadInput("A condition may only use columns of this table.")
        if type(node).__name__ not in ALLOWED:
            raise BadInput(
                f"A condition may not use {type(node).__name__}.",
                fix="Compare columns with constants; prepare anything else in the table itself, row by row.",
            )
        parts = [part for part in node.__args__ if isinstance(part, operations.Value)]
        parts += [item for part in node.__args__ if isinstance(part, tuple) for item in part]
        if len({_family(part.dtype) for part in parts} - {"null"}) > 1:
            raise BadInput(
                "A condition may only compare values of one kind: an engine would cast them, and could fail."
            )
        waiting += parts


def _family(kind: Any) -> str:
    """Kinds that engines compare without a cast that may fail on a value."""
    names = ("null", "boolean", "numeric", "string", "date", "timestamp", "time")
    return next((name for name in names if getattr(kind, f"is_{name}")()), str(kind))


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e300
    except ValueError:
        return False


def _truth(text: str, column: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise BadInput(f"Column {column!r} holds true or false.")
    return text.lower() == "true"


def _moment(text: str, column: str, kind: Any) -> Any:
    from datetime import date, datetime

    try:
        return date.fromisoformat(text) if kind.is_date() else datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"Column {column!r} holds dates: compare it with one like 2024-12-31.") from None
