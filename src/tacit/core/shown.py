"""Short words for values in a terminal, and small tables for a notebook."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from .errors import clean

LONG = re.compile(r"(?<![\w.])\d+\.\d{6,}(?:e[-+]?\d+)?(?![\w.])")
"""A fraction with more digits than a person reads."""
UNSEEN = re.compile("[\n\t\u2028\u2029\ufffe\uffff]")
"""Ends of lines, tabulators, and what XML does not allow."""
NEGLIGIBLE = 1e-6
"""What lies so near to a short number, in units of its last digit, is that number but for rounding."""
DUST = 1e-12
"""No release can use an epsilon below this."""


def number(value: float) -> str:
    """Four significant digits; infinity in a word."""
    return significant(value, 4) if math.isfinite(value) else "infinity"


def significant(value: float, digits: int = 3) -> str:
    """The one way to write a number: so many significant digits, without an exponent from 0.000001 to a million."""
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{Decimal(text):f}" if 1e-6 <= abs(value) < 1e6 else f"{mantissa}e{int(exponent)}"


def at_most(value: float, digits: int = 3) -> str:
    """An upper bound in so many significant digits, rounded up: what is written is true as well."""
    return _towards(value, digits, ROUND_CEILING)


def at_least(value: float, digits: int = 3) -> str:
    """A lower bound in so many significant digits, rounded down: what is written is true as well."""
    return _towards(value, digits, ROUND_FLOOR)


def remains(value: float, digits: int = 4) -> str:
    """The epsilon that remains of a budget, never rounded up: who asks for the number as written is not refused."""
    if not DUST <= value < math.inf:
        return "0" if value < DUST else number(value)
    return significant(float(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(float(value)))), digits)


def _towards(value: float, digits: int, side: str) -> str:
    if not math.isfinite(value):
        return number(value)
    if abs(float(f"{value:.{digits}g}") - value) <= max(NEGLIGIBLE * 10.0**-digits, 1e-12) * abs(value):
        return significant(value, digits)
    rounded = Context(prec=digits, rounding=side).create_decimal_from_float(value)
    return significant(float(rounded), digits)


def proportion(rate: float) -> str:
    """A rate above 0 as so many in so many: 1 in 100, 15 in 100, 1 in 3."""
    if math.isclose(round(1 / rate), 1 / rate, rel_tol=1e-9):
        return f"1 in {round(1 / rate):,}"
    whole = next((10**k for k in range(1, 15) if math.isclose(round(rate * 10**k), rate * 10**k, rel_tol=1e-9)), 10**15)
    return f"{round(rate * whole):,} in {whole:,}"


def small(value: float) -> str:
    """A delta: six significant digits, so that what was asked for is what is printed."""
    return significant(value, 6)


def shortened(text: str) -> str:
    """A text with its long fractions at four significant digits: `Poisson(rate=0.2002, Gaussian)`."""
    return LONG.sub(lambda found: significant(float(found[0]), 4), text)


def label(text: object) -> str:
    """A name or a key on one line; what would steer a terminal, or break a picture, becomes a replacement character."""
    return UNSEEN.sub("\ufffd", clean(str(text)))


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Lines of a table for a terminal: columns as wide as their longest text, two spaces between them.

    `head` names the columns, or is empty; those whose places are in `right` are aligned at their ends, as numbers are.
    """
    whole = [*([list(head)] if head else []), *map(list, rows)]
    widths = [max(len(row[place]) for row in whole) for place in range(len(whole[0]))] if whole else []
    ends = set(right)
    cells = (
        [f"{text:>{width}}" if place in ends else f"{text:<{width}}"
         for place, (text, width) in enumerate(zip(row, widths, strict=True))]
        for row in whole
    )  # fmt: skip
    return ["  ".join(row).rstrip() for row in cells]


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A small HTML table; every text is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>{html.escape(str(value))}"
        "</td></tr>"
        for name, value in rows
    )
    return f"<table><caption style='text-align:left'>{html.escape(title)}</caption>{cells}</table>"
