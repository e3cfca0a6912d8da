"""Find everything in which code that runs one record at a time could store values for the next record.

Such code may look at values, so it could leave a record's values in a buffer, an attribute, a closure, a class or a
module variable. `Reach` walks from the model and the loss to every object that they can reach. It follows attributes,
slots, containers, tensors, arrays, closures, defaults, the classes of objects, and the variables that the user's code
refers to in its own and in other modules. It also covers the variables of all of the user's modules and the containers
in them, whether or not code refers to them. What the code of an installed library refers to is added when that code is
called.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import os
import random
import sys
import weakref
from collections import defaultdict, deque
from contextlib import suppress
from functools import partial
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.utils import parametrize

from ..capture.onlookers import in_force
from . import snapshots
from .alike import ABSENT, content, slot_of
from .c_objects import kept_by_c
from .code import imported, names_of
from .held import HERITAGE, attribute, inherited, own_names, raised
from .hidden import Hidden, advances
from .kinds import (
    CONTAINERS,
    GENERATORS,
    HOLDERS,
    NAMED,
    OPERATORS,
    SHALLOW,
    SHOWN,
    foreign,
    handlers,
    hides,
    holds_nothing,
    installed,
    of_a_user_class,
    of_sharding,
    of_the_user,
    plain,
    settable,
    slots_of,
)
from .memory import Draws, Odd, gradient, swappable
from .settings import Flags

KNOWN = ("snapshots", "draws", "caches", "opaque", "_arrays", "_tensors", "_seen", "_looked")


class Reach:
    """Everything that some roots lead to, with a snapshot of each object as it is now."""

    def __init__(self, *roots: Any, near: bool = False) -> None:
        """`near`: what is held as values only, not what the code of libraries' classes and functions names."""
        self._near = near
        self._waiting: dict[CodeType, list[FunctionType]] = {}
        self._known: set[CodeType] = set()
        self.snapshots: list[snapshots.Snapshot] = [Flags()]
        self.draws: list[Draws] = []
        self.caches: list[Any] = []
        self.opaque: dict[str, str] = {}
        self._paths: dict[int, str] = {}
        self._arrays: list[snapshots.Array] = []
        self._tensors: list[Tensor] = []
        self._seen: dict[int, Any] = {id(self): self, id(self.__dict__): self.__dict__}
        self._looked: dict[tuple[int, frozenset[str]], None] = {}
        self._named: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self._left: list[tuple[Any, str, bool]] = [(root, "", True) for root in roots]
        self._left += [(random._inst, "random", False), (np.random.mtrand._rand, "numpy.random", False)]
        self._left.append((os.environ, "os.environ", False))
        self._left += [(one, "torch", True) for one in in_force()]
        self._left += [(one, "logging", False) for one in handlers()]
        self._named[id(vars(parametrize))] = vars(parametrize), {"_cache", "_cache_enabled"}
        self._walk()
        self._sweep()

    def _walk(self) -> None:
        """Visit what is left, once each; `_seen` keeps all objects alive, so that no id is reused."""
        while self._left:
            value, path, whole = self._left.pop()
            if isinstance(value, HOLDERS):
                self._left += [(one, path, whole) for one in gc.get_referents(value)]
            if isinstance(value, OPERATORS) and id(value) not in self._seen:
                self._seen[id(value)] = value
                self.snapshots.append(snapshots.Added(vars(value)))
            if plain(value) or id(value) in self._seen or (self._near and of_sharding(value)):
                continue
            self._seen[id(value)] = value
            self._paths[id(value)] = path
            try:
                self._visit(value, path, whole)
            except Exception:  # an object that does not let itself be looked at
                self.opaque.setdefault(path or "the model", type(value).__qualname__)

    def name_of(self, held: Any, part: str = "") -> str:
        """The path by which an object was found, for a message: names of attributes and keys, never values."""
        module = held.get("__name__", "") if isinstance(held, dict) else getattr(held, "__name__", "")
        path = self._paths.get(id(held), "") or str(module)
        return ".".join(filter(None, (path, part))) or f"a {type(held).__name__} of the model"

    def _mark(self) -> dict[str, int]:
        """How much is known by now, for `_forget`."""
        return {name: len(getattr(self, name)) for name in KNOWN}

    def _forget(self, mark: dict[str, int], named: dict[int, set[str]]) -> None:
        """Forget what was visited since a mark; `named` are the variables of modules that were named then."""
        for name, size in mark.items():
            held = getattr(self, name)
            if isinstance(held, list):
                del held[size:]
            else:
                for _ in range(len(held) - size):
                    held.popitem()
        self._named = {key: (self._named[key][0], names) for key, names in named.items()}
        self._waiting = {code: [one for one in some if id(one) in self._seen] for code, some in self._waiting.items()}

    def _sweep(self) -> None:
        """Visit variables of all of the user's modules, containers among them, and objects of the user's classes."""
        for module in list(sys.modules.values()):
            if isinstance(module, ModuleType) and of_the_user(module):
                self._module(module)
                for name, value in list(vars(module).items()):
                    self._later((value,), f"{module.__name__}.{name}", False)
        self._walk()

    def _later(self, values: Any, path: str, whole: bool) -> None:
        """Visit some values; where not all is walked, those that hold something of the user's.

        From near, iterators and generators too.
        """
        self._left += [
            (value, path, whole)
            for value in values
            if whole
            or isinstance(value, CONTAINERS)
            or of_a_user_class(type(value))  # type: ignore[arg-type]
            or (self._near and (isinstance(value, GENERATORS) or advances(type(value))))  # type: ignore[arg-type]
        ]

    def _visit(self, value: Any, path: str, whole: bool) -> None:
        if isinstance(value, type):
            self._class(value, path)
        elif isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, FunctionType):
            self._function(value, path)
        elif isinstance(value, Tensor):
            self._tensor(value, path, whole)
        elif isinstance(value, GENERATORS):
            self.draws.append(Draws(value))
            self._attributes(value, path, whole)
        elif isinstance(value, contextvars.ContextVar):
            with suppress(LookupError):
                self._left.append((value.get(), path, whole))
        elif isinstance(value, MappingProxyType):
            self._left += [(one, path, whole) for one in gc.get_referents(value)]
        elif type(value) in weakref.ProxyTypes:
            self._left.append((value.__repr__.__self__, path, whole))
        else:
            self._object(value, path, whole)

    def _object(self, value: Any, path: str, whole: bool) -> None:
        """A container, or an object with attributes; both for a subclass of a container."""
        whole = whole and type(value).__module__ not in SHALLOW
        known = self._container(value, path, whole) or self._callable(value, path)
        known = self._attributes(value, path, whole) or known or holds_nothing(type(value))  # type: ignore[arg-type]
        hidden = not known or hides(type(value))  # type: ignore[arg-type]
        if self._near and hidden:
            self.snapshots.append(Hidden(value, strict=whole))
        if whole and hidden:
            self.opaque.setdefault(path or "the model", f"{type(value).__module__}.{type(value).__qualname__}")
            self._later((one for one in gc.get_referents(value) if isinstance(one, CONTAINERS)), path, False)

    def _attributes(self, value: Any, path: str, whole: bool) -> bool:
        """Attributes and slots of an object, and its class; whether it has any."""
        attributes = getattr(value, "__dict__", None)
        held = attributes if isinstance(attributes, dict) else None
        if held is not None:
            self._left += [(held, path, whole), (type(value), path, whole)]
        if slots := slots_of(type(value)):
            self.snapshots.append(snapshots.Attributes(value, lambda name: slot_of(slots[name], value), lambda: slots))
            self._later((slot_of(slots[name], value) for name in slots), path, whole)
        if held is not None or slots:
            self.snapshots.append(snapshots.Kind(value, held))
        if isinstance(value, BaseException):
            self._noted(value, raised(type(value)))  # type: ignore[arg-type]
        return held is not None or bool(slots) or isinstance(value, BaseException)

    def _noted(self, value: Any, names: tuple[str, ...]) -> None:
        """Snapshot the attributes that C code stores."""
        self.snapshots.append(snapshots.Attributes(value, lambda name: getattr(value, name, ABSENT), lambda: names))
        self._later((getattr(value, name, ABSENT) for name in names), "", False)

    def _container(self, value: Any, path: str, whole: bool) -> bool:
        if isinstance(value, dict):
            self.snapshots.append(snapshots.Mapping(value))
            if isinstance(value, defaultdict):
                self._noted(value, ("default_factory",))
                self._left.append((value.default_factory, path, whole))
            for key, item in list(dict.items(value)):
                self._later((key, item), f"{path}.{key}" if isinstance(key, str) and path else str(key)[:40], whole)
        elif isinstance(value, list | deque):
            self.snapshots.append(snapshots.Sequence(value))
            self._later(list(value), path, whole)
        elif isinstance(value, set):
            self.snapshots.append(snapshots.Members(value))
            self._later(list(value), path, whole)
        elif isinstance(value, tuple | frozenset):
            self._later(value, path, whole)
        elif isinstance(value, bytearray):
            self.snapshots.append(snapshots.Bytes(value))
        elif isinstance(value, np.ndarray):
            self._arrays.append(array := snapshots.Array(value))
            self.snapshots.append(array)
            self._later(value.ravel().tolist() if value.dtype == object else (value.base,), path, False)
        else:
            return False
        return True

    def _callable(self, value: Any, path: str) -> bool:
        """Visit what wraps a function or belongs to one, and other objects of C code."""
        if isinstance(value, MethodType):
            self._left += [(value.__func__, path, True), (value.__self__, path, True)]
        elif isinstance(value, BuiltinFunctionType | MethodWrapperType):
            self._left.append((value.__self__, path, True))
        elif isinstance(value, weakref.ref):
            self._left.append((value(), path, True))
        elif isinstance(value, staticmethod | classmethod):
            self._left.append((value.__func__, path, True))
        elif isinstance(value, property):
            self._left += [(one, path, True) for one in (value.fget, value.fset, value.fdel)]
            self._noted(value, ("__doc__",))
        elif isinstance(value, functools.partial):
            self.snapshots.append(snapshots.Partial(value))
            self._left += [(one, path, True) for one in (value.func, value.args, value.keywords)]
        elif isinstance(value, functools._lru_cache_wrapper):
            self.caches.append(value)
            self._left.append((value.__wrapped__, path, True))
        elif isinstance(value, CellType):
            self.snapshots.append(snapshots.Cell(value))
            self._left += [(one, path, True) for one in (content(value),) if one is not ABSENT]
        elif (kept := kept_by_c(value)) is not None:
            self.snapshots.append(kept)
        else:
            return False
        return True

    def _function(self, value: FunctionType, path: str) -> None:
        """Visit what a user's function encloses and refers to; a library's waits until it is called."""
        self.snapshots.append(snapshots.Function(value))
        if self._near:
            self._near_function(value, path)
            return
        name = str(value.__globals__.get("__name__", ""))
        if value.__code__ not in self._known and (foreign(name) or installed(name)):
            self._waiting.setdefault(value.__code__, []).append(value)
            return
        self.enclosed(value, path)
        if not installed(name):
            self.names(value.__code__, value.__globals__)

    def enclosed(self, value: FunctionType, path: str = "") -> None:
        """Visit what a function holds: defaults, attributes, and the variables that it encloses."""
        self._left += [(one, path, True) for one in (value.__defaults__, value.__kwdefaults__, value.__dict__)]
        with suppress(Exception):  # types that are only named may not be there
            self._later((value.__annotations__,), path, False)
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        self._left += [(cell, f"{name} in {value.__qualname__}", True) for name, cell in cells]
        for one in map(content, value.__closure__ or ()):
            if isinstance(one, ModuleType):
                self._module(one, names_of(value.__code__).attributes)

    def names(self, code: CodeType, variables: dict[str, Any]) -> None:
        """Visit the variables that code names, in its own module (`variables`) and in modules that it imports."""
        if foreign(str(variables.get("__name__", ""))):
            return
        named = names_of(code)
        if id(variables) not in self._seen:
            self._seen[id(variables)] = variables
            self.snapshots.append(snapshots.Names(variables))
        self._named.setdefault(id(variables), (variables, set()))[1].update(named.globals)
        for name in named.globals & variables.keys():
            if isinstance(one := variables[name], ModuleType):
                self._module(one, named.attributes)
            else:
                self._left.append((one, name, True))
        for name in imported(named, str(variables.get("__package__") or "")):
            if isinstance(module := sys.modules.get(name), ModuleType):
                self._module(module, named.attributes)

    def _near_function(self, value: FunctionType, path: str) -> None:
        """What it encloses and names; of a library's function, containers and objects of the user's classes only."""
        name = str(value.__globals__.get("__name__", ""))
        if not foreign(name) and not installed(name):
            self.enclosed(value, path)
            self.names(value.__code__, value.__globals__)
            return
        cells = list(value.__closure__ or ())
        self.snapshots += [snapshots.Cell(cell) for cell in cells]
        held = [one for one in map(content, cells) if one is not ABSENT]
        self._later((*held, value.__defaults__, value.__kwdefaults__, value.__dict__), path, False)
        self._left += [(one, path, True) for one in held if isinstance(one, FunctionType)]

    def _module(self, module: ModuleType, attributes: frozenset[str] = frozenset()) -> None:
        """A module that code names: all variables of the user's own, the named ones of a library and of those in it."""
        held = vars(module)
        if (id(held), attributes) in self._looked:
            return
        self._looked[id(held), attributes] = None
        own = of_the_user(module)
        if id(held) not in self._seen:
            self._seen[id(held)] = held
            self.snapshots.append(snapshots.Names(held) if own else snapshots.Added(held))
            if getattr(module, "__spec__", None) is None and sys.modules.get(module.__name__) is not module:
                self._later(list(held.values()), module.__name__, True)  # somebody's namespace
        if not own:
            self._named.setdefault(id(held), (held, set()))[1].update(attributes)
        path = module.__name__
        for name in attributes & held.keys():
            if isinstance(held[name], ModuleType):
                self._module(held[name], attributes)
            elif not foreign(path) or isinstance(held[name], NAMED):
                self._left.append((held[name], f"{path}.{name}", not foreign(path)))
            else:
                self._shallow(held[name], f"{path}.{name}")

    def _shallow(self, value: Any, path: str) -> None:
        """Visit the attributes of a function or object of a library that is left alone: anybody can set them."""
        attributes = getattr(value, "__dict__", None)
        if isinstance(value, FunctionType):
            self._left.append((value, path, False))
        elif isinstance(attributes, dict):
            self._left += [(one, path, False) for one in (attributes, *attributes.values()) if isinstance(one, SHOWN)]

    def _class(self, value: type, path: str) -> None:
        for kind in value.__mro__:
            if kind is not value and id(kind) in self._seen:
                continue
            if self._near and not of_a_user_class(kind):
                continue
            if foreign(kind.__module__):
                self._seen[id(kind)] = kind
                if settable(kind):
                    self.snapshots.append(snapshots.Patched(kind))
                    self._later(list(vars(kind).values()), kind.__name__, False)
                continue
            self._seen[id(kind)] = kind
            self.snapshots.append(snapshots.Attributes(kind, partial(attribute, kind), partial(own_names, kind)))
            self.snapshots.append(snapshots.Attributes(kind, partial(inherited, kind), lambda: HERITAGE))
            if "_abc_impl" in vars(kind):
                self.snapshots.append(snapshots.Registered(kind))
            self._left.append((type(kind), path, True))
            self._left += [(vars(kind)[name], f"{kind.__name__}.{name}", True) for name in own_names(kind)]

    def _tensor(self, value: Tensor, path: str, whole: bool) -> None:
        if is_functorch_wrapped_tensor(value):  # of `torch.vmap` or `torch.func`: its memory is another tensor's
            return
        if swappable(value):
            self._tensors.append(value)
            hooks, made = value._backward_hooks, value.grad_fn
            beside: Any = {} if made is None else made.metadata
            self._later((hooks, value.__dict__, beside, gradient(value)), path, whole)
        else:
            self.snapshots.append(Odd(value))
            self._later((value.__dict__, gradient(value)), path, whole)
        if type(value) not in (Tensor, torch.nn.Parameter, torch.nn.Buffer):
            self._left.append((type(value), path, whole))
