"""Short words for values in a terminal, and small tables for a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable


def number(value: float) -> str:
    """Four significant digits; infinity in a word."""
    return f"{value:.4g}" if math.isfinite(value) else "infinity"


def table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """A small HTML table; every text is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>{html.escape(str(value))}"
        "</td></tr>"
        for name, value in rows
    )
    return f"<table><caption style='text-align:left'>{html.escape(title)}</caption>{cells}</table>"
