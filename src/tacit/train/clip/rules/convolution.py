r"""Convolutions of one to three dimensions, with stride, padding, dilation and groups, and transposed ones.

y[o, s] = \sum_{c, k} W[o, c, k] x[c, a s + b k - pad]: at output position s the weight meets the patch of x that lies
under the kernel. So G = \sum_s g_s patch_s^T, an outer-product sum with one position per output position.
A transposed convolution is the same with x and y exchanged: the patches are those of the output gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..compile.image import Image, pays
from .operators import Found, argument, every, rule, uses
from .outer import Outer
from .terms import Dense

if TYPE_CHECKING:
    from ..capture.kept import Record

_DIMENSIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_TRANSPOSED = {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}


@rule(*_DIMENSIONS)
def convolution(record: Record, gradient: Tensor, batch: int) -> Found:
    """Patches of the input against the output's gradient."""
    values, weight, bias = record.args[0], argument(record, 1, "weight"), argument(record, 2, "bias")
    spatial = _DIMENSIONS[record.function]
    stride, dilation = (_tuple(argument(record, 3, "stride", 1), spatial), _tuple(_dilation(record), spatial))
    groups = argument(record, 6, "groups", 1)
    values, gradient = images(every(record, values, batch), spatial), images(gradient, spatial)
    if uses(record, weight):
        sides = _padding(argument(record, 4, "padding", 0), weight.shape[2:], dilation)
        patches = unfolded(F.pad(values, sides), weight.shape[2:], gradient.shape[2:], stride, dilation)
        outer = _outer(gradient, patches, groups, weight.shape, batch)
        if groups == 1 and pays(gradient, weight.shape):
            each = len(gradient) // batch
            yield weight, Image(values, gradient, weight.shape, stride, sides[-2::-2], dilation, each, outer)
        else:
            yield weight, outer
    if bias is not None and uses(record, bias):
        yield bias, Dense(gradient.flatten(2).sum(2).unflatten(0, (batch, -1)).sum(1))


@rule(*_TRANSPOSED)
def transposed(record: Record, gradient: Tensor, batch: int) -> Found:
    """The adjoint of a convolution: patches of the output's gradient against the input."""
    values, weight, bias = record.args[0], argument(record, 1, "weight"), argument(record, 2, "bias")
    spatial = _TRANSPOSED[record.function]
    stride = _tuple(argument(record, 3, "stride", 1), spatial)
    padding = _tuple(argument(record, 4, "padding", 0), spatial)
    groups = argument(record, 6, "groups", 1)
    dilation = _tuple(argument(record, 7, "dilation", 1), spatial)
    values, gradient = images(every(record, values, batch), spatial), images(gradient, spatial)
    if uses(record, weight):
        wide = F.pad(gradient, [side for size in reversed(padding) for side in (size, size)])
        patches = unfolded(wide, weight.shape[2:], values.shape[2:], stride, dilation)
        yield weight, _outer(values, patches, groups, weight.shape, batch)
    if bias is not None and uses(record, bias):
        yield bias, Dense(gradient.flatten(2).sum(2).unflatten(0, (batch, -1)).sum(1))


def images(values: Tensor, spatial: int) -> Tensor:
    """(B rows, C, *space) from (B, rows, C, *space), or from (B, C, *space) of records that are one image each."""
    return values.flatten(0, 1) if values.ndim == spatial + 3 else values


def unfolded(values: Tensor, kernel: Any, positions: Any, stride: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
    """(N, C, *positions, *kernel): a view that holds under every output position its patch, without a copy."""
    values = values.contiguous()
    outer, inner = values.stride()[:2], values.stride()[2:]
    steps = tuple(size * step for size, step in zip(inner, stride, strict=True))
    within = tuple(size * step for size, step in zip(inner, dilation, strict=True))
    return values.as_strided((*values.shape[:2], *positions, *kernel), (*outer, *steps, *within))


def _outer(left: Tensor, patches: Tensor, groups: int, shape: torch.Size, batch: int) -> Outer:
    """left (N, groups p, *positions) and patches (N, groups c, *positions, *kernel) as (B, groups, T, .)."""
    spatial = len(shape) - 2
    images = left.shape[0]
    left = left.flatten(2).unflatten(1, (groups, -1)).transpose(2, 3)
    patches = patches.unflatten(1, (groups, -1))
    positions, kernel = range(3, 3 + spatial), range(3 + spatial, 3 + 2 * spatial)
    right = patches.permute(0, 1, *positions, 2, *kernel).reshape(images, groups, left.shape[2], -1)
    left, right = (_rows(side.unflatten(0, (batch, -1))) for side in (left, right))
    return Outer(left, right, shape)


def _rows(values: Tensor) -> Tensor:
    """(B, rows, groups, T, d) -> (B, groups, rows T, d)."""
    return values[:, 0] if values.shape[1] == 1 else values.transpose(1, 2).flatten(2, 3)


def _dilation(record: Record) -> Any:
    return argument(record, 5, "dilation", 1)


def _tuple(value: Any, spatial: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * spatial
    return tuple(value) * spatial if len(value) == 1 else tuple(value)


def _padding(value: object, kernel: torch.Size, dilation: tuple[int, ...]) -> list[int]:
    """In the order F.pad wants: last axis first, before and after."""
    sides: list[tuple[int, int]] = []
    for axis, (size, spread) in enumerate(zip(kernel, dilation, strict=True)):
        if value == "same":
            total = spread * (size - 1)
            sides.append((total // 2, total - total // 2))
        elif value == "valid":
            sides.append((0, 0))
        else:
            whole = _tuple(value, len(kernel))[axis]
            sides.append((whole, whole))
    return [side for pair in reversed(sides) for side in pair]
