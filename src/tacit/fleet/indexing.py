"""Find out whether a model looks values up by an index, as embeddings do.

`vmap` concatenates the tables of all models and adds an offset to every index. An index beyond the end of a model's
table then raises no error: it reads, and trains, a row of the next model's table. So models that use indices and must
not affect each other are trained one at a time, where such an index raises. A private fleet clamps the index instead
(vmap_guard.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

LOOKS_UP = ("embedding", "index", "gather", "take", "scatter", "put", "unpool")
"""Parts of the names of operators that take indices from a tensor."""


def takes_positions(name: str) -> bool:
    """Whether an operator of this name takes indices from a tensor."""
    return any(part in name for part in LOOKS_UP)


class _Watched(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        self.found = self.found or takes_positions(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def looks_up(model: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a pass over made-up records of this shape takes indices from a tensor. True if the pass cannot be run."""
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    watched = _Watched()
    try:
        with torch.no_grad(), watched:
            model(torch.zeros((2, *shape), device=device))
    except Exception:
        return True
    return watched.found
