"""How per-example numbers are multiplied, added up and kept: in float32 at least, and in memory that is used again."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

ALIGNED = 8
# the C library's: larger blocks are always mapped by themselves; and how far from the heap at least
MAPPED, FAR = 2**25, 2**36
REDUCED = (torch.bfloat16, torch.float16)
ROUNDING = {"float32": 2.0**-12, "bfloat16": 2.0**-7}
"""How far rounding may carry a contribution beyond the clip norm: what the noise has room for (soundness rule 11)."""


def square(values: Tensor) -> Tensor:
    """Squared norm of everything but the first axis."""
    length = torch.linalg.vector_norm(flat(values), dim=1)
    return length * length


def flat(values: Tensor) -> Tensor:
    """(B, numbers) in float32 at least, a single number too."""
    return wide(values).flatten(1) if values.ndim > 1 else wide(values).unsqueeze(1)


def wide(values: Tensor) -> Tensor:
    """Float32 at least: norms and sums are never made in reduced precision (soundness rule 11)."""
    return values.float() if values.dtype in REDUCED else values


def narrow(values: Tensor) -> bool:
    """Whether products take these numbers as they are: a GPU multiplies them exactly and adds up in float32."""
    return values.dtype == torch.bfloat16 and values.is_cuda


def product(left: Tensor, right: Tensor) -> Tensor:
    """Products of a batch of matrices, in float32 at least."""
    if narrow(left) and left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(wide(left), wide(right))


def aligned(values: Tensor) -> Tensor:
    """Zeros added to the last axis up to a multiple of eight numbers: matrix units are slow on any other length."""
    missing = -values.shape[-1] % ALIGNED
    return F.pad(values, (0, missing)) if missing else values


def kept_only(values: Tensor, kept: Tensor) -> Tensor:
    """Zero, whatever they were, for the examples that are not kept."""
    return torch.where(kept.view(-1, *(1,) * (values.ndim - 1)), values, 0)


class Room:
    """Memory for gradients that are written out, kept from step to step: to map it anew costs as much as to fill it."""

    def __init__(self) -> None:
        self.blocks: list[Tensor] = []
        self.used = 0
        self.top: Tensor | None = None

    def clear(self) -> None:
        """All of it is free again; the next step asks for the same sizes in the same order."""
        self.used = 0

    def take(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        count = math.prod(shape)
        if self.used == len(self.blocks):
            self.blocks.append(like.new_empty(0))
        block = self.blocks[self.used]
        if block.numel() < count or block.dtype != like.dtype:
            block = self.blocks[self.used] = like.new_empty(count)
        self.used += 1
        return block[:count].view(shape)

    def hold(self, values: Tensor) -> None:
        """Keep the highest that a step had on the heap: freed memory above what is kept goes back to the system, and
        the next step would ask for it again, page by page. Blocks mapped by themselves lie far above any heap."""
        if values.untyped_storage().nbytes() >= MAPPED:
            return
        higher = 1 if self.top is None else values.data_ptr() - self.top.data_ptr()
        if 0 < higher < FAR or higher < -FAR:
            self.top = values
