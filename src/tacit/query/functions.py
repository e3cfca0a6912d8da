"""Aggregates by name, for `Table.aggregate(n=count(), total=sum("amount", (0, 100)))`.

`bounds` are public: (lower, upper) of one row's number; None takes the schema's; "private" spends a fifth of epsilon on
finding them.
"""

from __future__ import annotations

from .aggregates import Count, Mean, Sum, Users, Variance

Limits = tuple[float, float] | str | None


def count() -> Count:
    """Count rows; each person counts with at most `max_rows` rows in a group."""
    return Count()


def users() -> Users:
    """Count different people."""
    return Users()


def sum(column: str, bounds: Limits = None) -> Sum:
    """The sum of a column; a person's sum in a group is clipped to what `max_rows` rows can hold."""
    return Sum(column, bounds)


def mean(column: str, bounds: Limits = None) -> Mean:
    """The mean of a column over rows that hold a number."""
    return Mean(column, bounds)


def variance(column: str, bounds: Limits = None) -> Variance:
    """The variance of a column over rows that hold a number."""
    return Variance(column, bounds)
