"""User code that calls `torch.vmap` itself: what comes out of it is a record's own tensor like any other.

Results of operations pass through the capture, which knows them by that. What `torch.vmap` hands back does not, so the
function that it unwraps them with is watched while a pass runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch._functorch.vmap as functorch
from torch import Tensor

if TYPE_CHECKING:
    from .watch import Capture

UNWRAP = "_remove_batch_dim"


@contextmanager
def nested(capture: Capture) -> Iterator[None]:
    """While the pass runs, tell the capture of tensors that `torch.vmap` returns.

    Torch promises nothing about the function's name. Without it, such a tensor is taken for one of an earlier pass,
    and the model runs one record at a time.
    """
    theirs = getattr(functorch, UNWRAP, None)
    if theirs is None:
        yield
        return

    def ours(tensor: Tensor, *rest: Any) -> Tensor:
        found: Tensor = theirs(tensor, *rest)
        capture.note(found)
        return found

    setattr(functorch, UNWRAP, ours)
    try:
        yield
    finally:
        setattr(functorch, UNWRAP, theirs)
