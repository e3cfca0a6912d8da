"""Snapshots of single objects: each notes what its object holds when it is made, and `restore` puts exactly that back.

Contents are compared by identity, since comparing by value would run user code. Methods of the built-in types are
called on the types themselves, so that no subclass can pretend to be unchanged.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from operator import is_
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

ABSENT = object()
LARGEST = 2**24
"""Arrays of more bytes are made read-only while user code runs, in place of being copied and compared."""
CODE = ("__code__", "__defaults__", "__kwdefaults__")


class Snapshot(Protocol):
    """What an object held."""

    def restore(self) -> None:
        """Put it back."""


def same(held: Iterable[object], noted: Iterable[object]) -> bool:
    """Whether these are the very same objects in the same order; both have one length."""
    return all(map(is_, held, noted))


class Mapping:
    """A dict, its order included; the namespaces of modules and objects among them."""

    def __init__(self, held: dict[Any, Any]) -> None:
        self.held = held
        self.keys, self.values = list(dict.keys(held)), list(dict.values(held))

    def restore(self) -> None:
        held = self.held
        if dict.__len__(held) == len(self.keys) and same(dict.keys(held), self.keys):
            if not same(dict.values(held), self.values):
                for key, value in zip(self.keys, self.values, strict=True):
                    _kind(held).__setitem__(held, key, value)
            return
        _kind(held).clear(held)
        for key, value in zip(self.keys, self.values, strict=True):
            _kind(held).__setitem__(held, key, value)


def _kind(held: dict[Any, Any]) -> type[dict[Any, Any]]:
    """Ordered dicts keep their order in a place of their own."""
    return OrderedDict if isinstance(held, OrderedDict) else dict


class Names:
    """Some variables of a module, or all of them: rebound ones are bound as before, new ones are removed.

    Names are changed one by one: the module stays usable by other threads meanwhile.
    """

    def __init__(self, held: dict[str, Any], only: frozenset[str] | None = None) -> None:
        self.held, self.only = held, only
        self.noted = {name: held.get(name, ABSENT) for name in (held if only is None else only)}

    def restore(self) -> None:
        held, noted = self.held, self.noted
        if self.only is None and len(held) == len(noted) and same(held.values(), noted.values()):
            return
        for name, value in noted.items():
            if value is ABSENT:
                held.pop(name, None)
            elif held.get(name, ABSENT) is not value:
                held[name] = value
        if self.only is None:
            for name in [name for name in held if name not in noted and not isinstance(held[name], ModuleType)]:
                del held[name]


class Added:
    """New variables of a library's module that hold data are removed; what the library loads late is left alone."""

    def __init__(self, held: dict[str, Any]) -> None:
        self.held, self.noted = held, frozenset(held)

    def restore(self) -> None:
        if len(self.held) == len(self.noted):
            return
        kinds = ModuleType, FunctionType, BuiltinFunctionType, type
        for name in [name for name in self.held if name not in self.noted]:
            if not isinstance(self.held[name], kinds):
                del self.held[name]


class Sequence:
    """A list or a deque."""

    def __init__(self, held: list[Any] | deque[Any]) -> None:
        self.held, self.noted = held, list(held)

    def restore(self) -> None:
        held, noted = self.held, self.noted
        if len(held) == len(noted) and same(held, noted):
            return
        if isinstance(held, list):
            list.__setitem__(held, slice(None), noted)
        else:
            deque.clear(held)
            deque.extend(held, noted)


class Members:
    """A set."""

    def __init__(self, held: set[Any]) -> None:
        self.held, self.noted = held, list(held)

    def restore(self) -> None:
        if len(self.held) != len(self.noted) or not same(self.held, self.noted):
            set.clear(self.held)
            set.update(self.held, self.noted)


class Bytes:
    """A bytearray."""

    def __init__(self, held: bytearray) -> None:
        self.held, self.noted = held, bytes(held)

    def restore(self) -> None:
        if self.held != self.noted:
            bytearray.__setitem__(self.held, slice(None), self.noted)


class Cell:
    """A variable that functions enclose."""

    def __init__(self, held: CellType) -> None:
        self.held, self.noted = held, content(held)

    def restore(self) -> None:
        if content(self.held) is self.noted:
            return
        if self.noted is ABSENT:
            del self.held.cell_contents
        else:
            self.held.cell_contents = self.noted


def content(cell: CellType) -> Any:
    """What a cell holds; nothing where its variable is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


class Function:
    """What a function does, and its defaults."""

    def __init__(self, held: FunctionType) -> None:
        self.held = held
        self.noted = [getattr(held, name) for name in CODE]

    def restore(self) -> None:
        for name, value in zip(CODE, self.noted, strict=True):
            if getattr(self.held, name) is not value:
                setattr(self.held, name, value)


class Attributes:
    """Attributes that are read and written by descriptors: those of a class, and slots of an object."""

    def __init__(self, held: Any, get: Callable[[str], Any], names: Callable[[], Iterable[str]]) -> None:
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


class Array:
    """A numpy array: small ones are compared with a copy, large ones are read-only until `restore`."""

    def __init__(self, held: NDArray[Any]) -> None:
        self.held, self.writeable = held, bool(held.flags.writeable)
        self.noted = held.copy() if held.nbytes <= LARGEST else None
        self.locked = self.noted is None and self.writeable

    def enter(self) -> None:
        """Before user code runs."""
        if self.locked:
            self.held.flags.writeable = False

    def restore(self) -> None:
        if self.locked:
            self.held.flags.writeable = True
        if self.noted is None or not self.writeable:
            return
        if self.held.tobytes() != self.noted.tobytes():
            np.copyto(self.held, self.noted)
