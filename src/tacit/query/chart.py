"""A chart of a private answer: a panel for each aggregate, a bar for each group, with its error."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput
from ..core.shown import label
from .answer import shown

if TYPE_CHECKING:
    from .aggregates import Figure
    from .answer import Answer

WIDTH, ROW, LEFT, RIGHT, TOP, MOST = 640, 24, 180, 130, 34, 60
LONGEST = 24
"""Characters of a label that are drawn."""


def chart(answer: Answer) -> str:
    """Every aggregate of every group as SVG; at most 60 groups are drawn, and the others are counted."""
    if not answer.figures:
        raise BadInput("Synthetic rows have no chart.", fix="Ask for their table, or draw it yourself.")
    parts, bottom = [], 0
    for name, figure in answer.figures.items():
        panel, height = _panel(answer, name, figure, bottom)
        parts.append(panel)
        bottom += height
    told = html.escape(label("; ".join(_title(answer, name, figure) for name, figure in answer.figures.items())))
    return (
        f'<svg role="img" aria-label="{told}" viewBox="0 0 {WIDTH} {bottom}" width="{WIDTH}" '
        f'height="{bottom}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12">'
        f"<title>{told}</title>{''.join(parts)}</svg>"
    )


def _title(answer: Answer, name: str, figure: Figure) -> str:
    by = f" by {', '.join(answer.keys)}" if answer.keys else ""
    if not np.isfinite(figure.error).all():
        return f"{name}{by}: private values, without an error of each"
    return f"{name}{by}: noisy values, each within its error with {answer.confidence:.0%} confidence (noise only)"


def _panel(answer: Answer, name: str, figure: Figure, top: int) -> tuple[str, int]:
    """One aggregate, from `top` on, and how high it is."""
    count = min(len(figure.value), MOST)
    keys = list(zip(*answer.keys.values(), strict=True)) if answer.keys else [()] * count
    places = _scale(figure, count)
    parts = [_text(8, top + 18, _title(answer, name, figure))]
    for k in range(count):
        group = ", ".join(map(str, keys[k])) or name
        parts.append(
            _bar(_short(group), figure.value[k].item(), float(figure.error[k]), places[k], top + TOP + ROW * k)
        )
    bottom = TOP + ROW * count + 8
    if len(figure.value) > count:
        parts.append(_text(8, top + bottom + 12, f"and {len(figure.value) - count:,} more groups"))
        bottom += ROW
    return "".join(parts), bottom


def _scale(figure: Figure, count: int) -> NDArray[np.float64]:
    """For every group where 0, the value and the ends of its error lie across the picture."""
    values = np.asarray(figure.value[:count], dtype=np.float64)
    errors = np.where(np.isfinite(figure.error[:count]), figure.error[:count], 0.0)
    points = np.stack((np.zeros(count), values, values - errors, values + errors), axis=1)
    low, high = float(points.min(initial=0.0)), float(points.max(initial=0.0))
    return np.asarray(LEFT + (WIDTH - LEFT - RIGHT) * (points - low) / ((high - low) or 1.0))


def _bar(group: str, value: Any, error: float, places: NDArray[np.float64], y: int) -> str:
    zero, end, low, high = places.tolist()
    left, right = sorted((zero, end))
    line = f'<path d="M{low:.1f},{y + 11}H{high:.1f}" stroke="#0b3d91" stroke-width="2"/>' if np.isfinite(error) else ""
    return (
        f"{_text(LEFT - 8, y + 15, group, anchor='end')}"
        f'<rect x="{left:.1f}" y="{y + 4}" width="{max(right - left, 0.5):.1f}" height="14" fill="#9ab8ea"/>'
        f"{line}{_text(WIDTH - RIGHT + 8, y + 15, shown(value, error))}"
    )


def _text(x: int, y: int, words: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor">{html.escape(label(words))}</text>'


def _short(group: str) -> str:
    return group if len(group) <= LONGEST else f"{group[: LONGEST - 1]}…"
