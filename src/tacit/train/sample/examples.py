"""The rows of a step's sample, loaded part by part.

Who takes part is drawn in index space (`draw`). The true batch size is private: it goes to the operator only, and sums
are divided by the public expected size.

The sample is cut into physical batches of fixed sizes (`sizes`). The last one is padded with masked examples that
contribute exactly zero, so nothing is recompiled, and an empty sample needs no special case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from ...core import BadInput
from ...core.arrays import Array
from ..clip.tree import mapped, size, tensors
from .augment import Several
from .collate import Collate
from .columns import Rows, are_tensors, as_tensors, has_columns
from .draw import Index
from .items import Group, Loader, reader
from .sizes import size_for

MOVED = 2**31
"""The largest data, in bytes, that are kept on a GPU beside the model."""
AT_ONCE = 1024
"""The largest default size of a physical batch."""


@runtime_checkable
class MapStyle(Protocol):
    """A data set with a length and an item for each number."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> object: ...


@dataclass(frozen=True, eq=False)
class Examples:
    """Data with a length, from which rows can be requested: tensors (`direct`), or records read by a `loader`."""

    data: Any
    count: int
    direct: bool
    loader: Loader | None = None

    @classmethod
    def of(cls, data: Any, collate: Collate | None = None, workers: int = 0) -> Examples:
        """From tensors or arrays with a row per record, a tuple or dict of them, a list of records, or a map-style data
        set.

        `collate` is given every record by itself (see `Buckets`); records are read by this many `workers`.
        """
        if isinstance(data, TensorDataset):
            data = data.tensors
        if has_columns(data):
            columns = as_tensors(data) if collate is None else None
            if columns is not None and are_tensors(columns):
                return cls(columns, size(columns), direct=True)
            data = Rows.of(data)
        if isinstance(data, MapStyle) and not isinstance(data, str | bytes | IterableDataset | DataLoader):
            data = list(data) if type(data) is list else data  # shuffled, it would change who takes part in a pass
            if not len(data):
                return cls(data, 0, direct=False)
            return cls(data, len(data), direct=False, loader=Loader(reader(data, len(data), collate), workers))
        raise BadInput(
            f"Data must be tensors, arrays, a list of records or a map-style data set, got {type(data).__name__}.",
            fix="Give (x, y), a dict of tensors, or a torch Dataset; a DataLoader has drawn its own batches already.",
        )

    def on(self, device: torch.device) -> Examples:
        """The data with its tensors moved to the model's GPU if they are of moderate size, so that rows are gathered
        there.

        The decision depends on shapes alone.
        """
        found = tensors(self.data) if self.direct and device.type == "cuda" else []
        if not found or sum(one.numel() * one.element_size() for one in found) > MOVED:
            return self
        return replace(self, data=mapped(lambda tensor: tensor.to(device), self.data))

    def rows(self, index: Index) -> Any:
        """The chosen examples as one batch, in the shape of `index`; records of several lengths get the largest."""
        if self.loader is None:
            places: dict[torch.device, Tensor] = {}
            return mapped(lambda tensor: _picked(tensor, _on(tensor.device, index, places)), self.data)
        (group,) = self.loader.source.groups(index, together=True)
        return group.rows

    def form(self, count: int) -> Any:
        """So many records of zeros, in the form of the data's."""
        if self.loader is None:
            return mapped(lambda tensor: tensor.new_zeros(count, *tensor.shape[1:]), self.data)
        return mapped(lambda tensor: tensor.expand(count, *tensor.shape[1:]).clone(), self.loader.source.empty())


