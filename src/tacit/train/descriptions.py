"""Describe functions, objects and models as text, so that processes can compare what they were given.

A description covers what code does and which plain values it uses: numbers, texts, tensors and arrays by content, and
containers of them. Trained parameters are left out, since all processes start with those of the first. So are names
that may differ between processes: a rank, a device, a folder, a logger that only the first process has. Device numbers
in texts are left out too. These omissions only avoid false alarms: a plan, its sampling and its noise are always
compared by exact value (`terms`).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .clip.modes import PLAIN

DEPTH = 6
"""How deeply nested functions are followed."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""A memory address in a repr."""
DEVICE = re.compile(r"\b(cuda|xpu|hpu|npu|mps|cpu):\d+")
CALLED = 2
"""How deeply calls to functions of the same module are followed."""
OWN_TO_A_PROCESS = (
    "rank", "device", "device_id", "process_index", "pid", "host", "hostname", "port", "seed", "main", "master",
    "process", "logger", "log", "writer", "tracker", "pbar", "bar", "console", "verbose", "quiet", "path", "dir",
    "folder", "file", "filename", "time", "timestamp", "started", "start", "now", "t0", "run_id", "run_name", "environ",
)  # fmt: skip
"""Variable names, or their last words, that may differ between processes that do the same."""
Plain = str | int | float | complex | bool | bytes | None


def hashed(text: str) -> str:
    """A short hash, marked as one."""
    return f"#{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def model_term(model: nn.Module) -> str:
    """A model's layers with settings, modes, attributes and hooks, its parameters and buffers by shape and dtype, and
    the code of classes that are not torch's.
    """
    parts = [_text(model)]
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        parts.append(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}")
    for name, module in model.named_modules():
        hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
        parts.append(f"{name} {module.training} {_attributes(module, 1)} {[described(hook, 1) for hook in hooks]}")
    kinds = {type(module) for module in model.modules()}
    own = sorted(_class(kind) for kind in kinds if not kind.__module__.startswith("torch."))
    return hashed("\n".join([*parts, *own]))


def described(value: object, depth: int = 0) -> str:
    """Describe a function by its name, code, defaults and used values, an object by its class and plain attributes."""
    if depth > DEPTH:
        return "..."
    if isinstance(value, functools.partial):
        named = [f"{name}={_held(name, item, depth + 1)}" for name, item in sorted(value.keywords.items())]
        inner = [described(item, depth + 1) for item in (value.func, *value.args)]
        return f"partial({', '.join([*inner, *named])})"
    if isinstance(value, MethodType):
        return f"{described(value.__func__, depth + 1)} of {described(value.__self__, depth + 1)}"
    if isinstance(value, FunctionType):
        return _function(value, depth)
    if isinstance(value, nn.Module):
        return _module(value, depth)
    if isinstance(value, Plain):
        return DEVICE.sub(r"\1", repr(value))
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _tensor(value)
    if isinstance(value, Mapping):
        return repr([f"{described(key, depth + 1)}={_held(key, item, depth + 1)}" for key, item in value.items()])
    if isinstance(value, tuple | list):
        return f"[{', '.join(described(item, depth + 1) for item in value)}]"
    return _object(value, depth)


def _held(name: object, value: object, depth: int) -> str:
    """Describe a value held under a name; empty if the name may differ between processes."""
    return "" if isinstance(name, str) and _own_to_a_process(name) else described(value, depth)


def _text(value: nn.Module) -> str:
    """A module's repr, without memory addresses and device numbers."""
    return DEVICE.sub(r"\1", ADDRESS.sub("", repr(value)))


def _module(value: nn.Module, depth: int) -> str:
    """Describe a module in use, such as a loss; its buffers only if it has no parameters."""
    own = [] if any(True for _ in value.parameters()) else [_tensor(each) for each in value.buffers()]
    return hashed(f"{_text(value)} {_attributes(value, depth + 1)} {own}")


