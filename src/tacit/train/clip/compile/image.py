r"""The weight of a two-dimensional convolution in a compiled step on a GPU: kernels of our own, no patches written out.

The eager step writes the patches out (`convolution`), and a compiled one is compared with it before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..arrays import narrow
from ..rounding import LOST, SHORT, links
from ..rules.outer import Memo, Outer

_GEOMETRY = "SymInt[] kernel, SymInt[] stride, SymInt[] padding, SymInt[] dilation, int each"


@dataclass(eq=False)
class Image:
    """`values` (B each, c, *size) and `gradient` (B each, p, *positions) of a weight of `shape` (p, c, *kernel).

    `padding` is what lies before the first pixel; what lies behind the last follows from the sizes. `patches` is the
    same in the form that the eager step uses.
    """

    values: Tensor
    gradient: Tensor
    shape: torch.Size
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    each: int
    patches: Outer

    def norm2(self, memo: Memo) -> Tensor:
        return image_squares(*self._sides(), *self._geometry()).double()

    def reach(self, memo: Memo) -> Tensor:
        return self.patches.reach(memo)

    @property
    def whole(self) -> bool:
        return True

    @property
    def depth(self) -> int:
        return self.patches.depth

    def slack2(self, memo: Memo) -> Tensor | float:
        """Zero: products of bfloat16 are exact in float32, and so are the weights."""
        return self.shape.numel() * LOST**2

    def sway2(self, memo: Memo) -> Tensor:
        return self.links**2 * self.norm2(memo)

    @property
    def links(self) -> int:
        return links(len(self.gradient) // self.each, SHORT)

    def weighted(self, weight: Tensor) -> Tensor:
        return image_weighted(*self._sides(), weight, *self._geometry())

    def dense(self) -> Tensor:
        return self.patches.dense()

    def only(self, kept: Tensor) -> Outer:
        return self.patches.only(kept)

    def _sides(self) -> tuple[Tensor, Tensor]:
        """With the channels last; both in the precision that the product was made in."""
        least = min(self.gradient.dtype, self.values.dtype, key=lambda kind: kind.itemsize)
        values, gradient = (side.to(least).permute(0, 2, 3, 1).contiguous() for side in (self.values, self.gradient))
        return values, gradient

    def _geometry(self) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int], int]:
        return list(self.shape[2:]), list(self.stride), list(self.padding), list(self.dilation), self.each


def pays(gradient: Tensor, shape: torch.Size) -> bool:
    """Whether the kernels suit this weight: a plain 2-d convolution, reduced precision, in a compiled step."""
    return len(shape) == 4 and narrow(gradient) and isinstance(gradient, FakeTensor)


@torch.library.custom_op(
    "tacit::image_squares", mutates_args=(), schema=f"(Tensor images, Tensor gradients, {_GEOMETRY}) -> Tensor"
)
def image_squares(
    images: Tensor,
    gradients: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    each: int,
) -> Tensor:
    """|G_i|^2; see `conv_kernels`."""
    from .conv_kernels import Geometry, squares

    return squares(images, gradients, Geometry(kernel, stride, padding, dilation), each)


@image_squares.register_fake
def _(
    images: Tensor, gradients: Tensor, kernel: object, stride: object, padding: object, dilation: object, each: int
) -> Tensor:
    return images.new_empty(len(images) // each, dtype=torch.float32)


@torch.library.custom_op(
    "tacit::image_weighted",
    mutates_args=(),
    schema=f"(Tensor images, Tensor gradients, Tensor weights, {_GEOMETRY}) -> Tensor",
)
def image_weighted(
    images: Tensor,
    gradients: Tensor,
    weights: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    each: int,
) -> Tensor:
    r"""\sum_i w_i G_i as (p, c, *kernel); see `conv_kernels`."""
    from .conv_kernels import Geometry, weighted

    return weighted(images, gradients, weights, Geometry(kernel, stride, padding, dilation), each)


@image_weighted.register_fake
def _(images: Tensor, gradients: Tensor, weights: Tensor, kernel: Sequence[int], *rest: object) -> Tensor:
    return images.new_empty(gradients.shape[3], images.shape[3], *kernel, dtype=torch.float32)
