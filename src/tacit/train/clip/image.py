r"""The weight of a two-dimensional convolution on a GPU, without its patches ever written out.

G = \sum_s g_s patch_s^T, with the kernel's taps k and pixels x of the padded image. Two forms of its squared norm:

    inner products   \sum_{st} (g_s.g_t)(patch_s.patch_t), and patch_s.patch_t = \sum_k x_{s+k}.x_{t+k}: the inner
                     products of pixels, added up along shifts; the weighted sum is an ordinary convolution's
    written out      for stride 1, G_k = \sum_s g_s x_{s+k}^T is one product per tap: with the rows of the image laid
                     end to end, and zeros in g where a row ends, s + k is s moved by a fixed number of pixels

The weighted sum of the first form multiplies c_i g_i and x in TF32, which x of bfloat16 fits exactly: only c_i g_i is
rounded, by `TF32` of its size at most, and `slack2` is the bound on that (see `terms`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from .terms import ALIGNED, Memo, kept_only, narrow, product, square, wide

TF32 = 2.0**-10


@dataclass(eq=False)
class Image:
    """`values` (B, c, *padded), `gradient` (B, p, *positions), `shape` (p, c, *kernel) of the weight."""

    values: Tensor
    gradient: Tensor
    shape: torch.Size
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    _written: list[Tensor] | None = field(default=None, repr=False)
    _products: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.gradient.dtype != self.values.dtype:  # under autocast: the product was made of both in the lesser
            least = min(self.gradient.dtype, self.values.dtype, key=lambda kind: kind.itemsize)
            self.values, self.gradient = self.values.to(least), self.gradient.to(least)

    def last(self) -> Image:
        """The same with the channels last, as matrix units read them."""
        self.values, self.gradient = (
            side.contiguous(memory_format=torch.channels_last) for side in (self.values, self.gradient)
        )
        return self

    def pays(self) -> bool:
        """Whether this form is the faster one: reduced precision, channels that align, a form of the norm that fits."""
        if len(self.shape) != 4 or not narrow(self.gradient) or self.shape[2:].numel() == 1:
            return False
        if self.shape[0] % ALIGNED or self.shape[1] % ALIGNED:
            return False
        return set(self.stride) == {1} or self._inner_bytes() <= self._patch_bytes()

    def norm2(self, memo: Memo) -> Tensor:
        if self._by_inner():
            ours, theirs = self._inner()
            return (ours * theirs).flatten(1).sum(1).clamp(min=0)
        return torch.stack([square(tap) for tap in self._taps()]).sum(0)

    def slack2(self, memo: Memo) -> Tensor | float:
        if not self._by_inner():
            return 0.0
        ours, theirs = self._inner()
        lengths = ours.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt()
        return TF32**2 * (lengths[:, :, None] * lengths[:, None, :] * theirs.abs()).flatten(1).sum(1)

    def weighted(self, weight: Tensor) -> Tensor:
        if not self._by_inner():
            found = torch.stack([weight @ tap.flatten(1) for tap in self._taps()], dim=-1)
            return found.view(self.shape)
        scaled = wide(self.gradient) * weight[:, None, None, None]
        options = (None, self.stride, (0, 0), self.dilation, False, (0, 0), 1, (False, True, False))
        values = wide(self.values)
        return torch.ops.aten.convolution_backward(scaled, values, values.new_empty(self.shape), *options)[1]

    def dense(self) -> Tensor:
        return torch.stack(self._taps(), dim=-1).view(-1, *self.shape)

    def only(self, kept: Tensor) -> Image:
        return Image(
            kept_only(self.values, kept), kept_only(self.gradient, kept), self.shape, self.stride, self.dilation
        )

    def _by_inner(self) -> bool:
        return set(self.stride) != {1} or self._inner_bytes() < self._written_bytes()

    def _inner_bytes(self) -> int:
        """Pixels' inner products written and read, positions' read for norm and slack."""
        return 4 * (3 * self.values.shape[2:].numel() ** 2 + 6 * self.gradient.shape[2:].numel() ** 2)

    def _written_bytes(self) -> int:
        """G written and read twice, both sides read once per tap."""
        sides = self.gradient.shape[2:].numel() * (self.shape[0] + self.shape[1])
        return 12 * self.shape.numel() + 2 * self.shape[2:].numel() * sides

    def _patch_bytes(self) -> int:
        """Patches written and read twice."""
        return 6 * self.gradient.shape[2:].numel() * self.shape[1:].numel()

    def _inner(self) -> tuple[Tensor, Tensor]:
        """Inner products (B, T, T) of the gradient's positions and of the patches, made once."""
        if self._products is None:
            ours, pixels = (side.flatten(2).mT for side in (self.gradient, self.values))
            size = self.values.shape[2:]
            every = product(pixels, pixels.mT).unflatten(2, size).unflatten(1, size)
            first, *others = (every[:, *spans, *spans] for spans in self._spans())
            theirs = sum(others, start=first)
            self._products = product(ours, ours.mT), theirs.flatten(3, 4).flatten(1, 2)
        return self._products

    def _spans(self) -> list[tuple[slice, ...]]:
        """Under every tap the pixels that meet it, as slices of the padded image."""
        found = []
        for tap in itertools.product(*(range(size) for size in self.shape[2:])):
            sides = zip(tap, self.gradient.shape[2:], self.stride, self.dilation, strict=True)
            found.append(tuple(slice(k * far, k * far + (n - 1) * step + 1, step) for k, n, step, far in sides))
        return found

    def _taps(self) -> list[Tensor]:
        """G tap by tap, each (B, p, c)."""
        if self._written is None:
            if set(self.stride) == {1}:
                self._written = self._rows_end_to_end()
            else:
                parts = [self.values[:, :, *spans] for spans in self._spans()]
                self._written = [product(self.gradient.flatten(2), part.flatten(2).mT) for part in parts]
        return self._written

    def _rows_end_to_end(self) -> list[Tensor]:
        width, columns = self.values.shape[3], self.gradient.shape[3]
        pixels = self.values.permute(0, 2, 3, 1).flatten(1, 2)
        errors = F.pad(self.gradient.permute(0, 2, 3, 1), (0, 0, 0, width - columns)).flatten(1, 2)
        length = errors.shape[1] - (width - columns)
        errors = errors[:, :length].mT
        far = self.dilation
        taps = itertools.product(*(range(0, size * step, step) for size, step in zip(self.shape[2:], far, strict=True)))
        return [product(errors, pixels[:, row * width + column :][:, :length]) for row, column in taps]
