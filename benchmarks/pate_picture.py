"""One picture of three ways to spend one budget: accuracy over the number of predictions, one panel per epsilon."""

from __future__ import annotations

import math
from html import escape

WIDTH, HEIGHT, EDGE = 190, 200, 34
MAJORITY = "majority vote without noise (not private)"
PER_QUERY, STUDENT, DP_SGD = "answers per query", "student of PATE", "DP-SGD"
COLOURS = {PER_QUERY: "#b5541c", STUDENT: "#1b5e9b", DP_SGD: "#3c7a3a", MAJORITY: "#777"}
LAST = 10_000
LOWEST = 0.5
"""Accuracies below this are drawn at the edge."""


def picture(rows, path):
    """Rows of panels by data set, columns by epsilon; a student and DP-SGD answer any number of queries alike.

    Bars reach from the least to the most of the seeds. The majority of the teachers' votes without noise is not
    private: the most that answers per query can reach.
    """
    names = list(dict.fromkeys(row["data"] for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows if "epsilon" in row})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH * len(epsilons)} {HEIGHT * len(names) + 24}" '
        'font-family="sans-serif" font-size="9" role="img"><title>Accuracy of three ways to spend one budget</title>',
        f'<rect width="{WIDTH * len(epsilons)}" height="{HEIGHT * len(names) + 24}" fill="white"/>',
    ]
    for down, name in enumerate(names):
        for across, epsilon in enumerate(epsilons):
            mine = [row for row in rows if row["data"] == name and row.get("epsilon", epsilon) == epsilon]
            parts += _panel(mine, WIDTH * across, HEIGHT * down, f"{name}, epsilon {epsilon:g}")
    for number, (way, colour) in enumerate(COLOURS.items()):
        parts.append(
            f'<text x="{EDGE + 130 * number}" y="{HEIGHT * len(names) + 14}" fill="{colour}">{escape(way)}</text>'
        )
    parts.append(
        f'<text x="{EDGE + 660}" y="{HEIGHT * len(names) + 14}">bars: least to most of the seeds; 0.5 is 0.5 or less'
        "</text>"
    )
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _panel(rows, left, top, title):
    across = lambda number: left + EDGE + (WIDTH - EDGE - 22) * math.log10(number) / math.log10(LAST)  # noqa: E731
    upward = lambda share: top + HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (max(share, LOWEST) - LOWEST) / (1 - LOWEST)  # noqa: E731
    parts = [f'<text x="{left + EDGE}" y="{top + 20}">{escape(title)}</text>']
    for share in (0.5, 0.7, 0.8, 0.9, 1.0):
        parts.append(
            f'<line x1="{across(1):.1f}" x2="{across(LAST):.1f}" y1="{upward(share):.1f}" y2="{upward(share):.1f}" '
            f'stroke="#ddd"/><text x="{left + 8}" y="{upward(share) + 3:.1f}">{share:g}</text>'
        )
    for number in (1, 100, LAST):
        place = f'x="{across(number):.1f}" y="{top + HEIGHT - EDGE + 12}"'
        parts.append(f'<text {place} text-anchor="middle">{number:,}</text>')
    parts.append(f'<text x="{left + EDGE}" y="{top + HEIGHT - EDGE + 24}">predictions needed</text>')
    for number, (way, colour) in enumerate(COLOURS.items()):
        mine = [row for row in rows if row["way"] == way]
        points = [(row.get("predictions"), row["accuracy"]) for row in mine]
        bars = [(row.get("predictions", 2 * 10**number), row) for row in mine]
        if points and points[0][0] is None:
            points = [(1, points[0][1]), (LAST, points[0][1])]
        for place, row in bars:
            ends = f'y1="{upward(row["least"]):.1f}" y2="{upward(row["most"]):.1f}"'
            parts.append(
                f'<line x1="{across(place):.1f}" x2="{across(place):.1f}" {ends} stroke="{colour}" stroke-width="3"/>'
            )
        line = " ".join(f"{across(number):.1f},{upward(share):.1f}" for number, share in points)
        dashes = ' stroke-dasharray="4 3"' if way == MAJORITY else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
    return parts
