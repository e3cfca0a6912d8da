"""Places in which user code that runs one record at a time can keep values of a record for the next."""

from __future__ import annotations

import array
import builtins
import collections
import contextvars
import ctypes
import decimal
import enum
import functools
import importlib
import io
import itertools
import os
import random
import string
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import train_kept_elsewhere as elsewhere
from train_mixing import WIDTH, Net, each

Store, Load = Callable[[nn.Module, float], object], Callable[[nn.Module], float]
TOTAL = 0.0
BOX = types.SimpleNamespace(last=0.0)
LOCAL = threading.local()
CONTEXT: contextvars.ContextVar[float] = contextvars.ContextVar("kept", default=0.0)
LARGE = torch.zeros(2**20 + 1)
BY_NUMPY = torch.from_numpy(np.zeros(2**20 + 1, dtype=np.float32))
ARRAY, LARGE_ARRAY = np.zeros(3), np.zeros(2**21 + 1)
GENERATOR, NUMPY_GENERATOR, PYTHON_GENERATOR = torch.Generator(), np.random.default_rng(0), random.Random(0)
QUEUE: collections.deque[float] = collections.deque(maxlen=2)
BYTES, VIEWED = bytearray(8), torch.zeros(4)
VIEW = VIEWED[1:]
WEAK: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


class Slotted:
    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0.0


class Named(dict[str, float]):
    """A dict with attributes of its own."""


class Meta(type):
    kept = 0.0


class Counted(metaclass=Meta):
    number = 0.0

    @classmethod
    def add(cls, value: float) -> None:
        cls.number += value

    @property
    def last(self) -> float:
        return self.number


SLOTTED, NAMED = Slotted(), Named()


def enclosing() -> tuple[Callable[[float], None], Callable[[], float]]:
    """Two functions with one variable."""
    last = 0.0

    def add(value: float) -> None:
        nonlocal last
        last += value

    return add, lambda: last


def remember_global(m: nn.Module, value: float) -> None:
    global TOTAL
    TOTAL = TOTAL + value


@functools.cache
def cached() -> list[float]:
    return [0.0]


def by_default(value: float | None = None, last: list[float] = [0.0]) -> float:  # noqa: B006
    last[0] += value or 0.0
    return last[0]


def set_cached(m: nn.Module, value: float) -> None:
    cached()[0] += value


def attribute(target: Any, name: str) -> tuple[Store, Load]:
    """Kept as an attribute of some object."""
    return (lambda m, value: setattr(target, name, value)), (lambda m: float(getattr(target, name, 0.0)))


def written(tensor: Any) -> tuple[Store, Load]:
    """Written into a tensor or an array."""
    return (lambda m, value: tensor.__setitem__(0, value)), (lambda m: float(tensor[0]))


def drawn(draw: Callable[[], float]) -> tuple[Store, Load]:
    """Kept in the state of a generator: how many numbers were drawn."""
    return (lambda m, value: [draw() for _ in range(7)]), (lambda m: draw())


def hooked(m: nn.Module, value: float) -> None:
    m.first.weight.register_hook(lambda gradient: gradient * 3)


def module_hooked(m: nn.Module, value: float) -> None:
    m.first.register_forward_hook(lambda _, given, out: out + value)


def replaced_method(m: nn.Module, value: float) -> None:
    Net.forward = lambda self, x: self.last(self.first(x) + value)  # type: ignore[method-assign]


def recoded(m: nn.Module, value: float) -> None:
    by_default.__code__ = (lambda value=None, last=None: 30.0).__code__


def replaced_layer(m: nn.Module, value: float) -> None:
    m.first = nn.Linear(WIDTH, WIDTH)


def aliased(m: nn.Module, value: float) -> None:
    VIEWED[2] = value


def set_default_type(m: nn.Module, value: float) -> None:
    torch.set_default_dtype(torch.float64)


def swapped_memory(m: nn.Module, value: float) -> None:
    m.first.weight.data = m.first.weight.data + value


def through_numpy(m: nn.Module, value: float) -> None:
    m.last.bias.detach().numpy()[0] += value


def dynamic_store(m: nn.Module, value: float) -> None:
    importlib.import_module("_".join(("train", "kept", "elsewhere"))).SEEN.append(value)


