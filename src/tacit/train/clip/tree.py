"""Batches as torch loaders make them: a tensor, or tuples, lists and dicts of tensors, one row per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ...core import BadInput


def mapped(function: Callable[[Tensor], Tensor], batch: object) -> Any:
    """Apply `function` to every tensor of a batch that holds examples (a scalar does not)."""
    if isinstance(batch, Tensor):
        return function(batch) if batch.ndim else batch
    if isinstance(batch, dict):
        return type(batch)({key: mapped(function, value) for key, value in batch.items()})
    if isinstance(batch, tuple) and type(batch) is not tuple:
        return type(batch)(*(mapped(function, value) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(mapped(function, value) for value in batch)
    return batch


def tensors(batch: object) -> list[Tensor]:
    """All tensors that hold examples, in order."""
    if isinstance(batch, Tensor):
        return [batch] if batch.ndim else []
    if isinstance(batch, dict):
        batch = batch.values()
    elif not isinstance(batch, tuple | list):
        return []
    return [tensor for value in batch for tensor in tensors(value)]


def size(batch: Any) -> int:
    """How many examples a batch holds."""
    lengths = {tensor.shape[0] for tensor in tensors(batch)}
    if len(lengths) != 1:
        raise BadInput(
            "A batch must hold tensors with one row per example and the same number of rows in each.",
            fix="Give (x, y), a dict of tensors, or a data set whose items torch can collate.",
        )
    return lengths.pop()


def describe(batch: object) -> tuple[Any, ...]:
    """Shapes of one example and dtypes: the key under which structures and compiled steps are cached."""
    return tuple((tensor.shape[1:], tensor.dtype, str(tensor.device)) for tensor in tensors(batch))
