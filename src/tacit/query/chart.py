"""A chart of a private answer: one bar for each group, with its error."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from .answer import shown

if TYPE_CHECKING:
    from .answer import Answer

WIDTH, ROW, LEFT, RIGHT, TOP, MOST = 640, 24, 180, 110, 34, 60


def chart(answer: Answer) -> str:
    """The first aggregate of every group as SVG; at most 60 groups are drawn."""
    name, figure = next(iter(answer.figures.items()))
    count = min(len(figure.value), MOST)
    values = np.asarray(figure.value[:count], dtype=float)
    errors = np.where(np.isfinite(figure.error[:count]), figure.error[:count], 0.0)
    low, high = min(0.0, float((values - errors).min(initial=0.0))), max(0.0, float((values + errors).max(initial=0.0)))
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / span

    keys = list(zip(*answer.keys.values(), strict=True)) if answer.keys else [()] * count
    parts = []
    for k in range(count):
        y = TOP + ROW * k
        label = ", ".join(map(str, keys[k])) or name
        ends = sorted((x(0.0), x(values[k])))
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end" fill="currentColor">{html.escape(label[:26])}</text>'
            f'<rect x="{ends[0]:.1f}" y="{y + 4}" width="{max(ends[1] - ends[0], 0.5):.1f}" height="14" '
            'fill="#9ab8ea"/>'
            f'<path d="M{x(values[k] - errors[k]):.1f},{y + 11}H{x(values[k] + errors[k]):.1f}" stroke="#0b3d91" '
            f'stroke-width="2"/><text x="{WIDTH - RIGHT + 8}" y="{y + 15}" fill="currentColor">'
            f"{html.escape(shown(values[k], float(errors[k])))}</text>"
        )
    title = f"{name}: noisy values, each within its error with {answer.confidence:.0%} confidence (noise only)"
    height = TOP + ROW * count + 8
    return (
        f'<svg role="img" aria-label="{html.escape(title)}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12">'
        f'<title>{html.escape(title)}</title><text x="8" y="18" fill="currentColor">{html.escape(title)}</text>'
        f"{''.join(parts)}</svg>"
    )
