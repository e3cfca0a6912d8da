"""What all charts share: colours that follow the page's theme, the look, and the way from a description to SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from ..core import MissingExtra
from ..core.json_text import Json
from .svg import draw

# CSS variables: one drawing serves light, dark and print; `dash` tells the lines apart without colour
COLOURS = tuple(f"var(--s{index})" for index in range(1, 7))
DASHES = ([1, 0], [7, 3], [2, 2], [10, 3, 2, 3], [5, 2, 1, 2, 1, 2], [14, 4])
WIDE = {"wide": 720, "narrow": 316}
HALF = {"wide": 340, "narrow": 316}


@dataclass(frozen=True)
class Series:
    """One entry of a chart's legend: its name, its look, and whether it can be switched off."""

    key: str
    name: str
    look: str
    path: str = ""
    toggle: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart in one or more scales. `data` is named, so that all scales and sizes share it."""

    name: str
    label: str
    specs: Mapping[str, Json]
    data: Mapping[str, list[Json]]
    series: Sequence[Series] = ()
    height: Mapping[str, int] = field(default_factory=dict)
    width: Mapping[str, int] = field(default_factory=lambda: WIDE)

    def static(self, size: str) -> Markup:
        """The first scale as SVG; `size` is wide or narrow."""
        spec = next(iter(self.specs.values()))
        layers = [layer for layer in spec["layer"] if layer.get("name") != "hover"]
        params = [param for param in spec.get("params", []) if "views" not in param]
        drawn = {**spec, "layer": layers, "params": params, "datasets": dict(self.data), "width": self.width[size]}
        drawn["height"] = self.height.get(size, spec["height"])
        return draw(drawn, f"{self.name}-{size}")


def live(charts: Sequence[Chart]) -> dict[str, object]:
    """What the script needs to draw the charts so that they answer to the pointer; equal specifications stand once."""
    specs: list[Json] = []
    drawn = {}
    for chart in charts:
        specs += [spec for spec in chart.specs.values() if spec not in specs]
        scales = {scale: specs.index(spec) for scale, spec in chart.specs.items()}
        drawn[chart.name] = {"scales": scales, "data": {name: _columns(rows) for name, rows in chart.data.items()}}
    return {"specs": specs, "charts": drawn}


def _columns(rows: Sequence[Mapping[str, object]]) -> dict[str, list[object]]:
    """Rows of equal keys, turned: each key is written once."""
    return {key: [row[key] for row in rows] for key in (rows[0] if rows else ())}


def altair() -> Any:
    """The module altair, or a sentence that says how to get it."""
    try:
        import altair
    except ImportError:
        raise MissingExtra("report") from None
    return altair


def finished(layers: Sequence[object], *, height: int, params: Sequence[object] = ()) -> Json:
    """Layers as one Vega-Lite specification in the page's look."""
    alt = altair()
    chart = alt.layer(*layers).properties(width="container", height=height).add_params(*params)
    spec: Json = chart.to_dict()
    return {**spec, "autosize": {"type": "fit-x", "contains": "padding"}, "background": None, "config": LOOK}


LOOK: dict[str, object] = {
    "aria": False,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "titleFontWeight": "normal",
        "titleFontSize": 13,
        "labelFontSize": 12,
        "domainColor": "var(--line-strong)",
        "tickColor": "var(--line-strong)",
        "gridColor": "var(--line)",
        "titlePadding": 10,
    },
    "text": {"color": "var(--ink)", "fontSize": 13},
}