def dynamic_load(m: nn.Module) -> float:
    return float(sum(importlib.import_module("_".join(("train", "kept", "elsewhere"))).SEEN))


def nothing(m: nn.Module) -> float:
    return 0.0


class Number(int):
    """A number with attributes."""


class Pretending(list[float]):
    """A list that says that it is empty."""

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


class Colour(enum.IntEnum):
    RED = 1


class Draws(random.Random):
    """A generator with attributes."""


class Own(torch.Tensor):
    """A tensor of a class of somebody's own."""


class Box:
    def __init__(self) -> None:
        self.last = 0.0


class Other(Box):
    last = 9.0  # type: ignore[assignment]

    def __init__(self) -> None:
        pass


def with_bank(value: Any) -> tuple[Store, Load]:
    """Kept in a list that is an attribute of some object."""
    value.bank = [0.0]
    return (lambda m, v: value.bank.append(v)), (lambda m: float(sum(value.bank)))


def weakly() -> tuple[Store, Load]:
    """The object is held by somebody else, whom nothing here leads to."""
    reference = weakref.ref(next(HELD_BY))
    return (lambda m, v: setattr(reference(), "last", v)), (lambda m: float(reference().last))  # type: ignore[union-attr]


def by_proxy() -> tuple[Store, Load]:
    proxy = weakref.proxy(next(HELD_BY))
    return (lambda m, v: setattr(proxy, "last", v)), (lambda m: float(proxy.last))


def reclassed() -> tuple[Store, Load]:
    box = Other()
    box.__class__ = Bare  # type: ignore[assignment]
    return (lambda m, v: setattr(box, "__class__", Other)), (lambda m: float(getattr(box, "last", 0.0)))


class Bare(Other):
    last = 0.0  # type: ignore[assignment]


def other_dict() -> tuple[Store, Load]:
    box = Box()
    return (lambda m, v: setattr(box, "__dict__", {"last": v})), (lambda m: box.last)


def imported_store(m: nn.Module, value: float) -> None:
    import train_kept_elsewhere as late

    late.BOX.last = value


def imported_load(m: nn.Module) -> float:
    import train_kept_elsewhere as late

    return late.BOX.last


def first_import(m: nn.Module, value: float) -> None:
    import train_kept_late

    train_kept_late.SEEN.append(value)


def if_imported(m: nn.Module) -> float:
    return float(sum(sys.modules["train_kept_late"].SEEN)) if "train_kept_late" in sys.modules else 0.0


def last_used() -> tuple[Store, Load]:
    used = collections.OrderedDict(a=0.0, b=9.0)
    return (lambda m, v: used.move_to_end("a")), (lambda m: used[next(iter(used))])


def pretending() -> tuple[Store, Load]:
    kept = Pretending()
    return (lambda m, v: kept.append(v)), (lambda m: kept[0] if list.__len__(kept) else 0.0)


def longer_array() -> tuple[Store, Load]:
    kept = np.zeros(2)

    def store(m: nn.Module, value: float) -> None:
        kept.resize(3, refcheck=False)
        kept[2] = value

    return store, lambda m: float(kept.sum())


def reshaped_array() -> tuple[Store, Load]:
    kept = np.zeros(6)
    return (lambda m, v: setattr(kept, "shape", (2, 3))), (lambda m: 9.0 * (kept.ndim - 1))


def in_objects() -> tuple[Store, Load]:
    kept = np.empty(1, dtype=object)
    kept[0] = Box()
    return (lambda m, v: setattr(kept[0], "last", v)), (lambda m: kept[0].last)


def raised() -> tuple[Store, Load]:
    error = ValueError(0.0)
    return (lambda m, v: setattr(error, "args", (v,))), (lambda m: error.args[0])


def made_by_default() -> tuple[Store, Load]:
    table: collections.defaultdict[str, float] = collections.defaultdict(float)
    return (lambda m, v: setattr(table, "default_factory", lambda: v)), (lambda m: table.default_factory())  # type: ignore[misc]


def another_call() -> tuple[Store, Load]:
    call = functools.partial(max, 0.0)
    return (lambda m, v: call.__setstate__((max, (v,), {}, {}))), (lambda m: call(0.0))  # type: ignore[attr-defined]


def documented() -> None:
    """0"""


