"""A row's value as a whole number of grid steps, by functions that cannot fail and agree on every engine.

NULL and NaN hold nothing (they count neither in a sum nor in a mean's number of rows); infinities and numbers beyond
the bounds are moved to the bounds. Every cast is written out, and rounding is floor(x + 1/2), so that DuckDB,
PostgreSQL and Spark compute the same bits.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..core.errors import BadInput
from .engines import Opened, ibis
from .grids import Grid

Column = Any
"""An ibis column expression."""
DECIMAL_COMMA = r"^\s*[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+),[0-9]+\s*$"


@dataclass(frozen=True)
class Value:
    """A column on a grid: its `steps`, those from the middle (`centred`), or their squares less a half (`square`)."""

    column: str
    grid: Grid
    form: str = "steps"
    given: bool = True
    """Whether the bounds are given: those that are found keep a place of their own."""

    @property
    def bounds(self) -> tuple[str, float, float]:
        """The column with the bounds beyond which its numbers are cut."""
        return self.column, self.grid.lower, self.grid.upper

    @property
    def cut(self) -> tuple[str, tuple[float, float]]:
        """The column with the ends at which its numbers are cut: grids with the same ends share the cut numbers."""
        return self.column, self.grid.ends

    @property
    def added(self) -> Value:
        """The value that the engine sums: for a centred value its steps, so that sum and mean of a column share it."""
        return replace(self, form="steps") if self.form == "centred" else self

    @property
    def most(self) -> int:
        """The largest absolute number that a row can hold."""
        if self.form == "steps":
            return self.grid.most
        reach = max(self.grid.reach, 1)
        return reach if self.form == "centred" else max(self.half, reach**2 - self.half)

    @property
    def half(self) -> int:
        """The constant that is subtracted from squares, so that they are centred at 0."""
        return max(self.grid.reach, 1) ** 2 // 2

    def held(self, clipped: Column) -> Column:
        """The whole number that a row holds, as double precision; NULL where it holds none.

        floor((x - offset)/spacing + 1/2): whole numbers below 2^53, so sums of them are exact in every order.
        """
        scaled = self._apart(clipped) * real(float(1 / self.grid.spacing)) + real(0.5)
        steps = engines_own("floor", ["float64"], "float64")(scaled)  # ibis would cast it to 64 bits and back
        if self.form == "steps":
            return steps
        centred = steps - real(self.grid.middle)
        return centred if self.form == "centred" else centred * centred - real(self.half)

    def _apart(self, clipped: Column) -> Column:
        """How far a number is from where the grid begins. PostgreSQL raises where a product is too near to 0 for a
        float, so what is far below a step counts as 0 before it is made smaller still."""
        apart = clipped - real(self.grid.offset) if self.grid.offset else clipped
        if self.grid.spacing <= 1:
            return apart
        tiny = real(float(self.grid.spacing) * 2.0**-60)
        return ibis().ifelse((apart < tiny) & (apart > -tiny), real(0.0), apart)


def clipped(table: Opened, column: str, ends: tuple[float, float]) -> Column:
    """A column's numbers moved to the ends of a grid where they lie beyond; NULL where there is no number.

    Engines pass over NULL in `least` and `greatest`, so what is missing is asked for first.
    """
    number, (low, high) = number_of(table, column), map(real, ends)
    found = table.column(column)
    missing = number.isnull()
    if found.type().is_floating():  # NaN is asked for once
        number = found.cast("float64")
        missing = number.isnull() | number.isnan()
    moved = ibis().greatest(ibis().least(number, high), low)
    return ibis().ifelse(missing, ibis().null("float64"), moved)


def outside(table: Opened, column: str, lower: float, upper: float) -> Column:
    """1 where a number lies beyond the bounds, else 0."""
    number = number_of(table, column)
    return ibis().ifelse((number < real(lower)) | (number > real(upper)), whole(1), whole(0))


def number_of(table: Opened, column: str) -> Column:
    """A column as double precision, NULL where there is no number; infinities stay."""
    found = table.column(column)
    kind = found.type()
    if kind.is_boolean():
        return ibis().cases((found, real(1.0)), (~found, real(0.0)), else_=ibis().null("float64"))
    if kind.is_integer() or kind.is_decimal():
        return doubled(table, found)
    if kind.is_floating():
        return _without_nan(found.cast("float64"))
    if kind.is_string() and table.engine in ("duckdb", "pyspark"):
        return _without_nan((_pointed(found) if table.decimal_comma else found).try_cast("float64"))
    raise BadInput(f"Column {column!r} holds no numbers.", fix="Numbers are added, averaged and cut into bins.")


def doubled(table: Opened, found: Column) -> Column:
    """A whole or decimal number in double precision, by a cast that fails on no value."""
    decimal = found.type().is_decimal() and table.engine == "postgres"
    return _from_decimal(found) if decimal else found.cast("float64")


def exact_text(table: Opened, found: Column) -> Column:
    """A column of texts in which two are equal only if they are spelt alike, whatever the column's collation says."""
    if table.engine == "postgres":
        found = found + ibis().literal("")  # character(n) pads with blanks, which its comparisons pass over
    if not table.folds:
        return found
    if table.engine == "pyspark":
        return found.cast("binary").cast("string")
    if table.engine == "postgres":
        own = engines_own("getdatabaseencoding", [], "string")()
        return engines_own("convert_from", ["binary", "string"], "string")(
            engines_own("convert_to", ["string", "string"], "binary")(found, own), own
        )
    return engines_own("decode", ["binary"], "string")(engines_own("encode", ["string"], "binary")(found))


