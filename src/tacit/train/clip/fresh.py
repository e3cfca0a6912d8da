"""A model and its loss as they were before any record ran: copies, so that nothing a record leaves reaches another.

Code that runs one record at a time may look at values, so it could keep a record's values in a buffer, an attribute, a
closure or a global variable and use them for the next record. Every record is therefore given copies of these. What no
copy can reach (files, other modules' variables, other processes) is the user's to leave alone.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ...core import BadInput

Memo = dict[int, Any]
LARGEST = 2**20
"""Tensors with more numbers are taken for data or constants, and are not copied."""


def fresh(model: nn.Module, loss: Callable[..., Tensor]) -> tuple[nn.Module, Callable[..., Tensor]]:
    """A copy of the model that shares its parameters, and one of the loss with copies of what it encloses."""
    memo: Memo = {id(tensor): tensor for tensor in model.parameters()}
    try:
        new = copy.deepcopy(model, memo)
    except (TypeError, RuntimeError, AttributeError) as error:
        raise BadInput(
            "The model runs one record at a time, on a copy for each, and it cannot be copied (copy.deepcopy).",
            fix="Keep locks, files, generators and tensors with history out of its attributes.",
        ) from error
    return new, _copied(loss, memo)


def fresh_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with copies of what it encloses."""
    found: Callable[..., Any] = _copied(function, {})
    return found


def _copied(value: Any, memo: Memo) -> Any:
    """A copy where one can be made; modules, classes and what cannot be copied are shared."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, types.FunctionType):
        return _function(value, memo)
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, _copied(value.__self__, memo))
    if isinstance(value, types.ModuleType | type) or (isinstance(value, Tensor) and value.numel() > LARGEST):
        return value
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a lock, a file, a generator
        return value


def _function(function: types.FunctionType, memo: Memo) -> types.FunctionType:
    """The function with copies of its closure, its defaults and the containers among the global names it uses."""
    names = dict(function.__globals__)
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    code = function.__code__
    new = types.FunctionType(code, names, function.__name__, None, cells if function.__closure__ else None)
    memo[id(function)] = new
    new.__defaults__ = _copied(function.__defaults__, memo)
    new.__kwdefaults__ = _copied(function.__kwdefaults__, memo)
    for cell, old in zip(cells, function.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _copied(old.cell_contents, memo)
        except ValueError:  # not filled yet
            continue
    for name in _names(code):
        if name in names and _holds(names[name], function.__module__):
            names[name] = _copied(names[name], memo)
    return new


def _names(code: types.CodeType) -> set[str]:
    """Global names of a function and of the functions inside it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*(_names(one) for one in inner))


def _holds(value: Any, module: str) -> bool:
    """Whether a global can hold records: a container or a tensor, or a function of the same module that uses one."""
    if isinstance(value, types.FunctionType):
        return value.__module__ == module
    return isinstance(value, list | dict | set | bytearray | Tensor)
