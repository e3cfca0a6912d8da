r"""Which examples a step sees: independent coins, drawn in index space.

Every record is taken with probability `rate`, independently of the others and of every other step; `rate` is the
plan's parameter, never 1 / number of batches. The true batch size is private: it goes to the operator only, and sums
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

from ..core import BadInput, Source
from .batch import mapped, size

Index = NDArray[np.int64]


def poisson(count: int, rate: float, source: Source) -> Index:
    r"""Indices of 0 .. count - 1, each with probability `rate`, by the gaps between them.

    The gap to the next index is geometric: P(gap > k) = (1 - rate)^k, so gap = 1 + floor(ln u / ln(1 - rate)).
    """
    if rate >= 1.0:
        return np.arange(count)
    if rate <= 0.0:
        return np.arange(0)
    scale = math.log1p(-rate)
    found: list[Index] = []
    last = -1
    while last < count:
        ask = max(16, math.ceil((count - last) * rate * 1.1) + 16)
        gaps = np.minimum(np.floor(np.log(source.uniform(ask)) / scale), count) + 1
        steps = last + np.cumsum(gaps.astype(np.int64))
        found.append(steps)
        last = int(steps[-1])
    index = np.concatenate(found)
    return index[index < count]


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
        """The chosen examples as one batch."""
        if self.direct:
            return mapped(lambda tensor: tensor[torch.from_numpy(index).to(tensor.device)], self.data)
        return default_collate([self.data[int(row)] for row in index])


@dataclass(frozen=True, eq=False)
class Batch:
    """The sample of one step, not yet loaded. Made by `PrivateStep.batches`, spent by one call of the step."""

    examples: Examples
    index: Index
    order: int
    physical: int
    fixed: bool

    def parts(self) -> Iterator[tuple[Any, Tensor]]:
        """Physical batches with their masks; none for an empty sample."""
        for start in range(0, len(self.index), self.physical):
            index = self.index[start : start + self.physical]
            missing = self.physical - len(index) if self.fixed else 0
            mask = torch.arange(len(index) + missing) < len(index)
            yield self.examples.rows(np.concatenate((index, np.zeros(missing, dtype=np.int64)))), mask


def as_tensors(data: Any) -> Any:
    """Arrays become tensors; double-precision numbers become float32."""
    if isinstance(data, np.ndarray):
        tensor = torch.from_numpy(np.ascontiguousarray(data))
        return tensor.float() if tensor.dtype == torch.float64 else tensor
    if isinstance(data, dict):
        return {key: as_tensors(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return tuple(as_tensors(value) for value in data)
    return data


def check_count(examples: Examples, public_size: int) -> None:
    """The plan's public size must be near the truth, or its rate and the averaging are about other data."""
    if examples.count == 0 or abs(examples.count - public_size) > 0.1 * public_size:
        raise BadInput(
            f"The data's size differs from the plan's public_size of {public_size} by more than 10 %.",
            fix="Make the plan for this data, or train on the data the plan was made for.",
        )


def physical_size(expected: float, asked: int | None) -> int:
    """Rows of a physical batch: what was asked, or enough for 39 samples of 40, up to 1024."""
    if asked is not None:
        return asked
    return min(1024, math.ceil((expected + 2 * math.sqrt(expected) + 1) / 8) * 8)
