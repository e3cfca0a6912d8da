"""User code that calls `torch.vmap` itself, or brings a rule for it.

What comes out of `torch.vmap` is a record's own tensor like any other. Results of operations pass through the capture,
which knows them by that. What `torch.vmap` hands back does not, so the function that it unwraps them with is watched
while a pass runs. An autograd function with a rule of its own for `vmap` is given all records together there, and may
mix them: it is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch._functorch.autograd_function as autograd
import torch._functorch.vmap as functorch
import torch._tensor_str as texts
from torch import Tensor
from torch._C._functorch import is_batchedtensor

from .errors import looked_on, own_rule

if TYPE_CHECKING:
    from .watch import Capture

UNWRAP = "_remove_batch_dim"
RESTORE = "restore_vmap"
TEXT = "_str"
_TEXT = texts._str
RULE = "has_overridden_vmap_rule"


@contextmanager
def nested(capture: Capture) -> Iterator[None]:
    """While the pass runs, tell the capture of tensors that `torch.vmap` returns.

    Torch promises nothing about the function's name. Without it, such a tensor is taken for one of an earlier pass,
    and the model runs one record at a time.
    """
    theirs = getattr(functorch, UNWRAP, None)

    def ours(tensor: Tensor, *rest: Any) -> Tensor:
        assert theirs is not None
        found: Tensor = theirs(tensor, *rest)
        capture.note(found)
        return found

    with _exchanged(functorch, UNWRAP, ours), _exchanged(texts, TEXT, _no_text), without_rules(), watching(capture):
        yield


@contextmanager
def watching(capture: Capture) -> Iterator[None]:
    """Let the capture look on while code of an autograd function runs, in the forward and in the backward pass.

    Torch runs it in a level of its own, out of sight of the modes that were in force when the function was called.
    """
    theirs = getattr(autograd, RESTORE, None)

    def ours(function: Any, *rest: Any) -> Any:
        assert theirs is not None
        return theirs(partial(_seen, capture, function), *rest)

    with _exchanged(autograd, RESTORE, ours):
        yield


def _seen(capture: Capture, function: Any, *args: Any) -> Any:
    return capture.run(function, *args)


def _no_text(tensor: Tensor, **options: Any) -> str:
    """In place of the text of a tensor: that of all records, also in a thread that no mode is in force in."""
    if is_batchedtensor(tensor):
        raise looked_on("the text of a tensor, which would be that of all records")
    return str(_TEXT(tensor, **options))


@contextmanager
def without_rules() -> Iterator[None]:
    """Refuse autograd functions with a rule for `vmap` that is not torch's."""
    with _exchanged(autograd, RULE, _without_rules):
        yield


def _without_rules(function: type[torch.autograd.Function]) -> bool:
    """In place of torch's question whether an autograd function has a rule of its own; those of torch are believed."""
    has = function.vmap is not torch.autograd.Function.vmap
    if has and function.__module__.partition(".")[0] != "torch":
        raise own_rule(function.__name__)
    return has


@contextmanager
def _exchanged(module: Any, name: str, ours: Any) -> Iterator[None]:
    """Something of torch's for a while, where this torch has it."""
    theirs = getattr(module, name, None)
    if theirs is None:
        yield
        return
    setattr(module, name, ours)
    try:
        yield
    finally:
        setattr(module, name, theirs)
