"""Give each record its own copy of tensors' memory and random generators, which is discarded afterwards.

A tensor keeps its identity and gets other memory while a record runs: a copy-on-write storage of torch, which is copied
only when it is written. All writes, through any alias (`.data`, a view, numpy), go there.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..arrays import products, set_products
from .alike import alike

PLACES = ("cpu", "cuda")
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
SMALL = 2**20
"""Tensors up to this size are copied once for all records, so that their own memory stays in place."""


def swappable(tensor: Tensor) -> bool:
    """Whether a tensor is an ordinary one whose memory can be exchanged."""
    plain = tensor.layout == torch.strided and not tensor.is_meta and not tensor.is_quantized
    return plain and type(tensor) in (Tensor, torch.nn.Parameter, torch.nn.Buffer) and not tensor.is_inference()


class Memory:
    """The memory of some tensors; tensors that share memory keep sharing it."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self.tensors = list(tensors)
        self.own = [tensor.data for tensor in self.tensors]
        self.flags = [(tensor.requires_grad, gradient(tensor), _hooks(tensor)) for tensor in self.tensors]
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
            if tensor._version != version:  # how often something was written
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
        for tensor, (wanted, noted, hooks) in zip(self.tensors, self.flags, strict=True):
            for name, held in zip(HOOKS, hooks, strict=True):
                if (now := getattr(tensor, name)) is not held:
                    if held is None and isinstance(now, dict):
                        now.clear()  # what made a tensor has the dict too
                    setattr(tensor, name, held)
            if tensor.is_leaf and tensor.requires_grad != wanted:
                tensor.requires_grad_(wanted)
            if gradient(tensor) is not noted:
                tensor.grad = noted

    def written(self) -> Tensor | None:
        """A tensor that was written into since `enter`."""
        pairs = zip(self.tensors, self.own, strict=True)
        return next((tensor for tensor, own in pairs if not _equal(tensor, own)), None)


def gradient(tensor: Tensor) -> Tensor | None:
    """The value of `grad`, without torch's warning for tensors that do not retain it."""
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None


def _hooks(tensor: Tensor) -> list[Any]:
    return [getattr(tensor, name) for name in HOOKS]


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
    """A tensor whose memory cannot be exchanged (sparse, sharded, quantised): it is copied, and copied back."""

    def __init__(self, held: Tensor) -> None:
        self.held, self.noted = held, held.detach().clone()

    def restore(self) -> None:
        with torch.no_grad(), torch.autograd.grad_mode._unsafe_preserve_version_counter(self.held):
            self.held.detach().copy_(self.noted)


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
            held.bit_generator.state = type(held.bit_generator)(seed).state

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
            held.bit_generator.state = self.noted


def _state(held: Any) -> Any:
    if isinstance(held, torch.Generator):
        return held.get_state()
    if isinstance(held, random.Random):
        return held.getstate()
    return held.get_state() if isinstance(held, np.random.RandomState) else held.bit_generator.state


class Flags:
    """Global settings of Python and torch that code may change."""

    def __init__(self) -> None:
        self.noted = [get() for get, _ in FLAGS]

    def restore(self) -> None:
        for (get, put), noted in zip(FLAGS, self.noted, strict=True):
            if get() != noted:
                put(noted)

    def moved(self) -> str:
        """The name of a setting that changed; not gradient mode, which torch sets in the backward pass."""
        for (get, _), noted in zip(FLAGS, self.noted, strict=True):
            if get is not torch.is_grad_enabled and get() != noted:
                return f"a setting of torch or Python ({getattr(get, '__name__', 'autocast').lstrip('_')})"
        return ""


def _device() -> torch.device | None:
    chosen = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if chosen is None else chosen.device


def _flushes() -> bool:
    return not bool(torch.full((), 1e-40, device="cpu") * 1.0)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(noted: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(noted[0], warn_only=noted[1])


def _products() -> str | tuple[str, ...]:
    """How float32 is multiplied, by torch's newer settings if those are in use, where the older ones raise."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return products()


def _set_products(noted: str | tuple[str, ...]) -> None:
    if isinstance(noted, str):
        torch.set_float32_matmul_precision(noted)
    else:
        set_products(noted)


FLAGS: tuple[tuple[Callable[[], Any], Callable[[Any], object]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (_products, _set_products),
    (_deterministic, _set_deterministic),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    *((partial(torch.is_autocast_enabled, place), partial(torch.set_autocast_enabled, place)) for place in PLACES),
    *((partial(torch.get_autocast_dtype, place), partial(torch.set_autocast_dtype, place)) for place in PLACES),
    (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    (_flushes, torch.set_flush_denormal),
    (_device, torch.set_default_device),
    (torch.is_warn_always_enabled, torch.set_warn_always),
    (torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    (torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math),
    (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
    (torch._C._get_mem_efficient_sdp_enabled, torch._C._set_sdp_use_mem_efficient),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    *(
        (getattr(torch._C, f"_get_cudnn_{name}"), getattr(torch._C, f"_set_cudnn_{name}"))
        for name in ("enabled", "benchmark", "deterministic")
    ),
)
