"""What a row holds, as a whole number of steps: total functions of one value, the same on every engine.

NULL and NaN hold nothing (they count neither in a sum nor in a mean's number of rows); infinities and numbers beyond
the bounds are moved to the bounds. Every cast is written out, and rounding is floor(x + 1/2), so that DuckDB,
PostgreSQL and Spark compute the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..core.errors import BadInput
from .grids import Grid
from .sources import Opened, ibis

Column = Any
"""An ibis column expression."""


@dataclass(frozen=True)
class Value:
    """A column on a grid: its `steps`, those from the middle (`centred`), or their squares less a half (`square`)."""

    column: str
    grid: Grid
    form: str = "steps"
    given: bool = True
    """Whether the bounds are given: those that are found keep a place of their own."""

    @property
    def most(self) -> int:
        """The largest absolute number that a row can hold."""
        if self.form == "steps":
            return self.grid.most
        reach = max(self.grid.reach, 1)
        return reach if self.form == "centred" else max(self.half, reach**2 - self.half)

    @property
    def half(self) -> int:
        """What is taken off squares, so that they lie around 0."""
        return max(self.grid.reach, 1) ** 2 // 2

    def held(self, table: Opened) -> Column:
        """The whole number that a row holds; NULL where it holds none."""
        steps = steps_of(table, self.column, self.grid)
        if self.form == "steps":
            return steps
        centred = steps - whole(self.grid.middle)
        return centred if self.form == "centred" else centred * centred - whole(self.half)

    def outside(self, table: Opened) -> Column:
        """1 where the value lies beyond the bounds, else 0."""
        number = number_of(table, self.column)
        beyond = (number < real(self.grid.lower)) | (number > real(self.grid.upper))
        return ibis().ifelse(number.notnull() & beyond, whole(1), whole(0))


def steps_of(table: Opened, column: str, grid: Grid) -> Column:
    """clip, then floor((x - offset)/spacing + 1/2), then clip again in whole numbers."""
    number = number_of(table, column)
    clipped = ibis().greatest(ibis().least(number, real(grid.upper)), real(grid.lower))
    scaled = (clipped - real(grid.offset)) * real(float(1 / grid.spacing)) + real(0.5)
    rounded = ibis().least(ibis().greatest(scaled.floor().cast("int64"), whole(grid.low)), whole(grid.high))
    return ibis().ifelse(number.isnull(), ibis().null("int64"), rounded)


def number_of(table: Opened, column: str) -> Column:
    """A column as double precision, NULL where there is no number; infinities stay."""
    found = table.column(column)
    kind = found.type()
    if kind.is_boolean():
        return found.cast("int64").cast("float64")
    if kind.is_integer():
        return found.cast("float64")
    if kind.is_decimal():  # PostgreSQL refuses to cast a decimal beyond 1e308
        far = Decimal(10) ** 100
        return ibis().greatest(ibis().least(found, ibis().literal(far)), ibis().literal(-far)).cast("float64")
    if kind.is_floating():
        return _without_nan(found.cast("float64"))
    if kind.is_string() and table.engine in ("duckdb", "pyspark"):
        return _without_nan(found.try_cast("float64"))
    raise BadInput(f"Column {column!r} holds no numbers.", fix="Numbers are added, averaged and cut into bins.")


def is_whole(table: Opened, column: str) -> bool:
    """Whether the column's type is one of whole numbers."""
    kind = table.column(column).type()
    return bool(kind.is_integer() or kind.is_boolean())


def whole(number: int) -> Column:
    """A 64-bit constant."""
    return ibis().literal(int(number), "int64")


def real(number: float | Fraction) -> Column:
    """A constant of double precision."""
    return ibis().literal(float(number), "float64")


def _without_nan(number: Column) -> Column:
    return ibis().ifelse(number.isnan(), ibis().null("float64"), number)
