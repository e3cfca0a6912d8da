"""The log-log ROC chart: curves with their bands, chance, and the largest rate the claim allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..core.json_text import Json
from .chart import COLOURS, DASHES, Chart, Series, altair, finished
from .node import Node
from .subject import Subject

POINTS = 64
LOWEST = 1e-4


def roc_chart(subject: Subject) -> Chart | None:
    """None when there is neither a curve nor a frontier to draw."""
    curves = [item for item in subject.node["measurements"] if len(item["roc"])]
    frontier = subject.node["claim"]["frontier"].value if subject.claim else []
    if not curves and not frontier:
        return None
    floor = _floor(curves)
    data = {
        "curves": [point for index, item in enumerate(curves) for point in _curve(index, item)],
        "frontier": [{"fpr": x, "tpr": y} for x, y in thinned(frontier, POINTS)],
        "chance": [{"fpr": x, "tpr": x} for x in (0.0, *_decades(floor))],
    }
    return Chart(
        name=f"roc-{subject.index + 1}",
        label=f"ROC curves, both axes logarithmic: {len(curves)} attacks, chance"
        + (", and the limit that the claim sets." if frontier else "."),
        specs={scale: _spec(scale, floor, len(curves)) for scale in ("log", "linear")},
        data=data,
        series=_series(curves, frontier=bool(frontier), proven=subject.proven),
        height={"narrow": 300},
    )


def thinned(points: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of the points (first coordinate rising), evenly spaced on a log scale.

    Both ends stay, and the last point at 0: the height a curve reaches without any false positive.
    """
    positive = [index for index, point in enumerate(points) if point[0] > 0]
    if len(points) <= most:
        return list(points)
    if not positive:
        return [points[0], points[-1]]
    low, high = (math.log(points[index][0]) for index in (positive[0], positive[-1]))
    kept, wanted = {0, max(0, positive[0] - 1), len(points) - 1}, 0
    for index in positive:
        reached = (math.log(points[index][0]) - low) / max(high - low, 1e-300) * (most - 5)
        if reached >= wanted:
            kept.add(index)
            wanted = math.floor(reached) + 1
    return [points[index] for index in sorted(kept)]


def _curve(index: int, item: Node) -> list[Json]:
    points = thinned(item["roc"].value, POINTS)
    names = ("fpr", "tpr", "lower", "upper")
    rounded = [{name: float(f"{value:.5g}") for name, value in zip(names, point, strict=True)} for point in points]
    return [{**point, "series": str(index), "attack": item["attack"].value} for point in rounded]


def _floor(curves: Sequence[Node]) -> float:
    """The decade at or below the smallest positive false-positive rate of any curve."""
    smallest = min((point[0] for item in curves for point in item["roc"].value if point[0] > 0), default=LOWEST)
    return float(10.0 ** max(-6, min(-1, math.floor(math.log10(smallest) + 1e-9))))


def _decades(floor: float) -> list[float]:
    return [10.0**power for power in range(round(math.log10(floor)), 1)]


def _series(curves: Sequence[Node], *, frontier: bool, proven: bool) -> list[Series]:
    found = [
        Series(str(index), item["attack"].value, f"s{index % 6 + 1}", item["attack"].path, toggle=len(curves) > 1)
        for index, item in enumerate(curves)
    ]
    limit = "the most that the proof allows" if proven else "the most that the claim allows"
    return [*found, *([Series("", limit, "limit")] if frontier else []), Series("", "chance", "chance")]


@cache
def _spec(scale: str, floor: float, curves: int) -> Json:
    """The chart's specification, shared by all models with this number of curves: data come in by name."""
    alt = altair()
    shown = alt.param(name="shown", value=[str(index) for index in range(curves)])
    layers = [*_limits(alt, scale, floor), *_curves(alt, scale, floor, curves), _hover(alt, scale, floor, curves)]
    return finished(layers, height=420, params=[shown])


