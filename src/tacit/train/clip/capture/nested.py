"""Support for user code that calls `torch.vmap` itself, and refusal of user-defined `vmap` rules.

Tensors returned by `torch.vmap` are per-record tensors like any other. The capture recognises results of operations
because they pass through it. What `torch.vmap` returns does not, so its unwrapping function is intercepted during a
pass. An autograd function with its own `vmap` rule gets all records together and may mix them, so it is refused.
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
    """During the pass, report tensors that `torch.vmap` returns to the capture.

    The function's name is internal to torch. Without it, such a tensor is taken for a leftover of an earlier pass, and
    the model runs one record at a time.
    """
    theirs = getattr(functorch, UNWRAP, None)

    def ours(tensor: Tensor, *rest: object) -> Tensor:
        assert theirs is not None
        found: Tensor = theirs(tensor, *rest)
        capture.note(found)
        return found

    with _exchanged(functorch, UNWRAP, ours), _exchanged(texts, TEXT, _no_text), without_rules(), watching(capture):
        yield


@contextmanager
def watching(capture: Capture) -> Iterator[None]:
    """Let the capture observe the code of autograd functions, in the forward and in the backward pass.

    Torch runs that code in its own level, out of sight of the modes that were active when the function was called.
    """
    theirs = getattr(autograd, RESTORE, None)

    def ours(function: object, *rest: object) -> Any:
        assert theirs is not None
        return theirs(partial(_seen, capture, function), *rest)

    with _exchanged(autograd, RESTORE, ours):
        yield


def _seen(capture: Capture, function: object, *args: object) -> Any:
    return capture.run(function, *args)


def _no_text(tensor: Tensor, **options: object) -> str:
    """Replacement for a tensor's repr, which would show all records, also in threads without an active mode."""
    if is_batchedtensor(tensor):
        raise looked_on("the text of a tensor, which would be that of all records")
    return str(_TEXT(tensor, **options))


@contextmanager
def without_rules() -> Iterator[None]:
    """Refuse autograd functions with a `vmap` rule that does not come from torch."""
    with _exchanged(autograd, RULE, _without_rules):
        yield


def _without_rules(function: type[torch.autograd.Function]) -> bool:
    """Replacement for torch's check whether an autograd function has its own rule; torch's own functions pass."""
    has = function.vmap is not torch.autograd.Function.vmap
    if has and function.__module__.partition(".")[0] != "torch":
        raise own_rule(function.__name__)
    return has


@contextmanager
def _exchanged(module: object, name: str, ours: object) -> Iterator[None]:
    """Temporarily replace an attribute of a torch module, if this version of torch has it."""
    theirs = getattr(module, name, None)
    if theirs is None:
        yield
        return
    setattr(module, name, ours)
    try:
        yield
    finally:
        setattr(module, name, theirs)