def _tensor(value: object) -> str:
    """Describe a tensor by its content; by its shape alone if it is trained, sharded or not numeric."""
    if not isinstance(value, Tensor):
        value = np.asarray(value)
        body = value.tobytes() if not value.dtype.hasobject else b""
        return f"{value.shape} {value.dtype} {hashlib.sha256(body).hexdigest()}"
    told = f"{tuple(value.shape)} {value.dtype}"
    if value.requires_grad or type(value) is not Tensor or value.layout != torch.strided or value.is_meta:
        return told
    flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return f"{told} {hashlib.sha256(flat.numpy().data).hexdigest()}"


def _function(value: FunctionType, depth: int) -> str:
    """Describe a function. Functions of the same module that it calls are followed; other globals may differ by
    process.
    """
    code, defaults = value.__code__, value.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    cells = zip(code.co_freevars, value.__closure__ or (), strict=True)
    used = [(name, cell.cell_contents) for name, cell in cells if _filled(cell)]
    used += [*zip(code.co_varnames[first:], defaults, strict=False), *sorted((value.__kwdefaults__ or {}).items())]
    near = [value.__globals__.get(name) for name in code.co_names] if depth < CALLED else []
    used += [("", item) for item in near if isinstance(item, FunctionType) and item.__module__ == value.__module__]
    inner = [_held(name, item, depth + 1) for name, item in used if item is not value and not _own_to_a_process(name)]
    return f"{value.__module__}.{value.__qualname__} {_code(value.__code__)} {hashed(repr(inner))}"


def _object(value: object, depth: int) -> str:
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__.partition(".")[0] in ("logging", "os", "pathlib", "datetime"):  # where and when, not what
        return f"{kind.__module__}.{kind.__qualname__}"
    own = vars(kind).get("__call__")
    call = described(own, depth + 1) if isinstance(own, FunctionType) else ""
    inner = "" if isinstance(value, type) else _attributes(value, depth + 1)
    return f"{kind.__module__}.{kind.__qualname__} {call} {hashed(inner)}"


def _attributes(value: object, depth: int) -> str:
    """Plain values, tensors, functions and containers that an object holds under names that are not a process's own."""
    held = getattr(value, "__dict__", {})
    inside = ("_", "training") if isinstance(value, nn.Module) else ()  # torch's own, of which the mode is told apart
    names = [name for name in sorted(held) if not name.startswith(inside or "\0") and not _own_to_a_process(name)]
    return repr([f"{name}={described(held[name], depth)}" for name in names if _simple(held[name])])


def settings(module: nn.Module) -> dict[str, Any]:
    """Plain attributes of a module, apart from its mode, torch's own and those that may differ between processes."""
    names = [name for name in vars(module) if not name.startswith(("_", "training")) and not _own_to_a_process(name)]
    return {name: value for name in names if type(value := vars(module)[name]) in PLAIN}


def _own_to_a_process(name: str) -> bool:
    name = name.lower()
    return any(name == word or name.endswith(f"_{word}") for word in OWN_TO_A_PROCESS)


def _simple(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_simple(item) for item in value.values())
    if isinstance(value, tuple | list):
        return all(_simple(item) for item in value)
    return isinstance(value, Plain | Tensor | np.ndarray | np.generic | FunctionType | functools.partial)


def _class(kind: type) -> str:
    """A class by the code of all its own functions."""
    code = [f"{name} {_code(item.__code__)}" for name, item in sorted(vars(kind).items()) if _written(item)]
    return f"{kind.__module__}.{kind.__qualname__} {described(getattr(kind, 'forward', None))} {hashed(repr(code))}"


def _written(item: object) -> bool:
    return isinstance(item, FunctionType)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is bound later
        return False


def _code(code: CodeType) -> str:
    """A hash of what the code does, independent of its position in the file."""
    inner = [_code(item) if isinstance(item, CodeType) else _constant(item) for item in code.co_consts]
    return hashed(repr((code.co_code.hex(), code.co_names, inner)))


def _constant(value: object) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
