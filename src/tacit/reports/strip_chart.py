"""The bound strip: demonstrated, attainable and claimed epsilon on one scale, a row per model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.json_text import Json
from ..core.sentence import at_ceiling
from ..core.shown import at_least, at_most
from .chart import Chart, Series, altair, finished
from .subject import Subject

ROW = 96


def strip_chart(subjects: Sequence[Subject]) -> Chart | None:
    """None when no model has a finite bound of either side."""
    rows = [_row(subject) for subject in subjects]
    known = [row[name] for row in rows for name in ("lower", "upper", "attainable") if row[name] is not None]
    if not known:
        return None
    most = _most(rows, known)
    for row in rows:
        row["far"] = row["attainable"] is not None and row["attainable"] > most
    parts = [part for row in rows for part in _parts(row)]
    return Chart(
        name="strip",
        label="Bound strip: for each model the demonstrated, attainable and claimed epsilon on one scale.",
        specs={"linear": _spec(most, len(rows))},
        data={"rows": rows, "parts": parts},
        series=_series(rows, parts, proven=all(subject.proven for subject in subjects if subject.claim)),
    )


def _most(rows: list[Json], known: list[float]) -> float:
    """The upper end of the scale. It shows all bounds, and the attainable bound unless that would crowd the others."""
    bounds = [row[name] for row in rows for name in ("lower", "upper") if row[name] is not None]
    widest = 2.2 * max(bounds, default=0.0) or math.inf
    return max(min(max(known) * 1.06, widest), 1e-3)


def _series(rows: list[dict[str, object]], parts: list[dict[str, object]], *, proven: bool) -> list[Series]:
    found = [
        (bool(parts), Series("", "demonstrated by the audit", "shown")),
        (any(part["part"] == "beyond" for part in parts), Series("", "demonstrated beyond the claim", "beyond")),
        (any(row["limit_text"] for row in rows), Series("", "limit of the audit: epsilon may be more", "ceiling")),
        (
            any(row["attainable"] is not None and not row["limit_text"] for row in rows),
            Series("", "most the audit could show", "attainable"),
        ),
        (any(row["upper"] is not None for row in rows), Series("", f"{_kind(proven)} upper bound", "claim")),
    ]
    return [series for wanted, series in found if wanted]


def _kind(proven: bool) -> str:
    return "proven" if proven else "claimed"


def _row(subject: Subject) -> Json:
    lower, claim = subject.lower, subject.claim
    row: Json = {
        "row": subject.index,
        "model": subject.label,
        "lower": lower["bound"]["epsilon"].value if lower else None,
        "upper": claim["bound"]["epsilon"].value if claim else None,
        "attainable": subject.node["attainable"].value if subject.evidence.demonstrations else None,
    }
    best = subject.evidence.lower
    row["limit_text"] = "the limit of this audit" if best is not None and at_ceiling(best) else ""
    row["far_text"] = "" if row["attainable"] is None else f"attainable {at_most(row['attainable'])}"
    row["lower_text"] = "" if row["lower"] is None else f"at least {at_least(row['lower'])}"
    row["upper_text"] = "" if row["upper"] is None else f"at most {at_most(row['upper'])}"
    return row


def _parts(row: Json) -> list[Json]:
    """The bar from 0 to the demonstrated bound, broken where it passes the claim."""
    if row["lower"] is None:
        return []
    upper = math.inf if row["upper"] is None else row["upper"]
    parts = [{"row": row["row"], "start": 0.0, "end": min(row["lower"], upper), "part": "within"}]
    if row["lower"] > upper:
        parts.append({"row": row["row"], "start": upper, "end": row["lower"], "part": "beyond"})
    return parts


def _spec(most: float, rows: int) -> Json:
    alt = altair()
    scale = alt.Scale(domain=[0, most], nice=False)
    axis = alt.Axis(title="epsilon (smaller is more private)", tickCount=6, grid=True, format="~g", titleAnchor="end")
    y = alt.Y("row:O", axis=None)

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", scale=scale, axis=axis)

    data = alt.Chart(alt.NamedData("rows"))
    track = data.mark_rule(color="var(--line-strong)").encode(y=y, x=alt.X(datum=0, scale=scale), x2=alt.datum(most))
    layers = [
        track,
        _bars(alt, x, y),
        *_marks(alt, data, x, y),
        *_texts(alt, data, x, y, most),
        _hover(alt, data, x, y, most),
    ]
    return finished(layers, height=24 + ROW * rows)


def _bars(alt: Any, x: Callable[[str], Any], y: Any) -> Any:
    colours = alt.Scale(domain=["within", "beyond"], range=["var(--shown)", "var(--bad)"])
    bars = alt.Chart(alt.NamedData("parts")).mark_bar(height=14)
    return bars.encode(x=x("start"), x2="end:Q", y=y, color=alt.Color("part:N", scale=colours, legend=None))


def _marks(alt: Any, data: Any, x: Callable[[str], Any], y: Any) -> list[Any]:
    diamond = data.mark_point(
        shape="diamond", size=120, stroke="var(--ink)", fill="var(--paper)", strokeWidth=1.5, opacity=1
    )
    arrow = data.mark_point(
        shape="triangle-right",
        size=120,
        stroke="var(--ink)",
        fill="var(--paper)",
        strokeWidth=1.5,
        opacity=1,
        xOffset=-7,
    )
    more = data.mark_point(shape="triangle-right", size=260, color="var(--shown)", filled=True, opacity=1, xOffset=7)
    tick = data.mark_tick(color="var(--limit)", thickness=4, height=32, orient="vertical", opacity=1)
    return [
        diamond.transform_filter("isValid(datum.attainable) && !datum.far && !datum.limit_text").encode(
            x=x("attainable"), y=y
        ),
        more.transform_filter("datum.limit_text != ''").encode(x=x("lower"), y=y),
        arrow.transform_filter("datum.far").encode(x=alt.value("width"), y=y),
        tick.transform_filter("isValid(datum.upper)").encode(x=x("upper"), y=y),
    ]


def _texts(alt: Any, data: Any, x: Callable[[str], Any], y: Any, most: float) -> list[Any]:
    """The model's name, then the claim above and the demonstration below the bar, turned inward at the edge."""
    layers = [
        data.mark_text(align="left", dy=-42, fontSize=14, fontWeight=600, limit=290, x=0).encode(y=y, text="model:N")
    ]
    for name, dy, colour in (("upper", -24, "var(--limit)"), ("lower", 25, "var(--shown-strong)")):
        for align, test in (("left", "<="), ("right", ">")):
            there = f"isValid(datum.{name}) && datum.{name} {test} {0.62 * most}"
            text = data.mark_text(align=align, dy=dy, color=colour).transform_filter(there)
            layers.append(text.encode(x=x(name), y=y, text=f"{name}_text:N"))
    for align, test in (("left", "<="), ("right", ">")):
        there = f"datum.limit_text != '' && datum.lower {test} {0.5 * most}"
        text = data.mark_text(align=align, dy=41, color="var(--shown-strong)").transform_filter(there)
        layers.append(text.encode(x=x("lower"), y=y, text="limit_text:N"))
    far = data.mark_text(align="right", dy=-16, color="var(--muted)").transform_filter("datum.far")
    return [*layers, far.encode(x=alt.value("width"), y=y, text="far_text:N")]


def _hover(alt: Any, data: Any, x: Callable[[str], Any], y: Any, most: float) -> Any:
    tips = [alt.Tooltip("model:N", title="model")]
    tips += [
        alt.Tooltip(f"{name}:Q", title=title, format=".4~g")
        for name, title in (("lower", "demonstrated"), ("attainable", "attainable"), ("upper", "claimed"))
    ]
    wide = data.mark_bar(height=ROW, fillOpacity=0, color="var(--paper)").transform_calculate(start="0", end=f"{most}")
    return wide.encode(x=x("start"), x2="end:Q", y=y, tooltip=tips).properties(name="hover")
