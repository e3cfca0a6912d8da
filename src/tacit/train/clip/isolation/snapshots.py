"""Snapshots of single objects: each stores what its object holds when it is made, and `restore` puts exactly that back.

Contents are compared by identity, since comparing by value would run user code. Methods of built-in types are called on
the types themselves, so that a subclass cannot pretend to be unchanged.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import is_
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from .alike import ABSENT, alike, content

LARGEST = 2**24
"""Arrays of more bytes are made read-only while user code runs, instead of being copied and compared."""
LOADED = ModuleType, FunctionType, BuiltinFunctionType, type, torch._ops.OpOverload, torch._ops.OpOverloadPacket
"""What libraries load late, which is left in place."""
CODE = ("__code__", "__defaults__", "__kwdefaults__", "__doc__", "__name__", "__qualname__", "__module__")


class Snapshot(Protocol):
    """The stored content of an object."""

    def restore(self) -> None:
        """Put it back."""


def same(held: Iterable[object], noted: Iterable[object]) -> bool:
    """Whether these are identical objects in the same order; both have the same length."""
    return all(map(is_, held, noted))


class Mapping:
    """A dict, its order included; the namespaces of modules and objects among them."""

    def __init__(self, held: dict[object, object]) -> None:
        self.held = held
        self.keys, self.values = list(_kind(held).keys(held)), list(_kind(held).values(held))

    def restore(self) -> None:
        held = self.held
        if dict.__len__(held) == len(self.keys) and same(_kind(held).keys(held), self.keys):
            if not same(_kind(held).values(held), self.values):
                for key, value in zip(self.keys, self.values, strict=True):
                    _kind(held).__setitem__(held, key, value)
            return
        _kind(held).clear(held)
        for key, value in zip(self.keys, self.values, strict=True):
            _kind(held).__setitem__(held, key, value)

    def moved(self) -> bool | str:
        held = self.held
        now, before = dict(_kind(held).items(held)), dict(zip(self.keys, self.values, strict=True))
        return _differing(now, before) or list(now) != self.keys


def _differing(now: dict[Any, Any], before: dict[Any, Any]) -> str:
    """The name of a key whose value changed, or that was added or removed."""
    for key in {**before, **now}:
        if not alike(now.get(key, ABSENT), before.get(key, ABSENT)):
            return key[:40] if isinstance(key, str) else f"a key of type {type(key).__name__}"
    return ""


def _kind(held: dict[object, object]) -> type[dict[object, object]]:
    """The type whose methods to use: ordered dicts store their order separately."""
    return OrderedDict if isinstance(held, OrderedDict) else dict


class Names:
    """Some or all variables of a module: rebound ones are bound as before, new ones are removed.

    Names are changed one by one, so that the module stays usable by other threads meanwhile.
    """

    def __init__(self, held: dict[str, object], only: frozenset[str] | None = None) -> None:
        self.held, self.only = held, only
        self.noted = {name: held.get(name, ABSENT) for name in (held if only is None else only)}

    def restore(self) -> None:
        held, noted = self.held, self.noted
        if self.only is None and len(held) == len(noted) and same(held, noted) and same(held.values(), noted.values()):
            return
        for name, value in noted.items():
            if value is ABSENT:
                held.pop(name, None)
            elif held.get(name, ABSENT) is not value:
                held[name] = value
        if self.only is None:
            for name in [name for name in held if name not in noted and not _is_loaded(held[name])]:
                del held[name]

    def moved(self) -> str:
        now = {name: self.held.get(name, ABSENT) for name in (self.held if self.only is None else self.only)}
        return _differing(
            {name: one for name, one in now.items() if not isinstance(one, ModuleType)}
            | {name: one for name, one in self.noted.items() if isinstance(one, ModuleType)},
            self.noted,
        )


def _is_loaded(value: object) -> bool:
    """Whether a value is a module that was imported, not one that somebody made (`types.ModuleType`)."""
    return isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value


class Added:
    """Remove new variables with data from a library's module; what the library loads late is left alone."""

    def __init__(self, held: dict[str, object]) -> None:
        self.held, self.noted = held, frozenset(held)

    def restore(self) -> None:
        if len(self.held) == len(self.noted):
            return
        for name in [name for name in self.held if name not in self.noted]:
            if not isinstance(self.held[name], LOADED):
                del self.held[name]


