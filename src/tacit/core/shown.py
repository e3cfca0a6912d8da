"""Short words for values in a terminal, and small tables for a notebook."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
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


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A small HTML table; every text is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>{html.escape(str(value))}"
        "</td></tr>"
        for name, value in rows
    )
    return f"<table><caption style='text-align:left'>{html.escape(title)}</caption>{cells}</table>"
