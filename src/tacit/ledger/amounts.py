"""Amounts that a ledger adds up: whole numbers of 1e-40, so that sums are exact and 10 charges of 0.1 are 1.

A number that somebody states counts as it is written: 0.1 is one tenth. A number that was computed is rounded up when
it is a cost, and down when it is a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

PARTS = 10**40
"""Parts of one."""

Amount = int | None
"""A number of parts; None is infinite: a criterion that no longer holds."""
Amounts = Mapping[str, Amount]


def exact(value: float) -> Fraction:
    """A number as it is written."""
    return Fraction(repr(float(value)))


def cost(value: Fraction | float) -> Amount:
    """A cost, rounded up; infinity stays infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return math.ceil(Fraction(value) * PARTS)


def limit(value: Fraction | float) -> int:
    """A limit, rounded down."""
    return math.floor(Fraction(value) * PARTS)


def plain(amount: Amount) -> float:
    """An amount as a float, rounded to the nearest; infinite beyond all floats."""
    try:
        return math.inf if amount is None else float(Fraction(amount, PARTS))
    except OverflowError:
        return math.inf


def below(amount: int) -> float:
    """The largest float that is at most the amount, each float read as it is written."""
    found = plain(amount)
    return found if exact(found) * PARTS <= amount else math.nextafter(found, -math.inf)


def added(first: Amounts, second: Amounts) -> dict[str, Amount]:
    """Sums by name; what is infinite stays so."""
    return {name: _sum(first[name], second[name]) for name in first}


def _sum(first: Amount, second: Amount) -> Amount:
    return None if first is None or second is None else first + second


def written(amounts: Amounts) -> dict[str, str | None]:
    """Amounts for JSON, which has no large integers."""
    return {name: None if amount is None else str(amount) for name, amount in amounts.items()}


def read(amounts: Mapping[str, str | None]) -> dict[str, Amount]:
    return {name: None if amount is None else int(amount) for name, amount in amounts.items()}