class Patched:
    """A library's class: attributes are bound as before, and new ones with data are removed."""

    def __init__(self, held: type) -> None:
        self.held, self.noted = held, dict(vars(held))

    def restore(self) -> None:
        now, noted = vars(self.held), self.noted
        if len(now) == len(noted) and same(now.values(), noted.values()):
            return
        for name in [name for name in now if name not in noted]:
            if not isinstance(now[name], LOADED):
                type.__delattr__(self.held, name)
        for name, value in noted.items():
            if now.get(name, ABSENT) is not value:
                type.__setattr__(self.held, name, value)


class Sequence:
    """A list or a deque."""

    def __init__(self, held: list[object] | deque[object]) -> None:
        self.held, self.noted = held, list(_each(held))

    def restore(self) -> None:
        held, noted = self.held, self.noted
        if _base(held).__len__(held) == len(noted) and same(_each(held), noted):
            return
        if isinstance(held, list):
            list.__setitem__(held, slice(None), noted)
        else:
            deque.clear(held)
            deque.extend(held, noted)

    def moved(self) -> bool:
        found = list(_each(self.held))
        return len(found) != len(self.noted) or not all(map(alike, found, self.noted))


def _each(held: list[object] | deque[object] | set[object]) -> Iterator[Any]:
    """The actual items, whatever a subclass reports."""
    found: Iterator[Any] = _base(held).__iter__(held)
    return found


def _base(held: list[object] | deque[object] | set[object]) -> Any:
    return list if isinstance(held, list) else deque if isinstance(held, deque) else set


class Members:
    """A set."""

    def __init__(self, held: set[object]) -> None:
        self.held, self.noted = held, list(_each(held))

    def restore(self) -> None:
        if set.__len__(self.held) != len(self.noted) or not same(_each(self.held), self.noted):
            set.clear(self.held)
            set.update(self.held, self.noted)

    def moved(self) -> bool:
        return set.__len__(self.held) != len(self.noted) or not all(map(self.held.__contains__, self.noted))


class Bytes:
    """A bytearray."""

    def __init__(self, held: bytearray) -> None:
        self.held, self.noted = held, bytes(held)

    def restore(self) -> None:
        if self.held != self.noted:
            bytearray.__setitem__(self.held, slice(None), self.noted)

    def moved(self) -> bool:
        return self.held != self.noted


class Cell:
    """A closure variable."""

    def __init__(self, held: CellType) -> None:
        self.held, self.noted = held, content(held)

    def restore(self) -> None:
        if content(self.held) is self.noted:
            return
        if self.noted is ABSENT:
            del self.held.cell_contents
        else:
            self.held.cell_contents = self.noted

    def moved(self) -> bool:
        return not alike(content(self.held), self.noted)


class Function:
    """The code, defaults and attributes of a function."""

    def __init__(self, held: FunctionType) -> None:
        self.held = held
        self.noted = [getattr(held, name) for name in CODE]

        self.attributes = dict(held.__dict__)

    def restore(self) -> None:
        for name, value in zip(CODE, self.noted, strict=True):
            if getattr(self.held, name) is not value:
                setattr(self.held, name, value)
        now, noted = self.held.__dict__, self.attributes
        if len(now) != len(noted) or not same(now, noted) or not same(now.values(), noted.values()):
            now.clear()
            now.update(noted)

    def moved(self) -> str:
        if not alike([getattr(self.held, name) for name in CODE[:3]], self.noted[:3]):
            return "the code of a function"
        return _differing(self.held.__dict__, self.attributes)


