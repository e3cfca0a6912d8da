"""Convert the records of a private fleet to tensors, whatever they hold (soundness rule 8).

An array of numbers is used as it is. From anything else, each record is read by itself, as `tacit.private` does. A
record that cannot be read, or whose label is not an integer, gets the label NOBODY and contributes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..core.errors import BadInput
from ..train.sample.items import reader

NOBODY = -1
LARGEST = 2.0**53


def whatever_they_hold(x: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
    """Features in float32, and labels; never raises because of a record's value."""
    features, read = _numbers(x)
    labels, known = _numbers(y)
    if labels.ndim != 1 or len(labels) != len(features):
        raise BadInput("A fleet needs x and y of one length, and one label for each record.")
    if labels.is_floating_point():
        known = known & (labels.abs() < LARGEST) & (labels == labels.floor())
        labels = torch.where(known, labels, float(NOBODY))
    labels = torch.where(known & read, labels.long(), NOBODY)
    return features.float(), labels


def _numbers(values: Any) -> tuple[Tensor, Tensor]:
    """A tensor with a row per record, and a mask (records,) of those that could be read."""
    found = _array(values)
    if found is not None:
        return found, torch.ones(len(found), dtype=torch.bool)
    records = values.tolist() if isinstance(values, np.ndarray) else list(values)
    (group,) = reader(records, len(records), None).groups(np.arange(len(records)))
    if not isinstance(group.rows, Tensor):
        raise BadInput("A fleet takes one array of numbers for each record.")
    return group.rows, torch.from_numpy(group.good)


def _array(values: object) -> Tensor | None:
    """The values as one array of numbers; None for lists that are ragged or hold something else."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):  # records of several shapes
        return None
    if array.dtype.kind not in "fiub" or not array.ndim:
        return None
    if array.dtype.kind == "f":
        return torch.as_tensor(array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64))
    return torch.as_tensor(array.astype(array.dtype if array.dtype.itemsize == 1 else np.int64))
