"""Find out whether validation data are training data: figures about those have no noise, and would be saved.

Data are compared by what they are made of: objects, the rows that parts of them take (`Subset`, slices, samplers), and
memory. No value of a record is looked at, so a copy of the training data is not noticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from ..core import BadInput
from .sample.columns import FIELDS

Rows = Collection[int] | None
"""Numbers of rows; None stands for all of them."""
SOME = frozenset({-1})
"""Rows that nobody knows, since a wrapper or sampler chooses them by rules of its own."""
DEEP = 8


def check_held_out(given: object, data: object) -> None:
    """Refuse to judge a model by its training data: accuracy and loss have no noise, and would be saved."""
    if within(given, data):
        raise BadInput(
            "Validation on the training data would print and save figures without noise.",
            fix="Give public or held-out data; losses of the training are in its history, for the operator alone.",
        )


def within(given: object, data: object) -> bool:
    """Whether data have a record in common with the other ones, as far as objects, rows and memory tell."""
    mine, theirs = list(_levels(given, None)), list(_levels(data, None))
    if any(_common(one.rows, other.rows) for one in mine for other in theirs if one.data is other.data):
        return True
    places = [place for one in theirs for place in _places(one)]
    return any(_meet(one, other) for level in mine for one in _places(level) for other in places)


@dataclass(frozen=True, eq=False)
class _Level:
    """Some rows of data, which other data take their records from."""

    data: Any
    rows: Rows


def _levels(data: Any, rows: Rows, depth: int = 0) -> Iterator[_Level]:
    """The data themselves, and what they are parts or wrappers of, each with the rows that are taken."""
    if data is None or depth > DEEP:
        return
    yield _Level(data, rows)
    if isinstance(data, ConcatDataset):
        first = 0
        for part in data.datasets:
            last = first + len(part)  # type: ignore[arg-type]
            inner = rows if rows is None or rows is SOME else [row - first for row in rows if first <= row < last]
            if inner is None or inner:
                yield from _levels(part, inner, depth + 1)
            first = last
        return
    inside = getattr(data, "dataset", None)
    if isinstance(data, Subset):
        chosen = list(data.indices)
        rows = chosen if rows is None else SOME if rows is SOME else [chosen[row] for row in rows]
    elif isinstance(data, DataLoader):
        rows = _sampled(data.sampler)
    elif inside is not None and _length(data) != _length(inside):
        rows = SOME
    yield from _levels(inside, rows, depth + 1)


def _sampled(sampler: object) -> Rows:
    """The rows that a loader takes."""
    if isinstance(sampler, SubsetRandomSampler):
        return list(sampler.indices)
    return None if isinstance(sampler, SequentialSampler | RandomSampler) else SOME


def _length(data: Any) -> int:
    return len(data) if hasattr(data, "__len__") else -1


def _common(mine: Rows, theirs: Rows) -> bool:
    if mine is None or theirs is None:
        return bool(mine is None or len(mine)) and bool(theirs is None or len(theirs))
    return mine is not SOME and theirs is not SOME and not set(mine).isdisjoint(theirs)


Place = tuple[object, Collection[int]]
"""Where the rows of a column begin in memory, and how a row lies there."""


def _places(level: _Level) -> list[Place]:
    """Where the rows of every column lie, or which objects the records of a list are."""
    data = level.data.tensors if isinstance(level.data, TensorDataset) else level.data
    if level.rows is SOME:
        return []
    if isinstance(data, list) and len(data) > FIELDS:
        records = data if level.rows is None else [data[row] for row in level.rows]
        return [
            ("objects", {id(one) for one in records if isinstance(one, Mapping | tuple | list | Tensor | np.ndarray)})
        ]
    data = tuple(data.values()) if isinstance(data, Mapping) else data
    columns = data if isinstance(data, tuple | list) else (data,)
    return [place for one in columns for place in _column(one, level.rows)]


def _column(one: object, rows: Rows) -> list[Place]:
    if isinstance(one, Tensor) and one.layout is torch.strided and not one.is_meta and one.ndim and one.numel():
        size = one.element_size()
        start, step, rest = one.data_ptr(), one.stride(0) * size, tuple(stride * size for stride in one.stride()[1:])
    elif isinstance(one, np.ndarray) and one.ndim and one.size:
        start, step, rest = one.__array_interface__["data"][0], one.strides[0], one.strides[1:]
    else:
        return []
    if len(one) > 1 and not step:  # one value for all
        return []
    every = range(start, start + len(one) * (step or 1), step or 1)
    return [((tuple(one.shape[1:]), rest), every if rows is None else {every[row] for row in rows})]


def _meet(mine: Place, theirs: Place) -> bool:
    (look, few), (other, many) = mine, theirs
    few, many = (few, many) if len(few) <= len(many) else (many, few)
    return look == other and any(place in many for place in few)
