"""A ledger for a person: a small table and a chart of spending, both plain HTML and SVG."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING

from ..core.shown import number, remains, significant, small, table
from .amounts import read
from .reading import so_far
from .state import State

if TYPE_CHECKING:
    from .ledger import Ledger

WIDTH, HEIGHT, EDGE = 640, 220, 44
NOT_A_CLAIM = "spent so far (a reading, not a claim)"


def page(ledger: Ledger) -> str:
    """For a notebook: the budget, what remains, and the chart."""
    terms, left = ledger.terms, ledger.remaining()
    rows: list[tuple[str, object]] = [
        ("budget", f"epsilon {number(terms.epsilon)}, delta {small(terms.delta)}"),
        ("counts for", f"one {terms.unit}, {terms.adjacency.value}, {terms.composition}"),
        (NOT_A_CLAIM, number(ledger.so_far())),
        ("remaining pure epsilon", remains(left)),
        ("charges", len(ledger.entries())),
    ]
    return table(f"Ledger {ledger.url}", rows) + chart(ledger)


def spending(ledger: Ledger) -> list[tuple[str, float]]:
    """After every charge, its time and what the charges up to it add up to (see `Ledger.so_far`)."""
    terms, found = ledger.terms, []
    bodies = [body for body in (json.loads(row["body"]) for row in ledger.rows()) if body["kind"] == "charge"]
    for place, body in enumerate(bodies):
        found.append((str(body["time"]), so_far(State(read(body["total"]), charges=place + 1), terms)))
    return found


def chart(ledger: Ledger) -> str:
    """Spending over the charges as steps, with the budget as a line."""
    budget = ledger.terms.epsilon
    spent = [value for _, value in spending(ledger)]
    across = (WIDTH - 2 * EDGE) / max(len(spent), 1)

    def y(value: float) -> float:
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * min(value / budget, 1.0)

    path = f"M{EDGE},{y(0):.1f}"
    for place, value in enumerate(spent):
        path += f"V{y(value):.1f}H{EDGE + (place + 1) * across:.1f}"
    charges = f"{len(spent)} charge{'' if len(spent) == 1 else 's'}"
    label = f"{charges}, {significant(spent[-1] if spent else 0.0)} of {significant(budget)} spent so far"
    return (
        f'<svg role="img" aria-label="{html.escape(label)}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12">'
        f"<title>{html.escape(label)}</title>"
        f'<line x1="{EDGE}" y1="{y(budget):.1f}" x2="{WIDTH - EDGE}" y2="{y(budget):.1f}" stroke="#b00020" '
        f'stroke-dasharray="6 4"/><text x="{EDGE}" y="{y(budget) - 6:.1f}" fill="#b00020">budget: epsilon '
        f"{significant(budget)}</text>"
        f'<line x1="{EDGE}" y1="{y(0):.1f}" x2="{WIDTH - EDGE}" y2="{y(0):.1f}" stroke="currentColor"/>'
        f'<path d="{path}" fill="none" stroke="#0b57d0" stroke-width="2"/>'
        f'<text x="{EDGE}" y="{HEIGHT - EDGE + 18}" fill="currentColor">{html.escape(label)} (not a claim)</text></svg>'
    )
