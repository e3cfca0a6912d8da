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
from .engines import Opened, ibis, worded
from .total import constant, described, total
from .values import Column, check_sendable, number_of, real, whole

COMPARISON = re.compile(
    r"\s*(?P<column>`[^`]+`|[^\s=<>!`]+)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>[^\s=<>!].*?)\s*", re.DOTALL
)
WHOLE = re.compile(r"[+-]?[0-9]+")
CODE = re.compile(r"^\s*[+-]?0[0-9]")
"""How a text begins that has leading zeros."""
EXACT = 2.0**53
NUMBERED = ("duckdb", "pyspark")
"""Engines that read numbers in texts without failing at other texts."""
SEVERAL = re.compile(r"[=<>;]|!=|\s(and|or|&&|\|\|)\s", re.IGNORECASE)
"""What a value without quotes may not hold: it would be a second comparison, read as a text."""
NO_COLUMN = "A condition must compare a column of the table, for each row alone."
SOME = (
    'Give a text or an ibis expression: where("age >= 30"), where(_.age >= 30). '
    "A mask of True and False that was made of the data is none."
)
SUCH = 'Such as: "age >= 30", "city = Bern", "`zip code` = 8001".'
SIGNS: dict[str, Callable[[Any, Any], object]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Comparison:
    """`column sign value`, as text: `age >= 30`, `city = Basel`."""

    column: str
    sign: str
    value: str

    def described(self, table: Opened) -> str:
        return repr(self)

    def check(self, table: Opened) -> None:
        """Refuse what does not fit the table."""
        self.holds(table)

    def holds(self, table: Opened) -> Column:
        found = table.column(self.column)
        kind, text = found.type(), _unquoted(self.value)
        compare = SIGNS[self.sign]
        check_sendable(text, f"The condition on column {self.column!r}")
        if kind.is_boolean():
            return compare(found, _truth(text, self.column))
        if kind.is_numeric() or (kind.is_string() and self.value == text and _is_number(text)):
            if not _is_number(text):
                raise BadInput(f"Column {self.column!r} holds numbers and is compared with a text.")
            if kind.is_string() and self.sign in ("=", "==", "!="):
                same = _same(table, self.column, text)
                return ~same if self.sign == "!=" else same
            if kind.is_integer() and WHOLE.fullmatch(text) and -(2**63) <= int(text) < 2**63:
                return compare(found, whole(int(text)))  # beyond 2^53 double precision takes neighbours for equal
            return compare(number_of(table, self.column), real(float(text)))
        if kind.is_date() or kind.is_timestamp():
            return compare(found, constant(_moment(text, self.column, kind), kind))
        if kind.is_string():
            return compare(found, text)
        raise BadInput(f"Column {self.column!r} cannot be compared: it holds {worded(kind)}.")


@dataclass(frozen=True, repr=False)
class Expression:
    """An ibis expression, deferred (`_.age > 30`) or a function of the table."""

    given: Any

    def described(self, table: Opened) -> str:
        """The condition as it stands, whatever name the table has."""
        return described(self.holds(table).op())

    def check(self, table: Opened) -> None:
        """Refuse what does not fit the table, or is another condition when it is read again."""
        first = self._bound(table)
        if not first.equals(self._bound(table)):
            raise BadInput(
                "The condition is another one each time it is read: it holds an iterator or draws something.",
                fix="Give lists: _.city.isin([...]).",
            )
        self.holds(table)

    def holds(self, table: Opened) -> Column:
        found = total(self._bound(table), table)
        if not found.op().find(ibis().expr.operations.Field):
            raise BadInput(NO_COLUMN, fix=SOME)
        return found

    def _bound(self, table: Opened) -> Column:
        """The expression with the table's own columns."""
        try:
            bound = table.relation.bind(self.given)
        except Exception as error:  # ibis has several kinds of errors for what cannot be bound
            raise BadInput(
                f"The condition does not fit the table ({type(error).__name__}).", fix="Compare columns that are there."
            ) from None
        if len(bound) != 1:
            raise BadInput(NO_COLUMN, fix=SOME)
        if not bound[0].type().is_boolean():
            raise BadInput("A condition must be true or false in every row.")
        return bound[0]


Condition = Comparison | Expression


def _settled(given: object) -> Any:
    """A function of the table as the expression that it gives now: called later, it could give another."""
    names = ibis()._
    if not callable(given) or isinstance(given, type(names)):
        return given
    try:
        return given(names)
    except Exception as error:  # a function of the user's
        raise BadInput(
            f"The condition does not fit the table ({type(error).__name__}).", fix="Compare columns that are there."
        ) from None


def condition(given: object) -> Condition:
    """A text `column >= value`, or an ibis expression."""
    if not isinstance(given, str):
        return Expression(_settled(given))
    if (match := COMPARISON.fullmatch(given)) is None:
        raise BadInput("A condition is written as: column, sign, value.", fix=f"Signs: {' '.join(SIGNS)}. {SUCH}")
    if _unquoted(match["value"]) == match["value"] and SEVERAL.search(match["value"]):
        raise BadInput(
            "A condition holds one comparison, and this value reads like a second one.",
            fix=f"Give one condition for each. If it is one text, quote it: {match['column']} {match['sign']} "
            f'"{match["value"]}".',
        )
    return Comparison(match["column"].strip("`"), match["sign"], match["value"])


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"" else text


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e300
    except ValueError:
        return False


def _same(table: Opened, column: str, text: str) -> Column:
    """Whether a column of texts holds a number: as it is written, or in another spelling, as 30 and 30.0.

    A code with leading zeros (a postal code) equals its own spelling alone.
    """
    found = table.column(column)
    spelt = found == text
    if table.engine not in NUMBERED or CODE.match(text) or abs(float(text)) > EXACT:
        return spelt
    equal = (number_of(table, column) == real(float(text))) & ~found.re_search(CODE.pattern)
    return spelt | equal.fill_null(False)


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
