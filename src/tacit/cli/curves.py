"""Pictures: the trade-off curve and the privacy profile of an event, and what a training told its operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.adjacency import Adjacency
from ..core.errors import BadInput, MissingExtra
from ..core.events import Event, LastIterate
from ..core.json_text import Json
from ..core.privacy_loss import PrivacyLoss
from ..core.shown import small

SIDE = 280
HIGHEST = 50.0
"""Epsilons beyond this are not drawn."""
POINTS = 500
"""Steps that are drawn of a training, about."""


def drawable(path: Path) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    if path.suffix not in (".png", ".svg"):
        raise BadInput(f"The picture must end in .png or .svg, got {path.name}.")
    if not path.parent.is_dir():
        raise BadInput(f"The folder of {path} is not there.")
    _altair()


def draw(loss: PrivacyLoss, path: Path, event: Event, delta: float, adjacency: Adjacency) -> None:
    """Write a picture of what any attack can reach: TPR against FPR, delta against epsilon, epsilon against steps."""
    alt = _altair()
    panels = [_tradeoff(alt, loss), _profile(alt, loss)]
    if isinstance(event, LastIterate) and delta > 0:
        panels.append(_steps(alt, event, delta, adjacency))
    chart = alt.hconcat(*panels, spacing=30).resolve_scale(color="independent", strokeDash="independent")
    chart.configure_view(stroke=None).configure_axis(grid=False).save(str(path), scale_factor=2)


def training(history: Sequence[Any], plan: Any, delta: float, path: Path) -> None:
    """Loss, share of clipped examples and epsilon so far. The first two have no noise: the file is the operator's."""
    alt = _altair()
    known = [(step, info) for step, info in enumerate(history, plan.steps - len(history) + 1) if info.loss is not None]
    kept = known[:: max(1, len(known) // POINTS)]
    losses = [{"x": step, "y": info.loss, "line": "mean loss of the sample"} for step, info in kept]
    shares = [{"x": step, "y": info.clipped, "line": "share of examples that were clipped"} for step, info in kept]
    steps = sorted({max(1, plan.steps * part // 10) for part in range(11)})
    spent = [{"x": step, "y": plan.spent(step, delta).epsilon, "line": "epsilon of the steps so far"} for step in steps]
    across, unit = ("steps", alt.Scale(nice=False)), alt.Scale(domain=[0, 1])
    panels = [
        _lines(alt, losses, "training loss: not for publication", across, ("loss", alt.Scale(zero=True))),
        _lines(alt, shares, "clipping: not for publication", across, ("share", unit)),
        _lines(alt, spent, f"epsilon at delta {small(delta)}", across, ("epsilon", alt.Scale(zero=True))),
    ]
    chart = alt.hconcat(*panels, spacing=30).resolve_scale(color="independent", strokeDash="independent")
    path.touch(mode=0o600)
    path.chmod(0o600)
    chart.configure_view(stroke=None).configure_axis(grid=False).save(str(path), scale_factor=2)


def _tradeoff(alt: Any, loss: PrivacyLoss) -> Any:
    rates = np.unique(np.concatenate([np.geomspace(1e-5, 1.0, 60), np.linspace(0.0, 1.0, 41)]))
    read = [(float(rate), loss.tradeoff(float(rate))) for rate in rates]
    points = [{"x": rate, "y": found.upper, "line": "any attack, at most"} for rate, found in read]
    points += [{"x": rate, "y": rate, "line": "guessing"} for rate in (0.0, 1.0)]
    unit = alt.Scale(domain=[0, 1])
    return _lines(alt, points, "trade-off curve", ("false-positive rate", unit), ("true-positive rate", unit))


def _profile(alt: Any, loss: PrivacyLoss) -> Any:
    top = min(max(loss.epsilon(1e-9).upper, 0.1), HIGHEST)
    read = [(float(epsilon), loss.delta(float(epsilon)).upper) for epsilon in np.linspace(0.0, top, 60)]
    points = [{"x": epsilon, "y": delta, "line": "delta, at most"} for epsilon, delta in read if delta > 1e-12]
    log = alt.Scale(type="log", domain=[1e-12, 1])
    axis = alt.Axis(values=[10.0**power for power in range(-12, 1, 2)], format="~e")
    return _lines(alt, points, "privacy profile", ("epsilon", alt.Scale(zero=True)), ("delta", log), axis)


def _steps(alt: Any, event: LastIterate, delta: float, adjacency: Adjacency) -> Any:
    from ..loss.trajectory import trajectory

    curves = trajectory(event, adjacency, delta)
    points = [
        {"x": steps, "y": value, "line": name}
        for name, curve in curves.items()
        for steps, value in curve
        if math.isfinite(value)
    ]
    log = alt.Scale(type="log", nice=False)
    title = f"epsilon at delta {small(delta)}, by steps"
    return _lines(alt, points, title, ("steps", log), ("epsilon", alt.Scale(type="log", nice=False)))


def _lines(alt: Any, points: list[Json], title: str, x: Any, y: Any, y_axis: Any = None) -> Any:
    """Lines told apart by colour and dash, in the order in which they come."""
    names = list(dict.fromkeys(point["line"] for point in points))
    legend = alt.Legend(orient="bottom", direction="vertical", title=None, labelLimit=SIDE)
    dashes = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]
    order = alt.Scale(domain=names, range=["#1f5fa8", "#b3541e", "#3b7a3b", "#777777"][: len(names)])
    return (
        alt.Chart(alt.Data(values=points), title=title, width=SIDE, height=SIDE)
        .mark_line(clip=True)
        .encode(
            x=alt.X("x:Q", title=x[0], scale=x[1]),
            y=alt.Y("y:Q", title=y[0], scale=y[1], axis=y_axis or alt.Axis()),
            color=alt.Color("line:N", scale=order, legend=legend),
            strokeDash=alt.StrokeDash(
                "line:N", scale=alt.Scale(domain=names, range=dashes[: len(names)]), legend=legend
            ),
        )
    )


def _altair() -> Any:
    from ..reports.engine import engine

    engine()
    try:
        import altair
    except ImportError:
        raise MissingExtra("report") from None
    return altair
