"""Run made-up records without dropout, so that results for different batches can be compared."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout)
_SLOPES = ("input", "lower", "upper")


class NoDropout(TorchFunctionMode):
    """Dropout does nothing, so that runs on different batches can be compared."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        kwargs = dict(kwargs or {})
        if func in _DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.rrelu or func is torch.rrelu:
            func, args, kwargs = _rrelu, args[:3], {name: kwargs[name] for name in _SLOPES if name in kwargs}
        if func is F.scaled_dot_product_attention:
            kwargs.pop("dropout_p", None)
            args = args[:4] + ((0.0, *args[5:]) if len(args) > 4 else ())
        return func(*args, **kwargs)


def _rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3) -> Tensor:
    """`rrelu` without randomness: it draws per negative value, so a record's draws depend on those of others."""
    return F.leaky_relu(input, (lower + upper) / 2)
