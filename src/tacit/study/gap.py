"""Leakage against the generalisation gap: the same training at several settings, each attacked in turn.

A model that does better on its members than on others can be attacked by that alone (Yeom et al. 2018, Theorem 2), and
a model without a gap can still leak: the rows show both, over model size, epochs, regularisation or training-set size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..core import BadInput, Estimate, Source, check, source
from ..core.files import written
from .cloning import refit
from .membership import attack
from .models import Fit, accuracy
from .pooling import pool
from .records import take

WIDTH, HEIGHT, EDGE, KEY = 740, 340, 56, 500
LINE = 16


@dataclass(frozen=True)
class Setting:
    """One setting of a training: accuracies on members and on others, and what the strongest attack finds."""

    name: str
    members: int
    train_accuracy: float
    test_accuracy: float
    area: Estimate
    rate: Estimate

    @property
    def gap(self) -> float:
        """Train minus test accuracy."""
        return self.train_accuracy - self.test_accuracy


def leakage_by_gap(
    trainings: Mapping[str, Any],
    data: tuple[Any, Any],
    *,
    sizes: Sequence[int] | None = None,
    references: int = 8,
    confidence: float = 0.95,
    rng: Source | int | np.random.Generator | None = None,
    output: str = "auto",
    note: Callable[[str], None] = lambda text: None,
) -> list[Setting]:
    """Train every setting on a random half of `data` (or on so many records: `sizes`) and attack it.

    `trainings` gives a name to each fit(x, y, rng) or estimator; all see the same members, so that rows differ by their
    setting alone. Every row quotes its `combined` attack, which is chosen on reference models and not on the row.
    `output` says what the models answer with, as for `tacit.attack`. `note` is told each setting's name before it is
    trained.
    """
    if not trainings:
        raise BadInput("Name at least one training.")
    chance = source(rng)
    half = len(data[1]) // 2
    x, y, _ = pool((take(data[0], np.arange(half)), np.asarray(data[1])[:half]),
                   (take(data[0], np.arange(half, len(data[1]))), np.asarray(data[1])[half:]))  # fmt: skip
    order = chance.permutation(len(y))
    rows = []
    for name, training in trainings.items():
        fit = refit(training, None) or training
        if not callable(fit):
            raise BadInput("A training must be fit(x, y, rng), or an estimator that can be cloned.")
        for size in sizes or (half,):
            if not 2 <= check.whole("size", size) <= half:
                raise BadInput(f"A training set must have 2 to {half} records here.")
            label = f"{name}, {size} records" if sizes else name
            note(label)
            more = {"references": references, "confidence": confidence, "output": output}
            rows.append(_one(label, fit, x, y, order[:size], order[half:], chance, more))
    return rows


def _one(
    name: str, fit: Fit, x: Any, y: Any, inside: Any, outside: Any, chance: Source, more: dict[str, Any]
) -> Setting:
    sides = (take(x, inside), y[inside]), (take(x, outside), y[outside])
    model = fit(*sides[0], chance.generator())
    found = attack(model, *sides, attacks=["combined"], fit=fit, rng=chance, **more)
    (row,) = found.attacks
    return Setting(
        name, len(inside), accuracy(model, *sides[0]), accuracy(model, *sides[1]), row.auc, row.tpr_at_fpr[0][1]
    )


def picture(rows: Sequence[Setting], path: str | Path = "gap.svg") -> Path:
    """One picture: the gap across, the area under the attack's curve upward, with its interval; 0.5 is guessing.

    Settings have numbers, in the order of their rows, and a key beside the picture.
    """
    if not rows:
        raise BadInput("There is nothing to draw.")
    most = max(0.05, max(row.gap for row in rows)) * 1.1
    height = max(HEIGHT, 2 * EDGE + LINE * len(rows))
    across = lambda gap: EDGE + (KEY - 2 * EDGE) * max(gap, 0.0) / most  # noqa: E731
    upward = lambda area: height - EDGE - (height - 2 * EDGE) * (area - 0.4) / 0.6  # noqa: E731
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" '
        'font-size="11"><title>Leakage against the generalisation gap</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *(_level(area, upward(area)) for area in (0.5, 0.75, 1.0)),
        *(f'<text x="{across(gap):.1f}" y="{height - EDGE + 18}" text-anchor="middle">{gap:.1%}</text>'
          for gap in (0.0, most / 2.2, most / 1.1)),
    ]  # fmt: skip
    numbers: list[tuple[float, float]] = []
    for place, row in sorted(enumerate(rows, 1), key=lambda item: item[1].gap):
        x, low, high = across(row.gap), upward(max(row.area.lower, 0.4)), upward(row.area.upper)
        y, name = upward(max(row.area.value or 0.5, 0.4)), escape(row.name)
        numbers.append((x, _free(x, high - 5, numbers)))
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="#456"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#1b5e9b"><title>{name}</title></circle>'
            f'<text x="{x:.1f}" y="{numbers[-1][1]:.1f}" text-anchor="middle">{place}</text>'
            f'<text x="{KEY}" y="{EDGE + LINE * place:.0f}">{place}: {name}</text>'
        )
    parts.append(
        f'<text x="{KEY / 2:.0f}" y="{height - 14}" text-anchor="middle">train minus test accuracy</text>'
        f'<text x="{EDGE}" y="24">area under the curve of the strongest attack</text></svg>'
    )
    return written(path, "\n".join(parts) + "\n")


def _level(area: float, y: float) -> str:
    """A line across the picture, and what it stands for."""
    return (
        f'<line x1="{EDGE}" x2="{KEY - EDGE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc"/>'
        f'<text x="{EDGE - 30}" y="{y + 4:.1f}">{area:g}</text>'
    )


def _free(x: float, y: float, taken: Sequence[tuple[float, float]]) -> float:
    """A height for a number on the chart at which it covers none of the numbers drawn before."""
    while any(abs(x - other) < 14 and abs(y - height) < 11 for other, height in taken):
        y -= 11
    return y
