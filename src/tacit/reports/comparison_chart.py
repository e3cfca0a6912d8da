"""Two small charts beside each other: what each model is worth, and what it gives away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.json_text import Json
from .chart import HALF, Chart, Series, altair, finished
from .comparison import common_rate, is_share, strongest, utilities
from .node import percent
from .subject import Subject

ROW = 60


def utility_chart(subjects: Sequence[Subject]) -> Chart | None:
    """The first utility that all models share, if it is a share."""
    shared = [n for n in utilities(subjects) if all(is_share(n, s.evidence.utility.get(n, -1.0)) for s in subjects)]
    if not shared:
        return None
    rows = [_utility_row(subject, shared[0]) for subject in subjects]
    spec = _utility_spec(shared[0], len(rows))
    label = f"Bars: {shared[0]} of each model."
    return Chart("utility", label, {"linear": spec}, {"rows": rows}, width=HALF)


def _utility_row(subject: Subject, name: str) -> dict[str, object]:
    value = subject.evidence.utility[name]
    return {"row": subject.index, "model": subject.label, "value": value, "text": percent(value)}


def _utility_spec(name: str, rows: int) -> Json:
    alt = altair()
    data, y = alt.Chart(alt.NamedData("rows")), alt.Y("row:O", axis=None)
    axis = alt.Axis(title=name, format=".0%", values=[0, 0.25, 0.5, 0.75, 1], titleAnchor="end")
    x = alt.X("value:Q", scale=alt.Scale(domain=[0, 1]), axis=axis)
    bars = data.mark_bar(height=10, color="var(--s2)").encode(x=x, y=y)
    texts = data.mark_text(align="right", dy=17).encode(x=x, y=y, text="text:N")
    return finished([bars, texts, _names(data, y), _hover(alt, data, y, name)], height=ROW * rows)


def leakage_chart(subjects: Sequence[Subject]) -> Chart | None:
    """Members found by the strongest attack at the common false-positive rate, with intervals, against chance."""
    fpr = common_rate(subjects)
    if fpr is None:
        return None
    rows = [_leak_row(subject, fpr) for subject in subjects]
    label = "Members found by the strongest attack on each model, with intervals, and the rate of pure guessing."
    spec = _leak_spec(fpr, len(rows))
    return Chart("leakage", label, {"log": spec}, {"rows": rows}, _leak_series(rows), width=HALF)


def _leak_row(subject: Subject, fpr: float) -> dict[str, object]:
    found, allowed = strongest(subject, fpr), subject.allowed(fpr)
    row = found[1] if found else None
    return {
        "row": subject.index,
        "model": subject.label,
        "value": row["value"].value if row else None,
        "lower": row["lower"].value if row else None,
        "upper": row["upper"].value if row else None,
        "allowed": allowed.value if allowed else None,
        "text": percent(row["value"].value) if row else "",
    }


def _leak_spec(fpr: float, rows: int) -> Json:
    alt = altair()
    floor = fpr / 10
    scale = alt.Scale(type="log", domain=[floor, 1], nice=False, clamp=True)
    data, y = alt.Chart(alt.NamedData("rows")), alt.Y("row:O", axis=None)
    axis = alt.Axis(title="members found (logarithmic)", format="~%", tickCount=4, titleAnchor="end")
    there = data.transform_filter("isValid(datum.value)").transform_calculate(from_=f"max(datum.lower, {floor})")
    x = alt.X("value:Q", scale=scale, axis=axis)
    line = there.mark_rule(strokeWidth=3, color="var(--s1)").encode(x=alt.X("from_:Q", scale=scale), x2="upper:Q", y=y)
    limit = data.transform_filter("isValid(datum.allowed)").mark_tick(
        color="var(--limit)", thickness=4, height=24, orient="vertical", opacity=1
    )
    layers = [
        data.mark_rule(color="var(--muted)", strokeDash=[2, 3]).encode(x=alt.X(datum=fpr, scale=scale)),
        line,
        limit.encode(x=alt.X("allowed:Q", scale=scale), y=y),
        there.mark_point(filled=True, size=90, color="var(--s1)", opacity=1).encode(x=x, y=y),
        there.mark_text(align="left", dy=17).encode(x=x, y=y, text="text:N"),
        _names(data, y),
        _hover(alt, data, y, "members found"),
    ]
    return finished(layers, height=ROW * rows)


def _leak_series(rows: Sequence[dict[str, object]]) -> list[Series]:
    some = any(row["allowed"] is not None for row in rows)
    limit = [Series("", "most the claim allows", "claim")] if some else []
    return [Series("", "found, with interval", "interval"), *limit, Series("", "pure guessing", "chance")]


def _names(data: Any, y: Any) -> Any:
    return data.mark_text(align="left", dy=-17, limit=280, x=0, color="var(--muted)").encode(y=y, text="model:N")


def _hover(alt: Any, data: Any, y: Any, title: str) -> Any:
    tips = [alt.Tooltip("model:N", title="model"), alt.Tooltip("text:N", title=title)]
    wide = data.mark_bar(height=ROW - 4, fillOpacity=0, color="var(--paper)", x=0, x2="width")
    return wide.encode(y=y, tooltip=tips).properties(name="hover")
