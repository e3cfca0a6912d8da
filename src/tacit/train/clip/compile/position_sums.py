"""The per-example gradient of a bias in a compiled step on a GPU: a sum over positions, by our own kernel.

The compiler would fuse the sum with the operation that produces the values, such as the gradient of GELU, and run both
at a third of the memory bandwidth.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..arrays import narrow

MANY = 2**22


def pays(values: Tensor) -> bool:
    """Whether the kernel suits (B, ..., d): reduced precision, a compiled step, large and contiguous."""
    inside = isinstance(values, FakeTensor) and values.ndim > 2 and values.shape[1:-1].numel() > 1
    return inside and narrow(values) and values.is_contiguous() and values.numel() >= MANY


@torch.library.custom_op("tacit::position_sums", mutates_args=())
def position_sums(values: Tensor) -> Tensor:
    """(B, ..., d) -> (B, d), in float32 and then rounded; see `position_sums_kernels`."""
    from . import position_sums_kernels

    return position_sums_kernels.sums(values.contiguous().flatten(1, -2))


@position_sums.register_fake
def _(values: Tensor) -> Tensor:
    return values.new_empty(len(values), values.shape[-1])
