"""Say where in a model something went wrong: the layer and the operation, by name, never by value."""

from __future__ import annotations

from types import TracebackType

from torch import nn

from .errors import Failing

_CALLS = tuple(getattr(nn.Module, name).__code__ for name in ("_wrapped_call_impl", "_call_impl"))


def place_of(error: BaseException, model: nn.Module) -> str:
    """'layer.name (LayerType), line of its code' for the innermost layer that an exception passed through."""
    names = {id(module): name for name, module in model.named_modules()}
    found = ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        module = trace.tb_frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if isinstance(module, nn.Module) and id(module) in names and code not in _CALLS:
            name = names[id(module)] or "the model"
            found = f"{name} ({type(module).__name__}), line {trace.tb_lineno} of {code.co_name}"
        trace = trace.tb_next
    return found or "the loss"


def by_values(error: BaseException) -> bool:
    """Whether code tried to read the value of a per-record tensor."""
    return "data-dependent control flow" in str(error) or ".item()" in str(error)


def why(error: BaseException) -> str:
    """Why a model cannot run with all records at once, in words that contain no values."""
    text = str(error)
    if isinstance(error, Failing):
        return "it catches what an operation raises at some values"
    if by_values(error):
        return "its code decides by the values of a tensor"
    if "dynamic shape" in text or "nonzero" in text:
        return "the shape of a tensor depends on values"
    if "in-place" in text or "inplace" in text:
        return "it writes into a tensor in a way that cannot be followed"
    if "does not have vmap support" in text or "setup_context" in text:
        return "it calls an autograd function that torch.vmap does not take"
    return f"{type(error).__name__} for several records at once"