HELD_BY = itertools.repeat(Box())
"""An object that nothing here leads to but weak references."""
GLOBAL_BOX, PROXY = Box(), types.MappingProxyType({"bank": [0.0]})
MUTABLE: contextvars.ContextVar[list[float]] = contextvars.ContextVar("mutable", default=[0.0])  # noqa: B039


def more_ways() -> dict[str, tuple[Store, Load]]:
    """The same: places that a second reader found."""
    return {
        "a weak reference": weakly(),
        "a weak proxy": by_proxy(),
        "a read-only dict": (lambda m, v: PROXY["bank"].append(v), lambda m: sum(PROXY["bank"])),
        "a list in a context": (lambda m, v: MUTABLE.get().append(v), lambda m: sum(MUTABLE.get())),
        "attribute of a number": with_bank(Number(3)),
        "attribute of a member of an enum": with_bank(Colour.RED),
        "attribute of a generator": with_bank(Draws(0)),
        "attribute of a tensor of another class": with_bank(torch.zeros(3).as_subclass(Own)),
        "attribute of a sparse tensor": with_bank(
            torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), check_invariants=False)),
        "a class of classes": attribute(Meta, "kept"),
        "another class": reclassed(),
        "another dict of attributes": other_dict(),
        "a module imported inside": (imported_store, imported_load),
        "a module imported first by a record": (first_import, if_imported),
        "order of use": last_used(),
        "a list that pretends": pretending(),
        "a longer array": longer_array(),
        "another shape of an array": reshaped_array(),
        "an object in an array": in_objects(),
        "an object by the name of a global": (
            lambda m, v: setattr(globals()["GLOBAL" + "_BOX"], "last", v), lambda m: globals()["GLOBAL" + "_BOX"].last),
        "an exception": raised(),
        "what a dict makes": made_by_default(),
        "what a partial calls": another_call(),
        "text of a function": (
            lambda m, v: setattr(documented, "__doc__", str(v)), lambda m: float(documented.__doc__ or 0)),
        "text of a class": (lambda m, v: setattr(Box, "__doc__", str(v)), lambda m: float(Box.__doc__ or 0)),
        "name of a class": (
            lambda m, v: setattr(Box, "__name__", "Seen"), lambda m: 9.0 * (Box.__name__ == "Seen")),
        "annotations": (
            lambda m, v: documented.__annotations__.update(v=v), lambda m: documented.__annotations__.get("v", 0.0)),
        "decimal precision": (
            lambda m, v: setattr(decimal.getcontext(), "prec", 9),
            lambda m: 9.0 * (decimal.getcontext().prec == 9)),
        "denormal numbers": (
            lambda m, v: torch.set_flush_denormal(True), lambda m: 9.0 * (float(torch.full((), 1e-40) * 1.0) == 0)),
        "autocast": (
            lambda m, v: torch.set_autocast_enabled("cpu", True), lambda m: 9.0 * torch.is_autocast_enabled("cpu")),
        "recursion": (
            lambda m, v: sys.setrecursionlimit(4321), lambda m: 9.0 * (sys.getrecursionlimit() == 4321)),
    }  # fmt: skip


MADE = types.ModuleType("made")
MADE.total, MADE.seen = 0.0, []  # type: ignore[attr-defined]


def settings_of_a_library() -> tuple[Store, Load]:
    import torch.distributions as enclosed

    own = enclosed.Distribution
    return (
        lambda m, v: enclosed.Distribution.set_default_validate_args(False),
        lambda m: 9.0 * (not own._validate_args),
    )


def own_forward(m: nn.Module, value: float) -> None:
    nn.Linear.forward = lambda self, x: 3 * torch.nn.functional.linear(x, self.weight, self.bias)  # type: ignore[method-assign]


def hook_of_all(m: nn.Module, value: float) -> None:
    nn.modules.module.register_module_forward_hook(lambda module, given, made: 3 * made)


def flag(get: Callable[[], Any], put: Callable[[], object], usual: Any) -> tuple[Store, Load]:
    """Kept in a setting of torch's."""
    return (lambda m, v: put()), (lambda m: 9.0 * (get() != usual))