def _axes(alt: Any, scale: str, floor: float, field: str = "tpr") -> dict[str, object]:
    domain = [floor, 1.0] if scale == "log" else [0.0, 1.0]
    ticks = _decades(floor) if scale == "log" else [0, 0.25, 0.5, 0.75, 1]
    text = "datum.value >= 0.01 ? format(datum.value, '.0%') : format(datum.value, '~%')"

    def axis(title: str) -> Any:
        return alt.Axis(title=title, values=ticks, labelExpr=text, labelFlush=False, titleAnchor="end")

    kind = alt.Scale(type=scale, domain=domain, nice=False)
    x = alt.X("fpr:Q", scale=kind, axis=axis("outsiders wrongly accused (false-positive rate)"))
    y = alt.Y(f"{field}:Q", scale=kind, axis=axis("members found (true-positive rate)"))
    return {"x": x, "y": y}


def _limits(alt: Any, scale: str, floor: float) -> list[Any]:
    """Chance, the frontier, and a faint area above it that the claim says no attacker reaches."""
    axes = _axes(alt, scale, floor)
    drawn = "datum.fpr > 0 && datum.tpr > 0" if scale == "log" else "true"
    frontier = alt.Chart(alt.NamedData("frontier")).transform_filter(drawn).encode(**axes)
    beyond = frontier.mark_area(color="var(--beyond)", clip=True).encode(y2=alt.datum(1.0))
    line = frontier.mark_line(color="var(--limit)", strokeWidth=2.5, clip=True)
    chance = alt.Chart(alt.NamedData("chance")).transform_filter(drawn).encode(**axes)
    return [beyond, chance.mark_line(color="var(--muted)", strokeWidth=1, strokeDash=[1, 3], clip=True), line]


def _base(alt: Any, scale: str, floor: float) -> Any:
    """The curves that are switched on; `edge` is the band's lower edge, which a log scale must stop above 0."""
    chart = alt.Chart(alt.NamedData("curves")).transform_filter("indexof(shown, datum.series) >= 0")
    if scale == "linear":
        return chart.transform_calculate(edge="datum.lower")
    positive = chart.transform_filter("datum.fpr > 0 && datum.tpr > 0")
    return positive.transform_calculate(edge=f"max(datum.lower, {floor})")


def _looks(alt: Any, curves: int) -> dict[str, object]:
    keys = [str(index) for index in range(curves)]
    colours = [COLOURS[index % len(COLOURS)] for index in range(curves)]
    dashes = [DASHES[index % len(DASHES)] for index in range(curves)]
    return {
        "color": alt.Color("series:N", scale=alt.Scale(domain=keys, range=colours), legend=None),
        "strokeDash": alt.StrokeDash("series:N", scale=alt.Scale(domain=keys, range=dashes), legend=None),
    }


def _curves(alt: object, scale: str, floor: float, curves: int) -> list[Any]:
    base, looks = _base(alt, scale, floor), _looks(alt, curves)
    band = base.mark_area(opacity=0.13, clip=True).encode(
        **_axes(alt, scale, floor, "edge"), y2="upper:Q", color=looks["color"]
    )
    return [band, base.mark_line(strokeWidth=2, clip=True).encode(**_axes(alt, scale, floor), **looks)]


def _hover(alt: Any, scale: str, floor: float, curves: int) -> Any:
    """The point nearest to the pointer, marked and explained: a thin line is hard to hit."""
    near = alt.selection_point(name="near", on="pointermove", nearest=True, empty=False, clear="pointerout")
    tips = [alt.Tooltip("attack:N", title="attack")]
    tips += [
        alt.Tooltip(f"{name}:Q", title=title, format=".3~%")
        for name, title in (
            ("fpr", "false-positive rate"),
            ("tpr", "true-positive rate"),
            ("lower", "interval from"),
            ("upper", "to"),
        )
    ]
    axes, looks = _axes(alt, scale, floor), _looks(alt, curves)
    points = _base(alt, scale, floor).mark_point(size=90, filled=True, clip=True)
    shown = alt.condition(near, alt.value(1), alt.value(0))
    return (
        points.encode(**axes, color=looks["color"], opacity=shown, tooltip=tips)
        .add_params(near)
        .properties(name="hover")
    )
