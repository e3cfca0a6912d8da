"""Settings of a training whose leakage is compared: model size, epochs, regularisation and training-set size.

One setting changes at a time, and the others stay in the middle of their ranges. So each row differs from the middle
row by one setting.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import Source
from ..core.arrays import Array
from .gap import Setting, leakage_by_gap

WIDTHS, EPOCHS, DECAYS, PARTS = (4, 32, 256), (5, 40, 160), (0.01, 0.0003, 0.0), (8, 4, 2, 1)
"""Hidden units, passes over the members, weight decay in a step, and how many times fewer records are trained on."""
BATCH, LR = 64, 0.01


def networks(classes: int) -> dict[str, Callable[..., object]]:
    """Names and trainings of networks with one hidden layer, around one in the middle."""
    width, epochs, decay = WIDTHS[1], EPOCHS[1], DECAYS[1]
    made = {"middle": hidden_layer(classes, width, epochs, decay)}
    made |= {f"{n} hidden units": hidden_layer(classes, n, epochs, decay) for n in WIDTHS if n != width}
    made |= {f"{n} epochs": hidden_layer(classes, width, n, decay) for n in EPOCHS if n != epochs}
    made |= {f"weight decay {n:g}": hidden_layer(classes, width, epochs, n) for n in DECAYS if n != decay}
    return made


def hidden_layer(classes: int, width: int, epochs: int, decay: float) -> Callable[..., object]:
    """fit(x, y, rng) -> logits of a network trained by AdamW in batches of 64, on standardised features."""

    def fit(x: Array, y: Array, rng: np.random.Generator) -> Callable[[Array], Array]:
        import torch
        from torch import nn

        centre, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
        chance = torch.Generator().manual_seed(int(rng.integers(2**31)))
        model = nn.Sequential(nn.Linear(x.shape[1], width), nn.ReLU(), nn.Linear(width, classes))
        for part in model.parameters():
            bound = 1.0 / float(np.sqrt(part.shape[-1] if part.ndim > 1 else width))
            nn.init.uniform_(part, -bound, bound, generator=chance)
        ready = lambda rows: torch.as_tensor((rows - centre) / scale, dtype=torch.float32)  # noqa: E731
        inputs, labels = ready(x), torch.as_tensor(y)
        optimizer = torch.optim.AdamW(model.parameters(), LR, weight_decay=decay / LR)
        for _ in range(epochs):
            for rows in torch.randperm(len(y), generator=chance).split(BATCH):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
                optimizer.step()

        def logits(rows: Array) -> Array:
            with torch.no_grad():
                return np.asarray(model(ready(rows)).numpy())

        return logits

    return fit


def sweep(
    fit: Callable[..., object] | None,
    x: Array,
    y: Array,
    *,
    references: int,
    rng: Source,
    output: str = "auto",
    note: Callable[[str], None] = lambda text: None,
) -> list[Setting]:
    """Every setting of built-in networks, and training-set sizes; of a given training its sizes alone.

    `output` says what models of the given training answer with. `note` is told which setting of how many is trained
    next.
    """
    half = len(y) // 2
    sizes = sorted({max(2, half // part) for part in PARTS})
    made = {"fit": fit} if fit is not None else networks(int(y.max()) + 1)
    count, place = len(sizes) if fit is not None else len(made) + len(sizes) - 1, itertools.count(1)
    more: dict[str, Any] = {"references": references, "rng": rng}
    more["note"] = lambda name: note(f"setting {next(place)} of {count}: {name}, and {references} reference models")
    if fit is not None:
        return leakage_by_gap(made, (x, y), sizes=sizes, output=output, **more)
    more["output"] = "logits"  # of few records, logits may look like shares
    rows = leakage_by_gap(made, (x, y), **more)
    return rows + leakage_by_gap({"middle": made["middle"]}, (x, y), sizes=sizes[:-1], **more)


def agreement(rows: list[Setting]) -> float | None:
    """Rank correlation (Spearman 1904) of gap and area; None where either does not vary."""
    gaps, areas = (np.array([value(row) for row in rows]) for value in (lambda r: r.gap, lambda r: r.area.value))
    ranked = [_ranks(values) for values in (gaps, areas)]
    if min(np.ptp(ranks) for ranks in ranked) == 0:
        return None
    return float(np.corrcoef(ranked[0], ranked[1])[0, 1])


def _ranks(values: Array) -> Array:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place])