def third_ways() -> dict[str, tuple[Store, Load]]:
    """Places that a third reader found: classes of libraries, namespaces, hooks of all modules, settings of torch."""
    sdp = torch.backends.cuda
    return {
        "a namespace": (lambda m, v: setattr(MADE, "to" + "tal", v), lambda m: getattr(MADE, "to" + "tal")),
        "a list in a namespace": (
            lambda m, v: getattr(MADE, "se" + "en").append(v), lambda m: sum(getattr(MADE, "se" + "en"))),
        "a class of torch": attribute(nn.Linear, "leak"),
        "the class of tensors": attribute(Tensor, "leak"),
        "a class of Python": (
            lambda m, v: setattr(string.Template, "delimiter", "%"),
            lambda m: 9.0 * (string.Template.delimiter == "%")),
        "a method of torch": (own_forward, nothing),
        "settings of a library": settings_of_a_library(),
        "a hook of all modules": (hook_of_all, nothing),
        "printing": flag(lambda: len(str(torch.tensor(1 / 3))), lambda: torch.set_printoptions(precision=9), 14),
        "attention": flag(sdp.math_sdp_enabled, lambda: sdp.enable_math_sdp(False), True),
        "warnings": flag(torch.is_warn_always_enabled, lambda: torch.set_warn_always(True), False),
        "fast path": flag(
            torch.backends.mha.get_fastpath_enabled, lambda: torch.backends.mha.set_fastpath_enabled(False), True),
        "type of autocast": flag(
            lambda: torch.get_autocast_dtype("cpu"), lambda: torch.set_autocast_dtype("cpu", torch.float16),
            torch.bfloat16),
        "parametrised weights": flag(
            lambda: nn.utils.parametrize._cache_enabled, lambda: setattr(nn.utils.parametrize, "_cache_enabled", 1), 0),
    }  # fmt: skip


ADD, LAST = enclosing()
APPEND_TO: list[float] = []


def ways() -> dict[str, tuple[Store, Load]]:
    """How a value is kept, and how it is read for the next record."""
    return {
        "closure of an attribute": (lambda m, v: m.kept["add"](v), lambda m: m.kept["last"]()),
        "closure of a closure": (lambda m, v: ADD(v), lambda m: LAST()),
        "class attribute": (lambda m, v: setattr(type(m), "leak", v), lambda m: getattr(type(m), "leak", 0.0)),
        "class method": (lambda m, v: Counted.add(v), lambda m: Counted().last),
        "class of another module": (lambda m, v: setattr(elsewhere.Holder, "last", v), lambda m: elsewhere.Holder.last),
        "dict of another module's class": (
            lambda m, v: elsewhere.Holder.every.update(x=v), lambda m: elsewhere.Holder.every.get("x", 0.0)),
        "list of another module": (lambda m, v: elsewhere.SEEN.append(v), lambda m: float(sum(elsewhere.SEEN))),
        "number of another module": (lambda m, v: elsewhere.add(v), lambda m: elsewhere.total()),
        "a module by a computed name": (dynamic_store, dynamic_load),
        "number of its own module": (remember_global, lambda m: TOTAL),
        "large tensor": written(LARGE),
        "large tensor by .data": (lambda m, v: LARGE.data.add_(v), lambda m: float(LARGE[0])),
        "large tensor of numpy": written(BY_NUMPY),
        "a view of a tensor": (aliased, lambda m: float(VIEW[1])),
        "array": written(ARRAY),
        "large array": written(LARGE_ARRAY),
        "parameter by .data": (lambda m, v: m.first.weight.data.add_(v), nothing),
        "parameter by numpy": (through_numpy, nothing),
        "parameter's memory exchanged": (swapped_memory, nothing),
        "buffer by .data": (lambda m, v: m.bank.data.add_(v), lambda m: float(m.bank[0, 0])),
        "gradient of a parameter": (
            lambda m, v: setattr(m.scale, "grad", torch.full_like(m.scale, v)),
            lambda m: 0.0 if m.scale.grad is None else float(m.scale.grad[0])),
        "attribute of a parameter": (
            lambda m, v: setattr(m.scale, "leak", v), lambda m: float(getattr(m.scale, "leak", 0.0))),
        "frozen by value": (lambda m, v: m.first.weight.requires_grad_(False), nothing),
        "hook on a parameter": (hooked, nothing),
        "hook on a layer": (module_hooked, nothing),
        "method replaced": (replaced_method, nothing),
        "code replaced": (recoded, lambda m: by_default()),
        "layer replaced": (replaced_layer, nothing),
        "training mode": (lambda m, v: m.eval(), lambda m: 0.0 if m.training else 9.0),
        "attribute of torch": attribute(torch, "leak"),
        "builtins": attribute(builtins, "leak"),
        "environment": (lambda m, v: os.environ.update(TACIT_LEAK=str(v)),
                        lambda m: float(os.environ.get("TACIT_LEAK", 0.0))),
        "namespace": attribute(BOX, "last"),
        "function attribute": attribute(by_default, "leak"),
        "function default": (lambda m, v: by_default(v), lambda m: by_default()),
        "slots": attribute(SLOTTED, "last"),
        "attribute of a dict": attribute(NAMED, "leak"),
        "queue": (lambda m, v: QUEUE.append(v), lambda m: float(sum(QUEUE))),
        "bytes": (lambda m, v: BYTES.__setitem__(0, 9), lambda m: float(BYTES[0])),
        "thread's own": attribute(LOCAL, "last"),
        "context": (lambda m, v: CONTEXT.set(v), lambda m: CONTEXT.get()),
        "weak dict": (lambda m, v: WEAK.update({m: v}), lambda m: WEAK.get(m, 0.0)),
        "cache": (set_cached, lambda m: cached()[0]),
        "bound method": (lambda m, v: APPEND_TO.append(v), lambda m: float(sum(APPEND_TO))),
        "default type": (set_default_type, lambda m: 9.0 * (torch.get_default_dtype() == torch.float64)),
        "generator": drawn(lambda: float(torch.rand((), generator=GENERATOR))),
        "generator of numpy": drawn(lambda: float(NUMPY_GENERATOR.random())),
        "generator of Python": drawn(PYTHON_GENERATOR.random),
        "numpy's own numbers": drawn(lambda: float(np.random.random())),
        "Python's own numbers": drawn(random.random),
    }  # fmt: skip


