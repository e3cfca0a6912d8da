"""Multiply a factor of a weight's outer products by the weights in compiled GPU steps (`scale_kernels`)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from ..arrays import narrow

MANY = 2**20


def scales(values: Tensor) -> bool:
    """Whether the kernel suits these values: reduced precision, a compiled step, large and contiguous."""
    return narrow(values) and isinstance(values, FakeTensor) and values.is_contiguous() and values.numel() >= MANY


@torch.library.custom_op("tacit::scaled", mutates_args=())
def scaled(values: Tensor, weight: Tensor) -> Tensor:
    """c_i v_i; see `scale_kernels`."""
    from . import scale_kernels

    return scale_kernels.scaled(values.contiguous(), weight.contiguous())


@scaled.register_fake
def _(values: Tensor, weight: Tensor) -> Tensor:
    return values.new_empty(values.shape)