class Registered:
    """Which classes count as subclasses of an abstract one (`abc.ABC.register`)."""

    def __init__(self, held: type) -> None:
        self.held = held
        self.noted = self._now()

    def _now(self) -> list[type]:
        found = [one() for one in _abc._get_dump(self.held)[0]]
        return [kind for kind in found if kind is not None]

    def restore(self) -> None:
        if set(self._now()) != set(self.noted):
            _abc._reset_registry(self.held)
            _abc._reset_caches(self.held)
            for kind in self.noted:
                _abc._abc_register(self.held, kind)


class Kind:
    """The class of an object, and the dict of its attributes, where it has one."""

    def __init__(self, held: object, attributes: dict[str, object] | None) -> None:
        self.held, self.kind, self.attributes = held, type(held), attributes

    def restore(self) -> None:
        if type(self.held) is not self.kind:
            object.__setattr__(self.held, "__class__", self.kind)
        if self.attributes is not None and self.held.__dict__ is not self.attributes:
            object.__setattr__(self.held, "__dict__", self.attributes)

    def moved(self) -> bool:
        return type(self.held) is not self.kind


class Partial:
    """What a partial function calls."""

    def __init__(self, held: partial[object]) -> None:
        self.held, self.noted = held, (held.func, held.args, held.keywords, held.__dict__)

    def restore(self) -> None:
        held = self.held
        if not same((held.func, held.args, held.keywords, held.__dict__), self.noted):
            held.__setstate__(self.noted)  # type: ignore[attr-defined]

    def moved(self) -> bool:
        return not alike((self.held.func, self.held.args, self.held.keywords), self.noted[:3])


class Attributes:
    """Attributes that descriptors read and write: those of a class, and slots of an object."""

    def __init__(self, held: object, get: Callable[[str], object], names: Callable[[], Iterable[str]]) -> None:
        self.held, self.get, self.names = held, get, names
        self.noted = {name: get(name) for name in names()}

    def restore(self) -> None:
        setter, remove = (
            (type.__setattr__, type.__delattr__)
            if isinstance(self.held, type)
            else (object.__setattr__, object.__delattr__)
        )
        for name in list(self.names()):
            value = self.noted.get(name, ABSENT)
            if value is ABSENT and self.get(name) is not ABSENT:
                remove(self.held, name)
        for name, value in self.noted.items():
            if value is not ABSENT and self.get(name) is not value:
                setter(self.held, name, value)

    def moved(self) -> str:
        return _differing({name: self.get(name) for name in self.names()}, self.noted)


class Array:
    """A numpy array: small ones are compared with a copy, large ones are read-only until `restore`."""

    def __init__(self, held: NDArray[Any]) -> None:
        self.held, self.writeable = held, bool(held.flags.writeable)
        self.form = held.dtype, held.shape, held.strides
        self.noted = held.copy() if held.nbytes <= LARGEST else None
        self.locked = self.noted is None and self.writeable

    def enter(self) -> None:
        """Before user code runs."""
        if self.locked:
            self.held.flags.writeable = False

    def restore(self) -> None:
        self._reform()
        if self.noted is not None and self.held.tobytes() != self.noted.tobytes():
            self.held.flags.writeable = True  # a record may have written, and locked it afterwards
            np.copyto(self.held, self.noted)
        if self.held.flags.writeable != self.writeable:
            self.held.flags.writeable = self.writeable

    def _reform(self) -> None:
        """Restore shape and dtype; impossible for an array that was resized."""
        held, (kind, shape, strides) = self.held, self.form
        if (held.dtype, held.shape, held.strides) == self.form:
            return
        held.dtype = kind  # type: ignore[misc]
        if held.size != np.prod(shape, dtype=np.int64):
            held.resize(shape, refcheck=False)
        held.shape = shape
        if held.strides != strides:
            held.strides = strides

    def moved(self) -> bool:
        return self.noted is not None and not alike(self.held, self.noted)
