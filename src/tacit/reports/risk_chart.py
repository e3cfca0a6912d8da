"""Charts below the average: how many records are how exposed, which groups, and what training has spent by when."""

from __future__ import annotations

from ..core.json_text import Json
from ..core.shown import at_most, significant
from .chart import Chart, Series, altair, finished
from .node import count, measured
from .subject import Subject

DECADES = [10**power for power in range(10)]


def risk_chart(subject: Subject) -> Chart | None:
    """Bars: records by their memorisation, counts on a logarithmic scale, as the few exposed ones matter."""
    bins = subject.evidence.risk
    if not bins:
        return None
    rows = [
        {
            "lower": bin.lower,
            "upper": bin.upper,
            "from": 0.5,
            "records": bin.records,
            "text": f"{count(bin.records)} records from {significant(bin.lower)} to below {significant(bin.upper)}",
        }
        for bin in bins
        if bin.records
    ]
    label = "Bars: how many records have which memorisation, counts on a logarithmic scale."
    return Chart(f"risk-{subject.index + 1}", label, {"log": _bars()}, {"rows": rows}, height={"narrow": 200})


def group_chart(subject: Subject) -> Chart | None:
    """A dot with its interval for every group that could be judged: the advantage of the attack."""
    rows = [
        {
            "group": item.group,
            "value": item.advantage.value,
            "lower": item.advantage.lower,
            "upper": item.advantage.upper,
            "text": f"{measured(item.advantage.lower)} to {measured(item.advantage.upper)}",
        }
        for item in subject.evidence.groups
        if item.advantage.value is not None
    ]
    if len(rows) < 2:
        return None
    label = "A dot with an interval for every group: the advantage of the attack on it. At 0 the attack is guessing."
    series = [Series("", "advantage, with interval", "interval"), Series("", "pure guessing", "chance")]
    name = f"groups-{subject.index + 1}"
    return Chart(name, label, {"linear": _dots(len(rows))}, {"rows": rows}, series)


def budget_chart(subject: Subject) -> Chart | None:
    """A line: epsilon proven after so many steps."""
    rows = [
        {"step": item.step, "epsilon": item.epsilon, "text": at_most(item.epsilon)}
        for item in subject.evidence.budget
        if item.epsilon < float("inf")
    ]
    if len(rows) < 2:
        return None
    label = "A line that rises: epsilon proven after so many steps of training."
    return Chart(f"budget-{subject.index + 1}", label, {"linear": _line()}, {"rows": rows}, height={"narrow": 200})


def _bars() -> Json:
    alt = altair()
    data = alt.Chart(alt.NamedData("rows"))
    x = alt.X("lower:Q", axis=alt.Axis(title="memorisation", format="~g", tickCount=6, titleAnchor="end"))
    y = alt.Y(
        "from:Q",
        scale=alt.Scale(type="log", domainMin=0.5, nice=False),
        axis=alt.Axis(title="records", format="~s", values=DECADES),
    )
    encoded = {"x": x, "x2": "upper:Q", "y": y, "y2": "records:Q"}
    bars = data.mark_rect(color="var(--s1)", stroke="var(--paper)").encode(**encoded)
    hover = data.mark_rect(fillOpacity=0).encode(**encoded, tooltip=[alt.Tooltip("text:N", title="here")])
    return finished([bars, hover.properties(name="hover")], height=220)


def _dots(rows: int) -> Json:
    alt = altair()
    data = alt.Chart(alt.NamedData("rows"))
    y = alt.Y("group:N", sort=None, axis=alt.Axis(title=None, ticks=False, domain=False, labelLimit=150, grid=False))
    axis = alt.Axis(title="advantage of the attack", format="~%", tickCount=6, titleAnchor="end")
    x = alt.X("value:Q", axis=axis)
    tips = [alt.Tooltip("group:N", title="group"), alt.Tooltip("text:N", title="interval")]
    layers = [
        data.mark_rule(color="var(--muted)", strokeDash=[2, 3]).encode(x=alt.X(datum=0)),
        data.mark_rule(strokeWidth=3, color="var(--s1)").encode(x=alt.X("lower:Q", axis=axis), x2="upper:Q", y=y),
        data.mark_point(filled=True, size=90, color="var(--s1)", opacity=1).encode(x=x, y=y),
        data.mark_bar(fillOpacity=0, color="var(--paper)", x=0, x2="width")
        .encode(y=y, tooltip=tips)
        .properties(name="hover"),
    ]
    return finished(layers, height=26 * rows)


def _line() -> Json:
    alt = altair()
    data = alt.Chart(alt.NamedData("rows"))
    x = alt.X("step:Q", axis=alt.Axis(title="steps", format=",d", tickCount=6, titleAnchor="end"))
    y = alt.Y("epsilon:Q", axis=alt.Axis(title="epsilon, at most", format="~g"), scale=alt.Scale(zero=True))
    line = data.mark_line(color="var(--limit)", strokeWidth=2).encode(x=x, y=y)
    tips = [alt.Tooltip("step:Q", title="steps", format=","), alt.Tooltip("text:N", title="epsilon, at most")]
    hover = data.mark_point(size=200, filled=True, fillOpacity=0, strokeOpacity=0).encode(x=x, y=y, tooltip=tips)
    return finished([line, hover.properties(name="hover")], height=220)
