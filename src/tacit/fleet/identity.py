"""A description of how a fleet's models are built and trained, equal in every process for equal fleets.

A folder of finished parts must not be continued with another network, optimizer or rule. Parameters alone do not tell
networks apart: a module may multiply by a setting, or by a number written in its `forward`.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import hashlib
import pickle
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..core.global_randomness import turn
from ..train.clip.capture.coins import devices_in_use
from .fleet import Fleet

LIBRARIES = ("torch", "numpy", "builtins", "tacit")
"""Packages whose functions and classes are described by name only."""
PLAIN: tuple[type, ...] = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
METHODS = (types.FunctionType, staticmethod, classmethod, property)
PACKAGES = ("site-packages", "dist-packages")
"""Folders of installed packages."""
UNREADABLE = (TypeError, ValueError, NotImplementedError, RuntimeError, pickle.PicklingError)
"""Exceptions of objects that cannot be reduced: a lock, a generator, a class of a C extension."""


def made_of(fleet: Fleet) -> tuple[dict[str, object], list[NDArray[np.generic]]]:
    """Describe everything that a model's training depends on besides data and schedule: network, start, optimizer,
    gradients.

    Functions that make networks and optimizers are described by their code and the values they use. They are also
    called once under a fixed seed, since what they make may depend on chance or on other parameters.
    Edge cases: code of Python and of installed packages is identified by name and package version and not read. A new
    version of torch, numpy or Python is not noticed.
    """
    start = None if isinstance(fleet.start, nn.Module) else described(fleet.start)  # a call may change what it holds
    optimizer = fleet.optimizer([nn.Parameter(torch.zeros(2))])  # torch wraps the step of a class at its first use
    network = template(fleet)
    made = {
        "makers": [start, described(fleet.optimizer)],
        "network": [(name, _layer(part)) for name, part in network.named_modules()],
        "parameters": [(name, described(_hooks(value))) for name, value in network.named_parameters()],
        "types": [str(value.dtype) for value in network.state_dict().values()],
        "same start": isinstance(fleet.start, nn.Module),
        "optimizer": _optimizer(optimizer),
        "gradients": described(fleet.stack),
    }
    return made, [array_of(value) for value in network.state_dict().values()]


def template(fleet: Fleet) -> nn.Module:
    """One untrained model of the fleet."""
    if isinstance(fleet.start, nn.Module):
        return fleet.start
    with turn(), torch.random.fork_rng(devices=devices_in_use()):
        torch.manual_seed(0)
        return fleet.start()


def _layer(part: nn.Module) -> list[object]:
    """Describe a module by its class and the code of that class, its repr, and its settings."""
    usual = vars(nn.Module())
    settings = {name: described(value) for name, value in vars(part).items() if name not in usual}
    return [described(type(part)), part.extra_repr(), settings, part.training, described(_hooks(part))]


def _optimizer(made: torch.optim.Optimizer) -> list[object]:
    """Describe an optimizer by its class and code, its parameter groups, its settings and its hooks."""
    groups = [
        {name: described(value) for name, value in group.items() if name != "params"} for group in made.param_groups
    ]
    hooks = _hooks(made)
    own = {name: value for name, value in vars(made).items() if name not in ("state", "param_groups", *hooks)}
    return [described(type(made)), groups, described(own), described(hooks)]


def _hooks(value: object) -> dict[str, list[object]]:
    """The hooks registered on a module, a parameter or an optimizer, without the ids they are registered under."""
    found = {name: getattr(value, name, None) for name in (*vars(value), "_backward_hooks") if name.endswith("_hooks")}
    return {name: list(hooks.values()) for name, hooks in found.items() if isinstance(hooks, Mapping)}


def described(value: object) -> Any:
    """A value as text and nested lists, without memory addresses; an object that occurs again is named by a number."""
    return _Description().of(value)


class _Description:
    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, object]] = {}  # holds what it has seen, so that no number is used twice

    def of(self, value: Any) -> Any:
        if isinstance(value, PLAIN):
            return repr(value)
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return self._array(value)
        if isinstance(value, list | tuple):
            return [self.of(each) for each in value]
        if isinstance(value, set | frozenset):
            return sorted(str(self.of(each)) for each in value)
        if id(value) in self._seen:
            return [_name(value), self._seen[id(value)][0]]  # the number tells two of one name apart
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, Mapping):
            return [[self.of(name), self.of(each)] for name, each in value.items()]
        return [_name(value), *(self.of(part) for part in _parts(value))]

    def _array(self, value: Any) -> Any:
        kind, array = str(value.dtype), array_of(value) if isinstance(value, Tensor) else np.asarray(value)
        if array.dtype.hasobject:  # its bytes are addresses
            return [kind, list(array.shape), self.of(array.ravel().tolist())]
        return [kind, list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]


def array_of(value: Tensor) -> NDArray[np.generic]:
    """A tensor as a numpy array; a type that numpy lacks (bfloat16) becomes float32, which holds all of its values."""
    value = value.detach().cpu()
    known = value.dtype in (torch.float16, torch.float32, torch.float64) or not value.is_floating_point()
    return np.asarray((value if known else value.float()).numpy())


def _parts(value: object) -> tuple[Any, ...]:
    """The parts that decide how a function, class or object behaves; empty for library code."""
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, types.CodeType):
        return value.co_code, value.co_names, value.co_consts
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, staticmethod | classmethod):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        return ()
    if isinstance(value, types.FunctionType | type):
        return () if _of_library(value.__module__) else _body(value)
    if isinstance(value, np.ufunc):
        return (value.__name__,)
    kept = _written_down(value)
    return (getattr(value, "__dict__", {}), _slots(value)) if kept is None else (kept,)


def _written_down(value: object) -> object:
    """What pickle would store for an object whose class defines its own reduction: a range, a random generator.

    A logger is reduced to its name. None if the attributes and slots are the whole state, or if user code would run.
    """
    rules: tuple[object, ...] = type(value).__reduce_ex__, type(value).__reduce__
    known = copyreg.dispatch_table.get(type(value))
    if known is None and (rules == (object.__reduce_ex__, object.__reduce__) or any(map(_of_user, rules))):
        return None
    with contextlib.suppress(*UNREADABLE):
        kept = value.__reduce_ex__(4) if known is None else known(value)
        if not isinstance(kept, str):  # else it is a name alone, as of a function with a cache
            return [list(part) if isinstance(part, Iterator) else part for part in kept]
    return None


def _of_user(method: object) -> bool:
    return isinstance(method, types.FunctionType) and not _of_library(method.__module__)


def _of_library(module: object) -> bool:
    """Whether code belongs to Python, to a library that is named above, or to an installed package."""
    first = str(module).split(".")[0]
    return first in LIBRARIES or first in sys.stdlib_module_names or _installed(first)


def _installed(name: str) -> bool:
    module = sys.modules.get(name)
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(part in PACKAGES for place in places if place for part in Path(place).parts)


def _slots(value: object) -> dict[str, object]:
    """Settings of an object that keeps them in slots, such as a dataclass with slots=True."""
    if _of_library(type(value).__module__):
        return {}
    words = [word for kind in type(value).__mro__ for word in _tuple(vars(kind).get("__slots__", ()))]
    return {word: getattr(value, word) for word in words if word[:2] != "__" and hasattr(value, word)}


def _tuple(words: Any) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)


def _body(value: types.FunctionType | type) -> tuple[Any, ...]:
    """A function's code, and what it holds and reads; a class's functions, values and bases."""
    if isinstance(value, type):
        own = {word: part for word, part in vars(value).items() if isinstance(part, METHODS) or word[:2] != "__"}
        return own, value.__bases__
    held = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
    return value.__code__, held, value.__defaults__, value.__kwdefaults__, vars(value), _used(value)


def _used(function: types.FunctionType) -> dict[str, object]:
    """What a function, and functions inside it, read by name: globals, and attributes of the user's modules."""
    words = sorted(_words(function.__code__))
    used = {word: function.__globals__[word] for word in words if word in function.__globals__}
    modules = _modules(used)
    while modules:
        name, module = modules.popitem()
        read = {f"{name}.{word}": vars(module)[word] for word in words if word in vars(module)}
        modules |= _modules({word: value for word, value in read.items() if word not in used})
        used |= read
    return used


def _modules(used: dict[str, object]) -> dict[str, types.ModuleType]:
    """The user's own modules among the values in `used`."""
    found = {name: value for name, value in used.items() if isinstance(value, types.ModuleType)}
    return {name: value for name, value in found.items() if not _of_library(value.__name__)}


def _words(code: types.CodeType) -> set[str]:
    inner = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*(_words(part) for part in inner))


def _name(value: object) -> str:
    named = value if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType) else type(value)
    own = value.__name__ if isinstance(value, types.ModuleType) else ""
    return f"{named.__module__}.{named.__qualname__} {own} {_version(named.__module__)}".strip()


def _version(module: object) -> str:
    """The version of an installed package, whose code is not read."""
    first = str(module).split(".")[0]
    known = first not in LIBRARIES and _installed(first)
    return str(getattr(sys.modules.get(first), "__version__", "")) if known else ""


def _filled(cell: Any) -> bool:
    """Whether a closure cell has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
