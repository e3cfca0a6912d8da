"""How many models to train at once: as many as leave half of the memory free.

A step of a few models is run on torch's meta device, where tensors have shapes and no content. That costs almost
nothing and shows how many bytes a step allocates. All of them are counted as if none were freed, which overestimates
the need by a small factor. For linear layers a formula that is larger still replaces the trial.
"""

from __future__ import annotations

import math
import os
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .device import Batch, Gradients
from .stack import AnyStack, LayerStack, Stack

BLOCK = 64
"""Models that share a random generator; the number trained at once is a multiple of it."""
MOST = {"cpu": 256, "cuda": 4096}
USED = 0.5


def at_once(models: Stack, record: torch.Size, batch: int, gradients: Gradients, device: torch.device) -> int:
    """How many models fit in memory: whole blocks, at least one. `models` is a stack of one or more of them."""
    most = MOST.get(device.type, BLOCK)
    if not isinstance(models, AnyStack | LayerStack) or type(models) not in (AnyStack, LayerStack):
        return most
    each = bytes_each(models, record, batch, gradients)
    return max(BLOCK, min(most, BLOCK * int(USED * available(device) / each / BLOCK)))


def bytes_each(models: AnyStack | LayerStack, record: torch.Size, batch: int, gradients: Gradients) -> int:
    """Bytes that a step of one model allocates."""
    if type(models) is LayerStack and models.linear:
        return linear_bytes(models, batch)
    few, more = (step_bytes(models, count, record, batch, gradients) for count in (2, 4))
    return max((more - few) // 2, 1)


def available(device: torch.device) -> int:
    """Bytes that a step may use."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def linear_bytes(models: LayerStack, batch: int) -> int:
    """An upper estimate for one model of linear layers: sixteen times its parameters and activations in float32."""
    shapes = [value.shape[1:] for value in models.parameters.values()]
    return 64 * sum(shape.numel() + batch * shape[0] for shape in shapes)


def step_bytes(models: Stack, count: int, record: torch.Size, batch: int, gradients: Gradients) -> int:
    empty = {
        name: torch.empty((count, *value.shape[1:]), device="meta", dtype=value.dtype)
        for name, value in models.parameters.items()
    }
    few = models.like(empty)
    rows = max(1, math.ceil(batch))
    x, y = torch.empty((rows, *record), device="meta"), torch.zeros(rows, dtype=torch.long, device="meta")
    with _Written() as written:
        gradients(few, Batch(x, y, torch.empty((count, rows), dtype=torch.bool, device="meta")))
    return written.bytes + 4 * sum(value.nbytes for value in empty.values())


class _Written(TorchDispatchMode):
    """A dispatch mode that adds up the bytes of every new tensor."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        found = func(*args, **(kwargs or {}))
        for value, kind in zip(found if isinstance(found, tuple) else (found,), func._schema.returns, strict=False):
            if isinstance(value, Tensor) and kind.alias_info is None:
                self.bytes += value.nbytes
        return found
