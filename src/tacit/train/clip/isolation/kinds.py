"""What holds no values of records: constants of Python and torch, and libraries that are left alone."""

from __future__ import annotations

import _thread
import contextvars
import datetime
import decimal
import re
import sys
import sysconfig
import types
import weakref
from collections import namedtuple
from pathlib import Path

import numpy as np
import torch

_FIELD = vars(namedtuple("_Pair", "one"))["one"]
SHALLOW = ("logging", "typing", "abc")
"""Objects of these modules are put back themselves; what they lead to (handlers, streams) is left alone."""
PLAIN = (
    int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice, types.CodeType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, types.MethodWrapperType, types.GenericAlias, types.UnionType, re.Pattern,
    types.MappingProxyType, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, decimal.Decimal,
    contextvars.ContextVar, weakref.ref, _thread.LockType, _thread.RLock, np.dtype, np.generic, np.ufunc, torch.dtype,
    type(_FIELD), torch.device, torch.layout, torch.memory_format, torch.Size, type(torch.ops),
)  # fmt: skip
LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "torch", "torchgen", "functorch", "triton", "numpy", "scipy", "tacit", "pytest", "_pytest", "pluggy", "hypothesis",
}  # fmt: skip
PLACES = tuple(
    str(Path(path)) for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def foreign(name: str) -> bool:
    """Whether a module belongs to a library that is left alone: Python's own, torch, numpy, and the like."""
    return name.partition(".")[0] in LIBRARIES


def of_the_user(module: types.ModuleType) -> bool:
    """Whether a module is neither Python's own nor installed: a script, a notebook, a project that is worked on."""
    if foreign(module.__name__):
        return False
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or (isinstance(file, str) and not file.startswith(PLACES))
