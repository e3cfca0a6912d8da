"""Signals of all records under all models, computed a few rows at a time, in memory or streamed to disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..core import check
from ..core.errors import BadInput
from ..core.observations import Observations
from .fleet import Models
from .stack import Stack

NAMES = ("loss", "margin", "probability", "logits", "gradient_norm")


def signals(
    models: Models,
    x: ArrayLike,
    y: ArrayLike,
    *,
    member: ArrayLike | None = None,
    names: Sequence[str] = ("loss", "margin", "probability"),
    folder: str | Path | None = None,
    rows: int = 1024,
) -> Observations:
    """Compute what the models' outputs say about the records: any of loss, margin, probability, logits and
    gradient_norm.

    With a `folder`, each signal is written to NAME.npy part by part and memory-mapped, so it may be larger than memory.
    The returned observations then read from these files. `gradient_norm` is the norm over all parameters.
    """
    features, label = np.asarray(x, dtype=np.float32), np.asarray(y).astype(np.int64)
    if len(features) != len(label) or not len(label):
        raise BadInput("Signals need x and y of one length, not empty.")
    if unknown := [name for name in names if name not in NAMES]:
        raise BadInput(f"There is no signal {unknown[0]!r}.", fix=f"Use some of: {', '.join(NAMES)}.")
    if not names:
        raise BadInput("Name at least one signal.")
    with torch.no_grad():
        classes = models.stacks[0].logits(_on(models.stacks[0], features[:1])).shape[-1]
    arrays: dict[str, Any] = {name: _array(name, (len(label), len(models)), classes, folder) for name in names}
    first = 0
    for stack in models.stacks:
        for start in range(0, len(label), check.whole("rows", rows)):
            part = slice(start, start + rows)
            found = _signals(stack, features[part], label[part], names)
            for name, array in arrays.items():
                array[part, first : first + found[name].shape[1]] = found[name]
        first += len(next(iter(stack.parameters.values())))
    sides = None if member is None else np.asarray(member, dtype=bool)
    return Observations(member=sides, label=label, **arrays)


def _signals(stack: Stack, x: NDArray[np.float32], y: NDArray[np.int64], names: Sequence[str]) -> dict[str, Any]:
    """The signals of one stack on some rows, records first."""
    batch = _on(stack, x)
    with torch.no_grad():
        logits = stack.logits(batch).transpose(0, 1).double().cpu().numpy()
    seen = Observations.from_logits(logits, y)
    found = {name: getattr(seen, name) for name in names if name != "gradient_norm"}
    if "gradient_norm" in names:
        found["gradient_norm"] = _norms(stack, batch, torch.as_tensor(y).to(batch.device))
    return found


def _norms(stack: Stack, x: torch.Tensor, y: torch.Tensor) -> NDArray[np.float64]:
    """Gradient norms as a private step computes them; all weights are zero, so nothing is summed."""
    kept: list[torch.Tensor] = []

    def nothing(norms: torch.Tensor) -> torch.Tensor:
        kept.append(norms)
        return torch.zeros_like(norms)

    stack.gradients(x, y, nothing)
    return np.asarray(kept[0].detach().T.double().cpu().numpy())


def _array(name: str, shape: tuple[int, int], classes: int, folder: str | Path | None) -> NDArray[np.float64]:
    whole = (*shape, classes) if name == "logits" else shape
    if folder is None:
        return np.empty(whole)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return np.lib.format.open_memmap(Path(folder) / f"{name}.npy", mode="w+", dtype=np.float64, shape=whole)
    except OSError:
        raise BadInput(f"The folder {folder} cannot be written to.") from None


def _on(stack: Stack, x: NDArray[np.float32]) -> torch.Tensor:
    return torch.as_tensor(x).to(next(iter(stack.parameters.values())).device)