def spelling(table: Opened, found: Column) -> Column:
    """A column as text: what is hashed."""
    return exact_text(table, found) if found.type().is_string() else found.cast("string")


def respelt(table: Opened, column: str) -> bool:
    """Whether values of a column that an engine takes for equal may have several texts.

    Texts under a collation do, 0 and -0, 1.0 and 1.00 where PostgreSQL keeps all digits, and kinds that are not known.
    """
    kind = table.column(column).type()
    if kind.is_string():
        return table.folds
    return bool(kind.is_floating() or kind.is_unknown() or (kind.is_decimal() and table.engine == "postgres"))


def is_whole(table: Opened, column: str) -> bool:
    """Whether the column's type is one of whole numbers."""
    kind = table.column(column).type()
    return bool(kind.is_integer() or kind.is_boolean())


def whole(number: int) -> Column:
    """A whole number as a 64-bit constant of the query."""
    return ibis().literal(int(number), "int64")


def real(number: float | Fraction) -> Column:
    """A constant of double precision."""
    return ibis().literal(float(number), "float64")


def check_sendable(text: object, what: str) -> None:
    """Refuse a text that no engine takes in a query: with a NUL character, or half of a surrogate pair."""
    if isinstance(text, str) and ("\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text)):
        raise BadInput(f"{what} holds a NUL character or a half character, which cannot be part of a query.")


def engines_own(name: str, kinds: list[object], gives: str) -> Any:
    """A function that the engine has, for arguments of these types."""

    def function() -> Any: ...

    places = [inspect.Parameter(f"x{k}", inspect.Parameter.POSITIONAL_ONLY) for k in range(len(kinds))]
    vars(function)["__signature__"] = inspect.Signature(places)
    return ibis().udf.scalar.builtin(function, name=name, signature=(tuple(kinds), gives))


def _pointed(text: Column) -> Column:
    """Texts such as `1.234,5`, as files with semicolons write numbers, in the spelling `1234.5`."""
    comma = text.re_search(DECIMAL_COMMA)
    return ibis().ifelse(comma, text.replace(".", "").replace(",", "."), text)


def _from_decimal(found: Column) -> Column:
    """PostgreSQL refuses to cast a decimal beyond 1e308 or nearer to 0 than 1e-308: both are compared first.

    NaN is above all numbers there, and so counts as the largest.
    """
    far, near = (ibis().literal(Decimal(text)) for text in ("1e100", "1e-100"))
    return ibis().cases(
        (found > far, real(1e100)),
        (found < -far, real(-1e100)),
        ((found < near) & (found > -near), real(0.0)),
        else_=found.cast("float64"),
    )


def _without_nan(number: Column) -> Column:
    return ibis().ifelse(number.isnan(), ibis().null("float64"), number)
