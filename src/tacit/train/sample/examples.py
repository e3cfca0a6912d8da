"""The rows of a step's sample, loaded part by part.

Who takes part is drawn in index space (`draw`). The true batch size is private: it goes to the operator only, and sums
are divided by the public expected size.

The sample is cut into physical batches of one fixed size; the last one is filled up with masked examples that
contribute exactly zero, so nothing is recompiled, and an empty sample needs no special case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset, default_collate

from ...core import BadInput
from ..clip.tree import mapped, size
from .augment import Several
from .draw import Index


@runtime_checkable
class MapStyle(Protocol):
    """A data set that knows its length and gives an item for a number."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any: ...


@dataclass(frozen=True, eq=False)
class Examples:
    """Data with a length that can be asked for some of its rows: tensors, or a map-style data set."""

    data: Any
    count: int
    direct: bool

    @classmethod
    def of(cls, data: Any) -> Examples:
        if isinstance(data, TensorDataset):
            data = data.tensors
        if isinstance(data, Tensor | np.ndarray | tuple | list | dict):
            data = as_tensors(data)
            return cls(data, size(data), direct=True)
        if isinstance(data, MapStyle) and not isinstance(data, str | bytes | IterableDataset):
            return cls(data, len(data), direct=False)
        raise BadInput(
            f"Data must be tensors, arrays or a map-style data set, got {type(data).__name__}.",
            fix="Give (x, y), a dict of tensors, or a torch Dataset; a DataLoader has drawn its own batches already.",
        )

    def rows(self, index: Index) -> Any:
        """The chosen examples as one batch, in the shape of `index`."""
        if self.direct:
            places: dict[torch.device, Tensor] = {}
            return mapped(lambda tensor: _picked(tensor, _on(tensor.device, index, places)), self.data)
        rows = _collated([self.data[int(row)] for row in index.ravel()])
        return rows if index.ndim == 1 else mapped(lambda tensor: tensor.unflatten(0, index.shape), rows)


@dataclass(frozen=True, eq=False)
class Batch:
    """The sample of one step, not yet loaded. Made by `PrivateStep.batches`, spent by one call of the step.

    `index` holds a row number for each unit, or several with their `shares` in the unit's gradient.
    """

    examples: Examples
    index: Index
    order: int
    physical: int
    fixed: bool
    shares: NDArray[np.float32] | None = None

    def parts(self, first: int = 0, every: int = 1, *, even: bool = False) -> Iterator[tuple[Any, Tensor]]:
        """Physical batches with their masks, all or every n-th; none for an empty sample.

        `even`: as many whatever the `first`, the last one perhaps of a single masked example.
        """
        stride = every * self.physical
        last = math.ceil(len(self.index) / stride) * stride if even else len(self.index)
        for start in range(first * self.physical, last, stride):
            index = self.index[start : start + self.physical]
            missing = self.physical - len(index) if self.fixed else int(len(index) == 0)
            mask = torch.ones(len(index) + missing, dtype=torch.bool)
            mask[len(index) :] = False
            rows = self.examples.rows(_filled(index, missing))
            if self.shares is not None:
                shares = _filled(self.shares[start : start + self.physical], missing)
                rows = Several(rows, torch.from_numpy(shares))
            yield rows, mask


def _collated(items: list[Any]) -> Any:
    """One batch of all items, which must be alike."""
    try:
        return default_collate(items)
    except (RuntimeError, TypeError, KeyError) as error:
        raise BadInput(
            "Items of the data set cannot be put into one batch.",
            fix="Give items of tensors and numbers, all of one shape: pad texts to one length, images to one size.",
        ) from error


def _on(device: torch.device, index: Index, places: dict[torch.device, Tensor]) -> Tensor:
    """The index on a device, sent there once."""
    if device not in places:
        places[device] = torch.from_numpy(index).to(device, non_blocking=True)
    return places[device]


def _picked(tensor: Tensor, index: Tensor) -> Tensor:
    """tensor[index], rows at a time."""
    rows = tensor.index_select(0, index.flatten())
    return rows if index.ndim == 1 else rows.unflatten(0, index.shape)


def _filled(rows: NDArray[Any], missing: int) -> NDArray[Any]:
    """With so many rows of zeros at the end."""
    return rows if not missing else np.concatenate((rows, np.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)))


def as_tensors(data: Any) -> Any:
    """Arrays become tensors; double-precision numbers become float32, and labels of any width int64."""
    if isinstance(data, np.ndarray):
        tensor = torch.from_numpy(np.ascontiguousarray(data))
        kinds = {torch.float64: torch.float32, torch.int32: torch.int64, torch.int16: torch.int64}
        return tensor.to(kinds.get(tensor.dtype, tensor.dtype))
    if isinstance(data, dict):
        return {key: as_tensors(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return tuple(as_tensors(value) for value in data)
    return data


def check_count(count: int, public_size: int) -> None:
    """The plan's public size must be near the truth, or its rate and the averaging are about other data."""
    if count == 0 or abs(count - public_size) > 0.1 * public_size:
        raise BadInput(
            f"The data's size differs from the plan's public_size of {public_size} by more than 10 %.",
            fix="Make the plan for this data, or train on the data the plan was made for.",
        )


def physical_size(expected: float, asked: int | None) -> int:
    """Rows of a physical batch: what was asked, or enough for 39 samples of 40, up to 1024."""
    if asked is not None:
        return asked
    return min(1024, math.ceil((expected + 2 * math.sqrt(expected) + 1) / 8) * 8)
