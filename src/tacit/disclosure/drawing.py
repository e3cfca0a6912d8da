"""A picture of an attack: how often it is right about people, from the plain release and from the private one."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import BadInput, check

WIDTH, ROW, LEFT, RIGHT, TOP = 640, 34, 220, 70, 44
COLOURS = {"plain": "#c0504d", "private": "#4f81bd", "guessing": "#a6a6a6"}


@dataclass(frozen=True)
class Bar:
    """A share of people about whom the attack is right. `kind`: plain (the release), private, or guessing."""

    label: str
    share: float
    kind: str = "plain"

    def __post_init__(self) -> None:
        if not 0 <= check.real("share", self.share) <= 1 or self.kind not in COLOURS:
            raise BadInput(f"A bar is a share between 0 and 1 of one kind: {', '.join(COLOURS)}.")


def picture(title: str, bars: Sequence[Bar], *, limit: float | None = None) -> str:
    """Bars from 0 to 1 as SVG; `limit`: the most that any attacker can expect from the private release."""
    bars = list(bars)
    if not bars or (limit is not None and not 0 <= limit <= 1):
        raise BadInput("A picture needs a bar, and a limit is a share between 0 and 1.")
    height = TOP + ROW * len(bars) + (34 if limit is not None else 12)
    parts = [_drawn(bar, TOP + ROW * place) for place, bar in enumerate(bars)]
    if limit is not None:
        parts.append(_limit(limit, TOP + ROW * len(bars)))
    told = "; ".join(f"{bar.label} {bar.share:.1%}" for bar in bars)
    return (
        f'<svg role="img" aria-label="{html.escape(f"{title}: {told}")}" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13">'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
        f'<text x="8" y="22" font-weight="bold" fill="#222">{html.escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * share


def _drawn(bar: Bar, y: int) -> str:
    return (
        f'<text x="{LEFT - 8}" y="{y + 19}" text-anchor="end" fill="#222">{html.escape(bar.label)}</text>'
        f'<rect x="{LEFT}" y="{y + 4}" width="{max(_x(bar.share) - LEFT, 1):.1f}" height="22" '
        f'fill="{COLOURS[bar.kind]}"/>'
        f'<text x="{_x(bar.share) + 6:.1f}" y="{y + 19}" fill="#222">{bar.share:.1%}</text>'
    )


def _limit(limit: float, bottom: int) -> str:
    x = _x(limit)
    return (
        f'<path d="M{x:.1f},{TOP}V{bottom}" stroke="#222" stroke-dasharray="5 4"/>'
        f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#222">most that the private release allows: '
        f"{limit:.1%}</text>"
    )
