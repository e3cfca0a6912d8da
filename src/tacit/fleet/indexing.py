"""Whether a model looks values up by an index, as embeddings do.

`vmap` puts the tables of all models into one and adds an offset to every index. An index beyond a model's table is then
no error: it reads, and trains, a row of the next model. So models that look something up and must not touch each other
are trained one at a time, where the index raises. A private fleet moves such an index instead (apart.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

LOOKS_UP = ("embedding", "index", "gather", "take", "scatter", "put", "unpool")
"""Parts of the names of operators that take positions from a tensor."""


def takes_positions(name: str) -> bool:
    """Whether an operator of this name takes positions from a tensor."""
    return any(part in name for part in LOOKS_UP)


class _Watched(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found = self.found or takes_positions(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def looks_up(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a pass over made-up records of this shape takes positions from a tensor; yes where it cannot be made."""
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    watched = _Watched()
    try:
        with torch.no_grad(), watched:
            model(torch.zeros((2, *shape), device=device))
    except Exception:
        return True
    return watched.found
