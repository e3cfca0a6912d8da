"""Sums over the positions of every example on NVIDIA GPUs, in float32, rounded to what the numbers were.

One program takes a block of one example's columns and goes through its positions, some rows at a time. Each of these
rows has a sum of its own, and those are added up at the end, so a number passes few additions.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS, COLUMNS = 32, 128


def sums(values: Tensor) -> Tensor:
    r"""\sum_t v_bt for contiguous (B, T, d)."""
    count, positions, width = values.shape
    found = values.new_empty(count, width)
    blocks = triton.cdiv(width, COLUMNS)
    with torch.cuda.device_of(values):
        _sums[(count * blocks,)](values, found, T=positions, D=width, BLOCKS=blocks, R=ROWS, C=COLUMNS, num_warps=4)
    return found


@triton.jit
def _sums(values, found, T: tl.constexpr, D: tl.constexpr, BLOCKS: tl.constexpr, R: tl.constexpr, C: tl.constexpr):  # type: ignore[no-untyped-def]
    program = tl.program_id(0)
    example = (program // BLOCKS).to(tl.int64)
    column = program % BLOCKS * C + tl.arange(0, C)
    values += example * (T * D)
    total = tl.zeros((R, C), dtype=tl.float32)
    for start in range(0, T, R):
        row = start + tl.arange(0, R)
        inside = (row < T)[:, None] & (column < D)[None, :]
        total += tl.load(values + row[:, None] * D + column[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(found + example * D + column, tl.sum(total, 0).to(found.dtype.element_ty), mask=column < D)
