r"""Passes over very long rows on NVIDIA GPUs: \log \sum_k e^{x_k} of each, the number x_y at its label y, gradients.

A program goes through one row in blocks and keeps the largest number so far and the sum of all e^{x_k - largest}. It
takes one exponential per number, where a compiler's one-pass code takes two. The two parts of the logarithm stay apart:
their sum would have lost what is left of a number after it. Who has them and x_y has the loss, and needs the rows no
more, but for their gradient, g ([k = y] - e^{x_k} / \sum_j e^{x_j}), which is written once, in rows as long as products
want them.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
ALIGNED = 8


def log_sum_exp(values: Tensor, label: Tensor) -> Tensor:
    """(N, 3) in float32: the largest number, the logarithm beyond it, and the label's number, 0 for a label outside.

    What lies beyond a row's end, where rows are apart, is not read.
    """
    values, label = values if values.stride(1) == 1 else values.contiguous(), label.contiguous()
    apart = values.stride(0)
    step = ALIGNED if apart % ALIGNED == 0 else 1
    found = values.new_empty(len(values), 3, dtype=torch.float32)
    with torch.cuda.device_of(values):
        _log_sum_exp[(len(values),)](
            values, label, found, apart // step, COLUMNS=values.shape[1], STEP=step, BLOCK=BLOCK, num_warps=4
        )
    return found


@triton.jit
def _log_sum_exp(  # type: ignore[no-untyped-def]
    values, label, found, apart, COLUMNS: tl.constexpr, STEP: tl.constexpr, BLOCK: tl.constexpr
):
    """Whole blocks first, without a mask, so that numbers are read eight at a time."""
    row = tl.program_id(0).to(tl.int64)
    values += row * apart * STEP
    place = tl.arange(0, BLOCK)
    WHOLE: tl.constexpr = COLUMNS // BLOCK * BLOCK
    largest, total = -3.0e38, 0.0
    for start in range(0, WHOLE, BLOCK):
        block = tl.load(values + start + place).to(tl.float32)
        largest, total = _with(block, largest, total)
    if WHOLE < COLUMNS:
        block = tl.load(values + WHOLE + place, mask=WHOLE + place < COLUMNS, other=float("-inf")).to(tl.float32)
        largest, total = _with(block, largest, total)
    tl.store(found + 3 * row, largest)
    tl.store(found + 3 * row + 1, tl.log(total))
    own = tl.load(label + row)
    tl.store(found + 3 * row + 2, tl.load(values + own, mask=(own >= 0) & (own < COLUMNS), other=0.0).to(tl.float32))


@triton.jit
def _with(block, largest, total):  # type: ignore[no-untyped-def]
    """Update the running maximum and sum with one more block; entries of minus infinity add nothing."""
    higher = tl.maximum(largest, tl.max(block, 0))
    return higher, total * tl.exp(largest - higher) + tl.sum(tl.exp(block - higher), 0)


def softmax_gradient(
    values: Tensor, sums: Tensor, label: Tensor, total: Tensor, width: int, kind: torch.dtype
) -> Tensor:
    """(N, width) in `kind`: total_n ([k = label_n] - softmax_nk), zero beyond the columns; `sums` of `log_sum_exp`."""
    values = values if values.stride(1) == 1 else values.contiguous()
    sums, label, total = sums.contiguous(), label.contiguous(), total.contiguous()
    apart = values.stride(0)
    step, whole = (ALIGNED if length % ALIGNED == 0 else 1 for length in (apart, width))
    found = values.new_empty(len(values), width, dtype=kind)
    with torch.cuda.device_of(values):
        _softmax_gradient[(len(values), triton.cdiv(width, BLOCK))](
            values, sums, label, total, found, apart // step, width // whole,
            COLUMNS=values.shape[1], STEP=step, WHOLE=whole, BLOCK=BLOCK, num_warps=8,
        )  # fmt: skip
    return found


@triton.jit
def _softmax_gradient(  # type: ignore[no-untyped-def]
    values, sums, label, total, found, stride, width,
    COLUMNS: tl.constexpr, STEP: tl.constexpr, WHOLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, place = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values += row * stride * STEP
    found += row * width * WHOLE
    largest, rest = tl.load(sums + 3 * row), tl.load(sums + 3 * row + 1)
    own, share = tl.load(label + row), tl.load(total + row)
    inside = place < COLUMNS
    block = tl.load(values + place, mask=inside, other=0.0).to(tl.float32)
    slope = tl.where(place == own, share, 0.0) - tl.exp(block - largest - rest) * share
    slope = tl.where(inside, slope, 0.0)
    tl.store(found + place, slope.to(found.dtype.element_ty), mask=place < width * WHOLE)
