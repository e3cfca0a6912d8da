"""Attacks that see the predicted label and nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Observations
from .moments import moments
from .registry import References, attack

Floats = NDArray[np.float64]


@attack("label", needs=("logits", "label"), references=References.NONE)
def label(target: Observations) -> Floats:
    """s = 1 when the model's label is right, else 0 (the gap attack of Yeom et al. 2018, section 3.2)."""
    return right(target)


@attack("label-calibrated", needs=("logits", "label"), references=References.OUT)
def label_calibrated(target: Observations, references: Observations) -> Floats:
    """s = right - share of the models without the record that are right: to be right where others fail is telling."""
    outside = moments(right(references), ~references.need("member").astype(bool))
    return np.asarray(right(target) - outside.mean[:, None])


def right(seen: Observations) -> Floats:
    """1 where the largest logit is the true label's (a tie at the top counts as right)."""
    logits, y = seen.need("logits"), seen.need("label").astype(np.int64)
    own = np.take_along_axis(logits, y[:, None, None], axis=2)[..., 0]
    return np.asarray((own >= logits.max(axis=2)).astype(np.float64))
