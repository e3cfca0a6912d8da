"""One picture of three ways to spend one budget: accuracy over the number of predictions, one panel per epsilon."""

from __future__ import annotations

import math
from html import escape

WIDTH, HEIGHT, EDGE = 190, 200, 34
MAJORITY = "majority vote without noise (not private)"
COLOURS = {"answers per query": "#b5541c", "student of PATE": "#1b5e9b", "DP-SGD": "#3c7a3a", MAJORITY: "#777"}
LAST = 10_000


def picture(rows, path):
    """Rows of panels by data set, columns by epsilon; a student and DP-SGD answer any number of queries alike.

    The majority of the teachers' votes without noise is not private: the most that answers per query can reach.
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
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _panel(rows, left, top, title):
    across = lambda number: left + EDGE + (WIDTH - EDGE - 22) * math.log10(number) / math.log10(LAST)  # noqa: E731
    upward = lambda share: top + HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * share  # noqa: E731
    parts = [f'<text x="{left + EDGE}" y="{top + 20}">{escape(title)}</text>']
    for share in (0.0, 0.5, 0.9, 1.0):
        parts.append(
            f'<line x1="{across(1):.1f}" x2="{across(LAST):.1f}" y1="{upward(share):.1f}" y2="{upward(share):.1f}" '
            f'stroke="#ddd"/><text x="{left + 8}" y="{upward(share) + 3:.1f}">{share:g}</text>'
        )
    for number in (1, 100, LAST):
        place = f'x="{across(number):.1f}" y="{top + HEIGHT - EDGE + 12}"'
        parts.append(f'<text {place} text-anchor="middle">{number:,}</text>')
    parts.append(f'<text x="{left + EDGE}" y="{top + HEIGHT - EDGE + 24}">predictions needed</text>')
    for way, colour in COLOURS.items():
        mine = [row for row in rows if row["way"] == way]
        points = [(row.get("predictions"), row["accuracy"]) for row in mine]
        if points and points[0][0] is None:
            points = [(1, points[0][1]), (LAST, points[0][1])]
        line = " ".join(f"{across(number):.1f},{upward(share):.1f}" for number, share in points)
        dashes = ' stroke-dasharray="4 3"' if way == MAJORITY else ""
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
    return parts
