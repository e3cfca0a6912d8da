"""Ask a model about several copies of each record, as its training saw them: a model trained with augmentation knows
the copies too, and their mean tells more than the record alone (Carlini et al. 2022, section VI-A)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import BadInput, check
from ..core.resolution import LEAST, are_shares
from .models import predictor

Array = NDArray[Any]


def augmented(model: Any, augment: Callable[[Any, int], Any], *, copies: int) -> Callable[[Any], Array]:
    """predict(x) that asks about `augment(x, k)` for k = 0, 1, ... and gives the geometric mean of the shares.

    `augment(x, k)` is the k-th copy of all records, always the same: k = 0 should be the records themselves. Wrap the
    target and, inside `fit`, every reference model, so that all are asked alike. A record costs `copies` queries.
    """
    predict = predictor(model)
    check.whole("copies", copies)

    def answer(x: Any) -> Array:
        told = [_logarithms(predict(augment(x, k))) for k in range(copies)]
        return np.asarray(special.softmax(np.mean(told, axis=0), axis=1))

    return answer


def _logarithms(told: Array) -> Array:
    """Log shares of one answer, be it shares or logits."""
    if told.ndim != 2 or told.dtype.kind != "f":
        raise BadInput("Augmented queries need shares or logits, one column per class.", fix="Labels: use by_votes.")
    if are_shares(told):
        return np.log(np.maximum(told.astype(np.float64), LEAST))
    return np.asarray(special.log_softmax(told.astype(np.float64), axis=1))
