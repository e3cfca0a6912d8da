r"""Per-example weight gradients of a two-dimensional convolution on NVIDIA GPUs, never written to memory.

Example i's gradient G_i = \sum_s g_s patch_s^T is a product of its output gradients (positions x p) and its patches
(positions x taps c), which are read where they lie in the image. It is made in float32 from products of numbers as they
are, so bfloat16 loses nothing, block by block in registers:

    squares    \sum of the squares of each block: |G_i|^2 in parts
    weighted   \sum_i w_i G_i, the examples spread over programs that each keep a sum of their own

Images and gradients are (images, height, width, channels), one after the other in memory; `each` images belong to one
example. Nothing is added up in an order that changes from run to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 4 * 132


@dataclass(frozen=True)
class Geometry:
    """A convolution's kernel and how it moves over an image."""

    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]


def squares(images: Tensor, gradients: Tensor, geometry: Geometry, each: int) -> Tensor:
    """|G_i|^2 of every example."""
    sizes, tiles = _sizes(images, gradients, geometry, each, many=128)
    count = len(images) // each
    found = images.new_empty(count, tiles, dtype=torch.float32)
    with _on(images):
        _squares[(count * tiles,)](images, gradients, found, tiles, **sizes)
    return found.sum(1)


def weighted(images: Tensor, gradients: Tensor, weights: Tensor, geometry: Geometry, each: int) -> Tensor:
    r"""\sum_i w_i G_i as (p, c, *kernel)."""
    sizes, tiles = _sizes(images, gradients, geometry, each, many=64)
    count = len(images) // each
    share = triton.cdiv(count, max(1, PROGRAMS // tiles))
    parts = triton.cdiv(count, share)
    rows, columns = gradients.shape[3], images.shape[3]
    found = images.new_empty(parts, rows, *geometry.kernel, columns, dtype=torch.float32)
    with _on(images):
        _weighted[(parts * tiles,)](images, gradients, weights, found, tiles, count, share, **sizes)
    return found.sum(0).permute(0, 3, 1, 2).contiguous()


def _on(tensor: Tensor) -> Any:
    return torch.cuda.device_of(tensor)


def _sizes(
    images: Tensor, gradients: Tensor, geometry: Geometry, each: int, many: int
) -> tuple[dict[str, object], int]:
    """What the kernels are specialised for, and how many blocks of at most `many` rows cover one gradient."""
    _, height, width, columns = images.shape
    _, tall, broad, rows = gradients.shape
    (high, wide), (down, right), (top, left), (far, apart) = (
        geometry.kernel, geometry.stride, geometry.padding, geometry.dilation,
    )  # fmt: skip
    length = high * wide * columns
    across = 64 if many == 64 and rows <= 64 and length % 128 else 128  # fewer idle columns; fastest on an H200
    m, n = (min(most, max(16, triton.next_power_of_2(size))) for most, size in ((many, rows), (across, length)))
    k = min(64, max(16, triton.next_power_of_2(each * tall * broad)))
    sizes = {
        "EACH": each, "HEIGHT": height, "WIDTH": width, "C": columns, "TALL": tall, "BROAD": broad, "P": rows,
        "WIDE": wide, "LENGTH": length, "DOWN": down, "RIGHT": right, "TOP": top, "LEFT": left, "FAR": far,
        "APART": apart, "M": m, "N": n, "K": k, "num_warps": 8 if m * n > 8192 else 4, "num_stages": 3,
    }  # fmt: skip
    return sizes, triton.cdiv(rows, m) * triton.cdiv(length, n)


@triton.jit
def _squares(  # type: ignore[no-untyped-def]
    images, gradients, found, tiles,
    EACH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr, TALL: tl.constexpr,
    BROAD: tl.constexpr, P: tl.constexpr, WIDE: tl.constexpr, LENGTH: tl.constexpr, DOWN: tl.constexpr,
    RIGHT: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr, FAR: tl.constexpr, APART: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    example, tile = program // tiles, program % tiles
    block = _gradient(
        images, gradients, example, tile, EACH, HEIGHT, WIDTH, C, TALL, BROAD, P, WIDE, LENGTH, DOWN, RIGHT, TOP, LEFT,
        FAR, APART, M, N, K,
    )  # fmt: skip
    tl.store(found + program, tl.sum(block * block))


@triton.jit
def _weighted(  # type: ignore[no-untyped-def]
    images, gradients, weights, found, tiles, count, share,
    EACH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr, TALL: tl.constexpr,
    BROAD: tl.constexpr, P: tl.constexpr, WIDE: tl.constexpr, LENGTH: tl.constexpr, DOWN: tl.constexpr,
    RIGHT: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr, FAR: tl.constexpr, APART: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    part, tile = program // tiles, program % tiles
    first = part * share
    total = tl.zeros((M, N), dtype=tl.float32)
    for number in range(tl.minimum(share, count - first)):
        example = first + number
        block = _gradient(
            images, gradients, example, tile, EACH, HEIGHT, WIDTH, C, TALL, BROAD, P, WIDE, LENGTH, DOWN, RIGHT, TOP,
            LEFT, FAR, APART, M, N, K,
        )  # fmt: skip
        total += tl.load(weights + example) * block
    row, column = _places(tile, LENGTH, M, N)
    place = part.to(tl.int64) * (P * LENGTH) + row[:, None] * LENGTH + column[None, :]
    tl.store(found + place, total, mask=(row < P)[:, None] & (column < LENGTH)[None, :])


@triton.jit
def _places(tile, LENGTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows and columns of a block of (p, taps c)."""
    ACROSS: tl.constexpr = (LENGTH + N - 1) // N
    return (tile // ACROSS) * M + tl.arange(0, M), (tile % ACROSS) * N + tl.arange(0, N)


@triton.jit
def _gradient(  # type: ignore[no-untyped-def]
    images, gradients, example, tile,
    EACH: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, C: tl.constexpr, TALL: tl.constexpr,
    BROAD: tl.constexpr, P: tl.constexpr, WIDE: tl.constexpr, LENGTH: tl.constexpr, DOWN: tl.constexpr,
    RIGHT: tl.constexpr, TOP: tl.constexpr, LEFT: tl.constexpr, FAR: tl.constexpr, APART: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """One block of an example's gradient, positions taken K at a time."""
    POSITIONS: tl.constexpr = TALL * BROAD
    row, column = _places(tile, LENGTH, M, N)
    tap, channel = column // C, column % C
    lower, aside = (tap // WIDE) * FAR - TOP, (tap % WIDE) * APART - LEFT
    shift = (lower * WIDTH + aside) * C + channel
    errors = gradients + example.to(tl.int64) * (EACH * POSITIONS * P)
    pixels = images + example.to(tl.int64) * (EACH * HEIGHT * WIDTH * C)
    block = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, EACH * POSITIONS, K):
        place = start + tl.arange(0, K)
        image, rest = place // POSITIONS, place % POSITIONS
        y, x = (rest // BROAD) * DOWN, (rest % BROAD) * RIGHT
        inside = place < EACH * POSITIONS
        error = tl.load(
            errors + place[:, None] * P + row[None, :], mask=inside[:, None] & (row < P)[None, :], other=0.0
        )
        down, along = y[:, None] + lower[None, :], x[:, None] + aside[None, :]
        within = (down >= 0) & (down < HEIGHT) & (along >= 0) & (along < WIDTH)
        within = within & inside[:, None] & (column < LENGTH)[None, :]
        base = ((image * HEIGHT + y) * WIDTH + x) * C
        pixel = tl.load(pixels + base[:, None] + shift[None, :], mask=within, other=0.0)
        block = tl.dot(tl.trans(error), pixel, block, input_precision="ieee")
    return block
