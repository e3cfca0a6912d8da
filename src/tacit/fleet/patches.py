"""Patches of images, which turn a convolution into a matrix product, and the way back from their gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Sizes = tuple[int, int]


def patches_of(hidden: Tensor, kernel: Sizes, step: Sizes, padding: Sizes) -> Tensor:
    """(..., channels, B, height, width) -> (..., patch, B, positions), where a patch has channels x rows x columns."""
    found: Tensor = Patches.apply(hidden, kernel, step, padding)
    return found


class Patches(torch.autograd.Function):
    """`patches_of`, with the sums of their gradients.

    A pixel's gradient is the sum over the patches that it is in. Torch's own rule, once compiled for a GPU, adds each
    entry of each patch to its pixel by an atomic operation. Here every pixel is one sum of its few patches instead,
    which the compiler makes one loop. Its order is fixed, so that the same training gives the same bits.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, kernel: Sizes, step: Sizes, padding: Sizes) -> Tensor:
        down, right = padding
        padded = F.pad(hidden, (right, right, down, down))
        ctx.kernel, ctx.step, ctx.padding, ctx.sides = kernel, step, padding, padded.shape[-2:]
        for size, stride in zip(kernel, step, strict=True):
            padded = padded.unfold(-2, size, stride)  # the width comes to stand where the height stood
        ctx.positions = padded.shape[-4:-2]
        return padded.movedim((-2, -1), (-5, -4)).flatten(-6, -4).flatten(-2, -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        parts = gradient.unflatten(-1, ctx.positions).unflatten(-4, (-1, *ctx.kernel))
        rows = _added(parts, -4, -1, ctx.step[1], ctx.sides[1])
        found = _added(rows, -4, -2, ctx.step[0], ctx.sides[0])
        down, right = ctx.padding
        height, width = ctx.sides
        return found[..., down : height - down, right : width - right], None, None, None


def _added(parts: Tensor, window: int, along: int, step: int, side: int) -> Tensor:
    """Sum over the places `window` in a window, each moved to the pixels of the axis `along` that it was taken from."""
    if step > 1:
        parts = _apart(parts, along, step)
    size, count = parts.shape[window], parts.shape[along]
    moved = [F.pad(parts.select(window, k), (*(0, 0) * (-1 - along), k, side - count - k)) for k in range(size)]
    found = moved[0]
    for one in moved[1:]:
        found = found + one
    return found


def _apart(parts: Tensor, along: int, step: int) -> Tensor:
    """Zeros between the positions of an axis, so that they lie as far apart as the windows."""
    spread = F.pad(parts.unsqueeze(along), (*(0, 0) * (-1 - along), 0, step - 1)).flatten(along - 1, along)
    return spread.narrow(along, 0, (parts.shape[along] - 1) * step + 1)
