"""Give each record its own copy of tensors' memory and random generators, which is discarded afterwards.

A tensor keeps its identity and gets other memory while a record runs: a copy-on-write storage of torch, which is copied
only when it is written. All writes, through any alias (`.data`, a view, numpy), go there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .alike import alike

HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_BY_ROWS, _BY_COLUMNS = ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
SPARSE = {
    torch.sparse_coo: ("_indices", "_values"), torch.sparse_csr: _BY_ROWS, torch.sparse_bsr: _BY_ROWS,
    torch.sparse_csc: _BY_COLUMNS, torch.sparse_bsc: _BY_COLUMNS,
}  # fmt: skip
"""The methods that give the parts of a sparse tensor, by its layout."""
SMALL = 2**20
"""Tensors up to this size are copied once for all records, so that their own memory stays in place."""


def swappable(tensor: Tensor) -> bool:
    """Whether a tensor is an ordinary one whose memory can be exchanged."""
    plain = tensor.layout == torch.strided and not (tensor.is_meta or tensor.is_quantized or tensor.is_nested)
    return plain and type(tensor) in (Tensor, torch.nn.Parameter, torch.nn.Buffer) and not tensor.is_inference()


class Memory:
    """The memory of some tensors; tensors that share memory keep sharing it."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = list(tensors)
        self.own = [tensor.data for tensor in self.tensors]
        self.flags = [_flags(tensor) for tensor in self.tensors]
        self.versions = [tensor._version for tensor in self.tensors]
        self.masters: dict[int, Tensor] = {}
        for data in self.own:
            key = data.untyped_storage()._cdata
            if key not in self.masters:
                self.masters[key] = _master(data)
        self.keys = [data.untyped_storage()._cdata for data in self.own]

    def enter(self) -> None:
        """Give every tensor memory that belongs to this record."""
        given = {key: _lazily(master).untyped_storage() for key, master in self.masters.items()}
        for tensor, data, key in zip(self.tensors, self.own, self.keys, strict=True):
            tensor.data = data.new_empty(0).set_(given[key], data.storage_offset(), data.size(), data.stride())

    def restore(self) -> None:
        """Give every tensor its original memory back, and drop hooks and gradients that were attached to it."""
        for tensor, data, version in zip(self.tensors, self.own, self.versions, strict=True):
            tensor.data = data
            _as_counted(tensor, version)
        for tensor, flags in zip(self.tensors, self.flags, strict=True):
            _put_flags(tensor, *flags)

    def written(self) -> Tensor | None:
        """A tensor that was written into since `enter`."""
        pairs = zip(self.tensors, self.own, strict=True)
        return next((tensor for tensor, own in pairs if not _equal(tensor, own)), None)


def gradient(tensor: Tensor) -> Tensor | None:
    """The value of `grad`, without torch's warning for tensors that do not retain it."""
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _flags(tensor: Tensor) -> tuple[bool, Tensor | None, list[Any]]:
    """Whether a tensor requires a gradient, the gradient that it has, and its hooks."""
    return tensor.requires_grad, gradient(tensor), [getattr(tensor, name) for name in HOOKS]


def _put_flags(tensor: Tensor, wanted: bool, noted: Tensor | None, hooks: list[Any]) -> None:
    for name, held in zip(HOOKS, hooks, strict=True):
        if (now := getattr(tensor, name)) is not held:
            if held is None and isinstance(now, dict):
                now.clear()  # what made a tensor has the dict too
            setattr(tensor, name, held)
    if tensor.is_leaf and tensor.requires_grad != wanted:
        tensor.requires_grad_(wanted)
    if gradient(tensor) is not noted:
        tensor.grad = noted


def _as_counted(tensor: Tensor, version: int) -> None:
    """Restore the count of how often something was written."""
    if tensor._version != version:
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal bit for bit."""
    one, other = one.detach(), other.detach()
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _master(data: Tensor) -> Tensor:
    """A tensor's whole storage in its dtype: a copy, or the storage itself if it is large and can be shared."""
    storage = data.untyped_storage()
    whole = data.new_empty(0).set_(storage, 0, (storage.nbytes() // data.element_size(),), (1,))
    if data.device.type != "cpu" or whole.numel() <= SMALL:
        return whole.clone()
    try:
        torch._lazy_clone(whole)
    except RuntimeError:  # memory of numpy or of a file
        return whole.clone()
    return whole


def _lazily(master: Tensor) -> Tensor:
    """A copy that is made when it is written to; on a GPU, at once."""
    return torch._lazy_clone(master) if master.device.type == "cpu" else master.clone()


class Odd:
    """A tensor whose memory cannot be exchanged (sparse, sharded, quantised, nested): its parts are copied back."""

    def __init__(self, held: Tensor) -> None:
        self.held, self.version, self.own = held, held._version, held.data
        self.parts = [(part, part.clone()) for part in _parts(self.own)]
        self.flags = _flags(held)

    def restore(self) -> None:
        for part, noted in self.parts:
            with torch.no_grad(), torch.autograd.grad_mode._unsafe_preserve_version_counter(part):
                part.copy_(noted)
        if self.own.layout in SPARSE:  # a record may have put other parts in their place
            self.held.data = self.own
        _as_counted(self.held, self.version)
        _put_flags(self.held, *self.flags)


def _parts(tensor: Tensor) -> list[Tensor]:
    """The tensors that hold a sparse tensor's indices and values and share its memory; other tensors as they are."""
    return [getattr(tensor, name)() for name in SPARSE[tensor.layout]] if tensor.layout in SPARSE else [tensor]


class Draws:
    """A random generator: seeded for each record, and restored.

    The number of draws of a record may depend on its values, so the next record must not continue from there.
    """

    def __init__(self, held: Any) -> None:
        self.held, self.noted = held, _state(held)

    def seed(self, seed: int) -> None:
        """Before a record runs."""
        held = self.held
        if isinstance(held, torch.Generator):
            held.manual_seed(seed)
        elif isinstance(held, random.Random):
            random.Random.seed(held, seed)
        elif isinstance(held, np.random.RandomState):
            held.seed(seed % 2**32)
        else:
            fresh = type(held.bit_generator)(seed)
            _put_state(held.bit_generator, fresh.state, _origin(fresh))

    def moved(self) -> bool:
        """Whether numbers were drawn."""
        return not alike(_state(self.held), self.noted)

    def restore(self) -> None:
        held = self.held
        if isinstance(held, torch.Generator):
            held.set_state(self.noted)
        elif isinstance(held, random.Random):
            held.setstate(self.noted)
        elif isinstance(held, np.random.RandomState):
            held.set_state(self.noted)
        else:
            _put_state(held.bit_generator, *self.noted[:2])


def _state(held: Any) -> Any:
    if isinstance(held, torch.Generator):
        return held.get_state()
    if isinstance(held, random.Random):
        return held.getstate()
    if isinstance(held, np.random.RandomState):
        return held.get_state()
    origin = _origin(held.bit_generator)
    return held.bit_generator.state, origin, getattr(origin, "n_children_spawned", 0)


def _origin(drawing: np.random.BitGenerator) -> Any:
    """What new generators are spawned from; it counts them, so each record is given another one."""
    return getattr(drawing, "seed_seq", None)


def _put_state(drawing: np.random.BitGenerator, state: Any, origin: Any) -> None:
    try:
        drawing.__setstate__((state, origin))  # type: ignore[attr-defined]
    except (TypeError, ValueError):  # numpy 1
        drawing.state = state