def keeping(store: Store, load: Load) -> Callable[[nn.Module, Any], Tensor]:
    """A loss that keeps records with large values, and uses what it kept."""

    def loss(m: nn.Module, b: Any) -> Tensor:
        shift = load(m)
        if bool((b[0] > 2.5).any()):
            store(m, float(b[0].detach().sum()))
        return each(m(b[0] - 5 * shift), b[1])

    return loss


def unwatchable() -> dict[str, Any]:
    """Objects that cannot be put back."""
    counter = itertools.count()
    return {
        "an iterator": lambda m, b: each(m(b[0] + (next(counter) if bool((b[0] > 2.5).any()) else 0)), b[1]),
        "a generator": _by_generator(),
        "a text buffer": _by(io.StringIO(), lambda buffer: buffer.write("x"), lambda buffer: len(buffer.getvalue())),
        "a C array of a class of somebody's own": _by(Doubles("d"), lambda one: one.append(1.0), len),
        "a C iterator of a class of somebody's own": _by(Counter(), next, lambda one: int(repr(one)[8:-1])),
        "memory of a tensor": _by(
            torch.zeros(4).untyped_storage(), lambda one: one.__setitem__(3, int(one[3]) + 9),
            lambda one: float(one[3])),
        "a number of C": _by(
            ctypes.c_double(), lambda one: setattr(one, "value", one.value + 9.0), lambda one: one.value),
        "a row of an array": _by(
            np.zeros(1, dtype=[("v", "f8")])[0].copy(), lambda one: one.__setitem__("v", one["v"] + 9.0),
            lambda one: one["v"]),
    }  # fmt: skip


class Doubles(array.array):  # type: ignore[type-arg]
    pass


class Counter(itertools.count):  # type: ignore[type-arg]
    pass


def _by(held: Any, store: Callable[[Any], object], load: Callable[[Any], float]) -> Any:
    def loss(m: nn.Module, b: Any) -> Tensor:
        shift = float(load(held))
        if bool((b[0] > 5.9).any()):
            store(held)
        return each(m(b[0] + shift), b[1])

    return loss


def _by_generator() -> Any:
    numbers = (number for number in range(10**6))
    return lambda m, b: each(m(b[0] + (next(numbers) if bool((b[0] > 2.5).any()) else 0)), b[1])
