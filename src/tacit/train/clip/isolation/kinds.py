"""Which objects cannot hold values of records: constants of Python and torch, and libraries that are left alone."""

from __future__ import annotations

import _random
import _thread
import abc
import datetime
import decimal
import functools
import logging
import operator
import random
import re
import struct
import sys
import sysconfig
import types
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from pathlib import Path

import numpy as np
import torch

_FIELD = vars(namedtuple("_Pair", "one"))["one"]
SHALLOW = ("logging", "typing", "abc")
"""Objects of these modules are put back themselves; what they lead to (handlers, streams) is left alone."""
PLAIN: tuple[type, ...] = (
    int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice, types.CodeType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, types.GenericAlias, types.UnionType, re.Pattern, operator.itemgetter,
    operator.attrgetter, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal,
    np.dtype, np.generic, np.ufunc, torch.dtype, type(_FIELD), torch.device,
    torch.layout, torch.memory_format, torch.Size, type(torch.ops), type(vars(abc.ABC)["_abc_impl"]),
    torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.library.Library, torch.finfo, torch.iinfo,
    torch.jit.ScriptFunction, re.Match,
)  # fmt: skip
OPERATORS = torch._ops.OpOverload, torch._ops.OpOverloadPacket, torch.library.Library
SHOWN = dict, torch._ops.OpOverload
HOLDERS = (slice, types.GenericAlias, types.UnionType, operator.itemgetter, re.Match, torch.jit.ScriptFunction)
"""Constants that lead to objects which need not be."""
FOLLOWED: tuple[type, ...] = (
    object, tuple, frozenset, list, dict, set, bytearray, deque, defaultdict, OrderedDict, type, np.ndarray,
    torch._C.TensorBase, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType,
    types.MethodWrapperType, types.CellType, types.SimpleNamespace, functools.partial, functools._lru_cache_wrapper,
    property, staticmethod, classmethod, _thread._local, _random.Random, torch.Generator, np.random.Generator,
    np.random.RandomState, BaseException, weakref.ref, _thread.LockType, _thread.RLock,
    struct.Struct, np.dtypes.VoidDType,
)  # fmt: skip
"""Types written in C whose memory `reach` and `snapshots` know how to put back."""
CONTAINERS = (dict, list, set, deque, bytearray, tuple, frozenset, torch.Tensor, np.ndarray)
NAMED = (*CONTAINERS, type)
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "torch", "torchgen", "functorch", "triton", "numpy", "scipy", "tacit", "pytest", "_pytest", "pluggy", "hypothesis",
}  # fmt: skip
PLACES = tuple(
    str(Path(path)) for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def plain(value: object) -> bool:
    """Whether an object is a constant; an instance of a user's class may have attributes besides."""
    return _plain(type(value))  # type: ignore[arg-type]


@functools.lru_cache(4096)
def _plain(kind: type) -> bool:
    if kind is object or kind in PLAIN or _is_enum(kind):
        return True
    constant = issubclass(kind, PLAIN) and not issubclass(kind, np.void | np.dtypes.VoidDType)
    return constant and not kind.__dictoffset__ and not slots_of(kind)


def _is_enum(kind: type) -> bool:
    """Whether a class is an enumeration of C++ code, such as `torch.nn.attention.SDPBackend`."""
    return type(kind).__name__ == "pybind11_type" and "__entries" in vars(kind) and not kind.__dictoffset__


def slots_of(kind: type) -> dict[str, types.MemberDescriptorType]:
    """Slots of objects of a class written in Python."""
    found: dict[str, types.MemberDescriptorType] = {}
    for base in kind.__mro__:
        if base.__flags__ & (1 << 9) and "__slots__" in vars(base):  # a class that Python code made
            found |= {name: one for name, one in vars(base).items() if isinstance(one, types.MemberDescriptorType)}
    return found


@functools.lru_cache(4096)
def hides(kind: type) -> bool:
    """Whether objects of a class have state besides attributes and slots: C memory, which cannot be restored."""
    return any(_hides(base) for base in kind.__mro__)


def _hides(kind: type) -> bool:
    if kind in FOLLOWED or kind in PLAIN or issubclass(kind, BaseException):
        return False
    held = vars(kind)
    words = sum(isinstance(one, types.MemberDescriptorType) for one in held.values()) if "__slots__" in held else 0
    words += ("__dict__" in held) + ("__weakref__" in held)
    return kind.__basicsize__ - (kind.__base__ or object).__basicsize__ > 8 * words


@functools.lru_cache(4096)
def holds_nothing(kind: type) -> bool:
    """Whether objects of a class are no larger than `object()`: a sentinel such as `typing_extensions.NoDefault`."""
    return kind.__basicsize__ == object.__basicsize__ and not kind.__itemsize__


def settable(kind: type) -> bool:
    """Whether Python code can set attributes of a class: one that was made by code, and is not sealed."""
    return bool(kind.__flags__ & (1 << 9)) and not kind.__flags__ & (1 << 8)


def foreign(name: str) -> bool:
    """Whether a module belongs to a library that is left alone: the standard library, torch, numpy and similar.

    A user's module may have the name of a standard one (`code`, `profile`).
    """
    top = name.partition(".")[0]
    return top in LIBRARIES and not (top in sys.stdlib_module_names and _elsewhere(top))


@functools.lru_cache(4096)
def installed(name: str) -> bool:
    """Whether a module belongs to an installed library other than those that are left alone."""
    module = sys.modules.get(name)
    return isinstance(module, types.ModuleType) and not foreign(name) and not of_the_user(module)


def _elsewhere(top: str) -> bool:
    file = getattr(sys.modules.get(top), "__file__", None)
    return isinstance(file, str) and not file.startswith(PLACES)


@functools.lru_cache(4096)
def of_a_user_class(kind: type) -> bool:
    """Whether a class was written in a module of the user's."""
    module = sys.modules.get(kind.__module__)
    return isinstance(module, types.ModuleType) and of_the_user(module)


def of_the_user(module: types.ModuleType) -> bool:
    """Whether a module is neither standard nor installed: a script, a notebook, a project under development.

    A module that was created rather than loaded (`types.ModuleType("settings")`) is a user's namespace.
    """
    if getattr(module, "__spec__", None) is None and sys.modules.get(module.__name__) is not module:
        return True
    if foreign(module.__name__):
        return False
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or (isinstance(file, str) and not file.startswith(PLACES))


def of_sharding(value: object) -> bool:
    """Whether an object is torch's own that sees to parameters in parts: it gathers them in every pass anew."""
    name = str(type(value).__module__)
    return name.startswith("torch.distributed.") and not isinstance(value, torch.Tensor | torch.nn.Module)


def handlers() -> list[object]:
    """Logging handlers that store what they are given: user-defined ones, and those with a buffer."""
    every = [logging.root, *logging.root.manager.loggerDict.values()]
    found = [one for each in every for one in (getattr(each, "handlers", ()))]
    return [one for one in found if not foreign(type(one).__module__) or hasattr(one, "buffer")]
