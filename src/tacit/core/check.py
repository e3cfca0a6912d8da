"""Checks of public arguments: one sentence each, before anything is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, KeysView
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .errors import Argument, BadInput, Words

LEAST, MOST = 1e-100, 1e100
"""What a positive number may be: its square and the square's inverse are still numbers."""
HUGE = 10_000
"""Bits of a whole number that an error still shows."""
LONGEST = 80
"""Characters of an argument that an error shows."""
LARGEST_WHOLE = 2**53
"""Up to here a float holds every whole number."""


def positive(name: str, value: float) -> float:
    """A finite number above 0, neither absurdly small nor absurdly large."""
    number = _number(name, value)
    if not (number > 0 and math.isfinite(number)):
        raise BadInput((Argument(name), f" must be a finite number above 0, got {told(value)}."))
    if not LEAST <= number <= MOST:
        raise BadInput((Argument(name), f" must be between {LEAST:g} and {MOST:g}, got {told(value)}."))
    return number


def real(name: str, value: float) -> float:
    """A finite number."""
    number = _number(name, value)
    if math.isinf(number):
        raise BadInput((Argument(name), f" must be a finite number, got {told(value)}."))
    return number


def nonnegative(name: str, value: float, *, infinite: bool = False) -> float:
    """A number at or above 0; infinity only where it means something."""
    number = _number(name, value)
    if not number >= 0 or (math.isinf(number) and not infinite):
        raise BadInput(
            (Argument(name), f" must be a{'' if infinite else ' finite'} number at or above 0, got {told(value)}.")
        )
    return number


def probability(name: str, value: float, *, zero: bool = True, one: bool = True) -> float:
    """A number in [0, 1], either end may be excluded."""
    number = _number(name, value)
    inside = (number >= 0 if zero else number > 0) and (number <= 1 if one else number < 1)
    if not inside:
        span = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        fix = "A rate is a probability: the batch size over the number of records." if name == "rate" else ""
        raise BadInput((Argument(name), f" must be in {span}, got {told(value)}."), fix=fix)
    return number


def delta(value: float) -> float:
    """The delta of (epsilon, delta): in [0, 1)."""
    return probability("delta", value, one=False)


def whole(name: str, value: int, *, least: int = 1) -> int:
    """A whole number at or above `least` and at most 2^53; 2.0 counts, 2.5 and True do not."""
    number = _number(name, value)
    if math.isinf(number) or number != math.floor(number) or number < least:
        raise BadInput((Argument(name), f" must be a whole number of at least {least}, got {told(value)}."))
    if number > LARGEST_WHOLE:
        raise BadInput((Argument(name), f" must be at most 2^53, got {told(value)}."))
    return int(value)


def reals(name: str, values: object) -> tuple[float, ...]:
    """At least one finite number."""
    if not isinstance(values, Iterable) or isinstance(values, str) or not (found := tuple(values)):
        raise BadInput((Argument(name), " must be a sequence of numbers."))
    return tuple(real(name, value) for value in found)


def triangle(name: str, rows: object) -> tuple[tuple[float, ...], ...]:
    """Rows of a lower triangular matrix, each up to its diagonal."""
    if not isinstance(rows, Iterable) or isinstance(rows, str):
        raise BadInput((Argument(name), " must be a sequence of rows of numbers."))
    found = tuple(reals(name, row) for row in rows)
    if not found or any(len(row) != place for place, row in enumerate(found, start=1)):
        raise BadInput((Argument(name), " must hold the rows of a lower triangular matrix: row k has k entries."))
    return found


def flags(name: str, values: Iterable[object]) -> NDArray[np.bool_]:
    """0 or 1, true or false, in every row, as numbers or as text."""
    words = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
    try:
        return np.array([words[str(value).strip().lower()] for value in values], dtype=bool)
    except KeyError:
        raise BadInput((Argument(name), " must hold 0 or 1 in every row.")) from None


def told(value: object) -> str:
    """How an error shows an argument: a number or a text as it is; of anything else its type, since it may hold data.

    Whoever passes a column of a table where a number or a name belongs must not find people's values in the error.
    """
    if isinstance(value, int) and value.bit_length() > HUGE:
        return "a whole number of very many digits"  # Python refuses to write it
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | Decimal | Fraction | np.generic):
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
    kind = type(value).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def text(name: str, value: object, *, fix: Words = "") -> str:
    """A text that is not empty, such as the name of a column."""
    if not isinstance(value, str) or not value:
        raise BadInput((Argument(name), f" must be a text, got {told(value)}."), fix=fix)
    return value


def texts(name: str, values: object, *, fix: Words = "") -> tuple[str, ...]:
    """At least one text, all different: a list, a tuple, or the columns of a data frame; never a column's values."""
    listed = isinstance(values, list | tuple | KeysView) or type(values).__name__ == "Index"
    if not listed or not isinstance(values, Iterable):
        raise BadInput((Argument(name), f" must be a list of names, got {told(values)}."), fix=fix)
    found = tuple(text(name, value, fix=fix) for value in values)
    if not found or len(set(found)) < len(found):
        raise BadInput((Argument(name), " must be a list of different names."), fix=fix)
    return found


def one_of(name: str, value: object, choices: Iterable[str]) -> str:
    """One of a few words."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        raise BadInput((Argument(name), f" must be {' or '.join(words)}, got {told(value)}."))
    return value


def _number(name: str, value: float) -> float:
    if type(value) is float and value == value:
        return value
    several = hasattr(value, "__len__") and getattr(value, "ndim", 1) != 0  # an array of no dimensions is a number
    if several or isinstance(value, bool | np.bool_):
        raise BadInput((Argument(name), f" must be a number, got {told(value)}."))
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput((Argument(name), f" must be a number, got {told(value)}.")) from None
    if math.isnan(number):
        raise BadInput((Argument(name), " must be a number, got NaN."))
    return number
