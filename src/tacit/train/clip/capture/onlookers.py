"""Detect user code that would be shown the tensors of all records, from below a `Level`.

Inside a level user code sees one record. Torch itself works on tensors that hold all of them, and passes those to some
user code. That code is: saved-tensor hooks, dispatch modes, function modes entered before the step, tensor subclasses
with their own dispatch, and whatever reads a tensor's repr. Backward hooks of modules and parameters would not run at
all. If any of these is not torch's own, the model runs one record at a time, so that such code sees that record alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import FunctionType

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

BELIEVED = ("torch", "tacit")
HOOKED = "a hook in the backward pass, which would be given the gradients of all records"
_ORDINARY = (Tensor, nn.Parameter, nn.Buffer)
_TEXTS = (Tensor.__repr__, Tensor.__format__)


def onlooker(func: object, tensors: Iterable[Tensor]) -> str:
    """What would see all records in this call of a torch function; empty if nothing would."""
    if func in _TEXTS:
        return "the text of a tensor, which would be that of all records"
    if saving_hooks():
        return "torch.autograd.graph.saved_tensors_hooks, which would be given the tensors of all records"
    for mode in (*dispatch_modes(), *function_modes()):
        return f"{type(mode).__name__}, a mode of torch, which would be given the tensors of all records"
    for tensor in tensors:
        if type(tensor) not in _ORDINARY and _dispatches(type(tensor)):
            return f"{type(tensor).__name__}, a tensor with a dispatch rule that would be given all records"
    return ""


def saving_hooks() -> tuple[object, ...]:
    """The user's saved-tensor hooks that are active."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return () if hooks is None or all(_believed(hook) for hook in hooks) else tuple(hooks)


def dispatch_modes() -> list[object]:
    """The user's dispatch modes that are active."""
    if not torch._C._len_torch_dispatch_stack():
        return []
    return [mode for mode in _get_current_dispatch_mode_stack() if not _believed(type(mode))]


def function_modes() -> list[object]:
    """The user's function modes that are active; inside a capture, those that were entered before it.

    A mode that is entered inside comes before the capture and sees what one record sees.
    """
    if not torch._C._len_torch_function_stack():
        return []
    return [mode for mode in _get_current_function_mode_stack() if not _believed(type(mode))]


def backward_hooks(model: nn.Module, parameters: Iterable[Tensor]) -> bool:
    """Whether the user has registered backward hooks on a model; inside a level they would not run."""
    held = [one for each in model.modules() for one in (each._backward_hooks, each._backward_pre_hooks)]
    held += [modules._global_backward_hooks, modules._global_backward_pre_hooks]
    held += [tensor._backward_hooks or {} for tensor in parameters]
    return any(not _believed(hook) for hooks in held for hook in hooks.values())


def in_force() -> list[object]:
    """Code that runs in any pass though no model or loss refers to it: global hooks, modes and printing options."""
    every = [held for name, held in vars(modules).items() if name.startswith("_global_") and isinstance(held, dict)]
    return [*every, *function_modes(), *dispatch_modes(), *saving_hooks(), torch._tensor_str.PRINT_OPTS]


def _believed(one: object) -> bool:
    """Whether a function or class is torch's or ours, and therefore trusted.

    An instance of a torch class is not trusted, since it may hold user code: a module, a scripted function.
    """
    if not isinstance(one, FunctionType | type):
        return False
    return str(one.__module__).partition(".")[0] in BELIEVED


@cache
def _dispatches(kind: type[Tensor]) -> bool:
    own = getattr(kind.__torch_dispatch__, "__func__", kind.__torch_dispatch__)
    return own is not getattr(Tensor.__torch_dispatch__, "__func__", Tensor.__torch_dispatch__) and not _believed(kind)
