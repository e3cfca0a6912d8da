"""The trade-off curve and the privacy profile as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..core.errors import BadInput, MissingExtra
from ..core.privacy_loss import PrivacyLoss


def draw(loss: PrivacyLoss, path: Path) -> None:
    """Write a picture of what any attack can reach: TPR against FPR, and delta against epsilon."""
    if path.suffix not in (".png", ".svg"):
        raise BadInput(f"The picture must end in .png or .svg, got {path.name}.")
    try:
        import altair
    except ImportError:
        raise MissingExtra("report") from None
    _chart(altair, loss).save(str(path))


def _chart(altair: object, loss: PrivacyLoss) -> object:
    rates = np.unique(np.concatenate([np.geomspace(1e-5, 1.0, 60), np.linspace(0.0, 1.0, 41)]))
    curve = [{"fpr": float(rate), "tpr": loss.tradeoff(float(rate)).upper} for rate in rates]
    top = min(max(loss.epsilon(1e-9).upper, 0.1), 50.0)
    profile = [
        {"epsilon": float(e), "delta": max(loss.delta(float(e)).upper, 1e-12)} for e in np.linspace(0.0, top, 60)
    ]
    line = lambda rows: altair.Chart(altair.Data(values=rows)).mark_line()  # type: ignore[attr-defined]  # noqa: E731
    left = line(curve).encode(
        x=altair.X("fpr:Q", title="false-positive rate"),  # type: ignore[attr-defined]
        y=altair.Y("tpr:Q", title="largest true-positive rate"),  # type: ignore[attr-defined]
    )
    right = line(profile).encode(
        x=altair.X("epsilon:Q", title="epsilon"),  # type: ignore[attr-defined]
        y=altair.Y("delta:Q", title="delta", scale=altair.Scale(type="log")),  # type: ignore[attr-defined]
    )
    return left | right
