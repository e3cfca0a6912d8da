"""Loss against what other models say of the same record: is it easy, or was it learned?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Observations
from .moments import sides
from .registry import References, attack

Floats = NDArray[np.float64]


@attack("calibrated", needs=("loss",), references=References.OUT)
def calibrated(target: Observations, references: Observations) -> Floats:
    """s = mean loss of the models without the record - the target's loss (Watson et al. 2022, equation 2)."""
    _, outside = sides(references, "loss")
    return np.asarray(outside.mean[:, None] - target.need("loss"))


@attack("calibrated-online", needs=("loss",), references=References.BOTH)
def calibrated_online(target: Observations, references: Observations) -> Floats:
    """s = (mean loss with + mean loss without) / 2 - the target's loss (Sablayrolles et al. 2019, section 4)."""
    inside, outside = sides(references, "loss")
    # a record no reference was trained on: its own mean without, moved by what training does to the others
    gain = float((inside.mean - outside.mean)[inside.count > 0].mean())
    mean_in = np.where(inside.count > 0, inside.mean, outside.mean + gain)
    return np.asarray((mean_in + outside.mean)[:, None] / 2 - target.need("loss"))


@attack("reference", needs=("loss",), references=References.OUT)
def reference(target: Observations, references: Observations) -> Floats:
    """The share of models without the record whose loss is above the target's (attack R of Ye et al. 2022).

    With N such models the share has N + 1 values; ties are broken by the distance to their mean, squeezed into
    less than half of a step.
    """
    losses, known = target.need("loss"), references.need("loss")
    without = ~references.need("member").astype(bool)
    count = np.maximum(without.sum(axis=1), 1)[:, None]
    above = np.stack([((known > column[:, None]) & without).sum(axis=1) for column in losses.T], axis=1)
    _, outside = sides(references, "loss")
    distance = (outside.mean[:, None] - losses) / np.sqrt(outside.pooled)
    return np.asarray((above + np.arctan(distance) / np.pi * 0.99) / count)