@dataclass(frozen=True, eq=False)
class Batch:
    """The sample of one step, not yet loaded. Made by `PrivateStep.batches`, consumed by one call of the step.

    `index` holds a row number for each unit, or several with their `shares` in the unit's gradient. Physical batches
    have at most `physical` units; if `fixed`, they have exactly that many, or one of the `smaller` sizes if that holds
    the rest. Except with a probability of about one in a billion, a sample has at most `slots` physical batches.
    """

    examples: Examples
    index: Index
    order: int
    physical: int
    fixed: bool
    shares: NDArray[np.float32] | None = None
    smaller: tuple[int, ...] = ()
    slots: int = 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of padded physical batches, ascending."""
        return (*self.smaller, self.physical)

    def cuts(self) -> list[tuple[int, int, int]]:
        """Start, end and padded size of each physical batch."""
        ends = [
            (start, min(start + self.physical, len(self.index))) for start in range(0, len(self.index), self.physical)
        ]
        return [(start, end, size_for(end - start, self.sizes)) for start, end in ends]

    def parts(self, first: int = 0, every: int = 1, *, even: bool = False) -> Iterator[tuple[Any, Tensor]]:
        """Physical batches with their masks, all or every n-th; none for an empty sample.

        `even`: yield equally many for every `first`; the last may then be a single masked example.
        """
        stride = every * self.physical
        last = math.ceil(len(self.index) / stride) * stride if even else len(self.index)
        starts = range(first * self.physical, last, stride)
        if self.examples.loader is not None:
            yield from self._loaded(self.examples.loader, starts)
            return
        for start in starts:
            index = self.index[start : start + self.physical]
            missing = self._missing(len(index))
            rows = self.examples.rows(_filled(index, missing))
            shares = None if self.shares is None else self.shares[start : start + self.physical]
            yield _part(rows, np.ones(len(index), dtype=np.bool_), shares, missing)

    def _missing(self, count: int) -> int:
        """How many masked examples pad a physical batch of `count`."""
        return size_for(count, self.sizes) - count if self.fixed else int(count == 0)

    def _loaded(self, loader: Loader, starts: range) -> Iterator[tuple[object, Tensor]]:
        """Read records in order; a physical batch is emitted when it is full of records of one length."""
        whole = np.arange(len(self.index))
        order = np.concatenate([whole[start : start + self.physical] for start in starts] or [whole[:0]])
        waiting: dict[int | None, Waiting] = {}
        sent = seen = 0
        for groups in loader(self.index[order], self.physical):
            for group in groups:
                own = waiting.setdefault(group.length, Waiting())
                own.add(group, order[seen:][group.places])
                while len(own) >= self.physical:
                    yield self._sent(own.take(self.physical))
                    sent += 1
            seen += sum(len(group.places) for group in groups)
        for own in waiting.values():
            if len(own):
                yield self._sent(own.take(len(own)))
                sent += 1
        for _ in range(sent, len(starts)):  # other processes have a part here
            yield self._sent((loader.source.empty(), np.zeros((1, *self.index.shape[1:]), np.bool_), whole[:0]))

    def _sent(self, found: tuple[object, NDArray[np.bool_], Index]) -> tuple[Any, Tensor]:
        rows, good, places = found
        missing = self._missing(len(good))
        if missing:
            rows = mapped(lambda tensor: torch.cat((tensor, tensor.new_zeros(missing, *tensor.shape[1:]))), rows)
        if self.shares is None:
            return _part(rows, good, None, missing)
        shares = (self.shares[places] if len(places) else np.zeros(good.shape, np.float32)) * good
        return _part(rows, np.ones(len(good), dtype=np.bool_), shares, missing)


class Waiting:
    """Records of one length that do not fill a physical batch yet."""

    def __init__(self) -> None:
        self.rows: object = None
        self.good = np.zeros(0, np.bool_)
        self.places = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.places)

    def add(self, group: Group, places: Index) -> None:
        if not len(self):
            self.rows, self.good, self.places = group.rows, group.good, places
            return
        new = iter(tensors(group.rows))
        self.rows = mapped(lambda tensor: torch.cat((tensor, next(new))), self.rows)
        self.good, self.places = np.concatenate((self.good, group.good)), np.concatenate((self.places, places))

    def take(self, count: int) -> tuple[Any, NDArray[np.bool_], Index]:
        """Remove and return the first `count` records."""
        found = mapped(lambda tensor: tensor[:count], self.rows), self.good[:count], self.places[:count]
        self.rows = mapped(lambda tensor: tensor[count:], self.rows)
        self.good, self.places = self.good[count:], self.places[count:]
        return found


def _part(
    rows: object, good: NDArray[np.bool_], shares: NDArray[np.float32] | None, missing: int
) -> tuple[Any, Tensor]:
    """A physical batch with its mask; padding and unreadable records are masked."""
    mask = torch.from_numpy(_filled(good, missing))
    return (rows if shares is None else Several(rows, torch.from_numpy(_filled(shares, missing)))), mask


def _on(device: torch.device, index: Index, places: dict[torch.device, Tensor]) -> Tensor:
    """The index on a device, transferred once."""
    if device not in places:
        places[device] = torch.from_numpy(index).to(device, non_blocking=True)
    return places[device]


def _picked(tensor: Tensor, index: Tensor) -> Tensor:
    """tensor[index], gathered by rows."""
    rows = tensor.index_select(0, index.flatten())
    return rows if index.ndim == 1 else rows.unflatten(0, index.shape)


def _filled(rows: Array, missing: int) -> Array:
    """The rows with `missing` rows of zeros appended."""
    return rows if not missing else np.concatenate((rows, np.zeros((missing, *rows.shape[1:]), dtype=rows.dtype)))


def check_count(count: int, public_size: int, *, people: bool = False) -> None:
    """Refuse data whose size is far from the plan's public size: its rate and averages would be about other data."""
    if count and abs(count - public_size) <= 0.1 * public_size:
        return
    what, fix = "data's size", "Make the plan for this data, or train on the data the plan was made for."
    if people:
        what, fix = "number of users", "A plan for users counts users, not their records."
    raise BadInput(f"The {what} differs from the plan's public_size of {public_size} by more than 10 %.", fix=fix)


def physical_size(expected: float, asked: int | None) -> int:
    """Rows of a physical batch: as requested, or enough for 39 of 40 samples, up to AT_ONCE."""
    if asked is not None:
        return asked
    return min(AT_ONCE, math.ceil((expected + 2 * math.sqrt(expected) + 1) / 8) * 8)
