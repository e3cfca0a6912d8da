"""The audit's scores with and without the record, as two histograms over each other."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from .node import Node, count
from .subject import Subject

WIDTH, HEIGHT = 500, 120


@dataclass(frozen=True)
class Histograms:
    """A picture, its two lines of legend, and where in the evidence its bars stand."""

    drawing: Markup
    path: str
    bars: str
    inside: Markup
    outside: Markup

    @property
    def label(self) -> str:
        """The picture in words."""
        return "Two histograms over each other: scores of the audit's games with the record, and without it."


def histogram(subject: Subject) -> Histograms | None:
    """The largest game of the audit; None where the evidence holds no histogram."""
    drawn = list(subject.node["histograms"])
    if not drawn:
        return None
    node = max(drawn, key=lambda item: item["n_in"].value + item["n_out"].value)
    inside, outside = node["inside"].value, node["outside"].value
    tops = [max(max(side) / max(total, 1), 1e-9) for side, total in _sides(node)]
    heights = [[value / max(total, 1) / max(tops) for value in side] for side, total in _sides(node)]
    paths = Markup('<path class="without" d="{}"/><path class="with" d="{}"/><path class="axis" d="M0 {}H{}"/>').format(
        _outline(heights[1], closed=True), _outline(heights[0], closed=False), HEIGHT, WIDTH
    )
    drawing = Markup('<svg viewBox="0 -4 {} {}" aria-hidden="true" focusable="false">{}</svg>').format(
        WIDTH, HEIGHT + 8, paths
    )
    bars = "|".join(",".join(map(str, side)) for side in (inside, outside))
    return Histograms(drawing, node.path, bars, node["n_in"].number(count), node["n_out"].number(count))


def _sides(node: Node) -> list[tuple[list[int], int]]:
    return [(node["inside"].value, node["n_in"].value), (node["outside"].value, node["n_out"].value)]


def _outline(heights: list[float], *, closed: bool) -> str:
    """The steps of a histogram; `closed` fills down to the axis."""
    step = WIDTH / len(heights)
    parts = [f"M0 {HEIGHT}"]
    for index, height in enumerate(heights):
        y = HEIGHT * (1 - height)
        parts.append(f"L{index * step:.1f} {y:.1f}H{(index + 1) * step:.1f}")
    parts.append(f"V{HEIGHT}")
    return "".join(parts) + ("Z" if closed else "")
