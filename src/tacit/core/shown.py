"""Short words for values in a terminal, and small tables for a notebook."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

LONG = re.compile(r"(?<![\w.])\d+\.\d{6,}(?:e[-+]?\d+)?(?![\w.])")
"""A fraction with more digits than a person reads."""


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


def small(value: float) -> str:
    """A delta: six significant digits, so that what was asked for is what is printed."""
    return significant(value, 6)


def shortened(text: str) -> str:
    """A text with its long fractions at four significant digits: `Poisson(rate=0.2002, Gaussian)`."""
    return LONG.sub(lambda found: significant(float(found[0]), 4), text)


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
