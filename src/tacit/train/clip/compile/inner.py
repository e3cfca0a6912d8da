"""Squared norms by inner products in a compiled step on a GPU: one kernel of our own per weight (`inner_kernels`).

The eager step writes the inner products out (`terms`), and a compiled one is compared with it before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..arrays import narrow

PROCESSORS = 132


@dataclass(frozen=True)
class Tile:
    """A block of positions, the numbers taken at a time, and how a program runs; `speed` is relative."""

    block: int
    step: int
    warps: int
    stages: int
    speed: float

    def pairs(self, positions: int) -> int:
        """How many pairs of blocks, each with itself too."""
        blocks = -(-positions // self.block)
        return blocks * (blocks + 1) // 2

    def time(self, sequences: int, positions: int) -> float:
        """How long all programs take, those that run side by side at once."""
        return -(-sequences * self.pairs(positions) // PROCESSORS) * self.block**2 / self.speed


# large blocks read less, small ones keep a GPU busy where there are few; by size alone, the sums are the same
TILES = (Tile(128, 64, 8, 4, 1.0), Tile(64, 64, 4, 4, 0.6))


def chosen(sequences: int, positions: int) -> Tile:
    return min(TILES, key=lambda tile: tile.time(sequences, positions))


def pays(left: Tensor, right: Tensor) -> bool:
    """Whether the kernel is for these sides: reduced precision, being compiled, rows one after the other in memory, and
    blocks that cover no more than all pairs of positions."""
    if not (narrow(left) and isinstance(left, FakeTensor) and left.is_contiguous() and right.is_contiguous()):
        return False
    batch, groups, positions, _ = left.shape
    tile = chosen(batch * groups, positions)
    return tile.pairs(positions) * tile.block**2 <= positions**2


@torch.library.custom_op("tacit::inner_sums", mutates_args=())
def inner_sums(left: Tensor, right: Tensor, lengths: Tensor, positions: int) -> Tensor:
    """(4, sequences, parts); see `inner_kernels`."""
    from .inner_kernels import sums

    left, right, lengths = left.contiguous(), right.contiguous(), lengths.contiguous()
    return sums(left, right, lengths, positions, chosen(len(left) // positions, positions))


@inner_sums.register_fake
def _(left: Tensor, right: Tensor, lengths: Tensor, positions: int) -> Tensor:
    count = len(left) // positions
    return left.new_empty(4, count, chosen(count, positions).pairs(positions), dtype=torch.float32)
