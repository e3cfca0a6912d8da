"""Predictions of the models of a disjoint fleet, where the learnt parameters of one model may make it raise.

If such an error ended the call, it would reveal something about the records of that model. So the logits of a model
that raises are NaN, and those of the other models stay the same to the last bit. To achieve that, the pass is repeated
in a stack of the same size, in which another model takes the place of the one that raised.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .fleet import _logits
from .order import tensor_of
from .stack import Stack


def answers(models: Stack, x: ArrayLike, classes: int) -> NDArray[np.float64]:
    """Logits (records, models, classes) of one stack, NaN for a model that raises; other outputs are dropped."""
    first = next(iter(models.parameters.values()))
    batch = tensor_of(x).to(first.device)
    with torch.no_grad():
        found = _tried(models, batch)
        bad: list[int] = []
        if found is None:
            good = [k for k in range(len(first)) if _tried(_some(models, [k]), batch) is not None]
            bad = [k for k in range(len(first)) if k not in good]
            found = (
                _tried(_some(models, [k if k in good else good[0] for k in range(len(first))]), batch) if good else None
            )
    if found is None:
        return np.full((len(batch), len(first), classes), np.nan)
    told = found.double().cpu().numpy()[:, :, :classes]
    told[:, bad] = np.nan
    return told


def _tried(models: Stack, batch: Tensor) -> Tensor | None:
    try:
        return _logits(models, batch.clone())  # a model may change its input in place, and others are asked again
    except KeyboardInterrupt:
        raise
    except BaseException:  # whatever one model's weights do
        return None


def _some(models: Stack, places: list[int]) -> Stack:
    """Select the models at `places` as a new stack, in this order."""
    return models.like({name: value[places] for name, value in models.parameters.items()})
