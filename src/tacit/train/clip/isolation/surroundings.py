"""Run user code for one record, and put everything that it can reach back as it was.

`Reach` finds what the model, the loss and the user's modules lead to, before the record runs. Installed libraries hold
far more than a pass uses, so what their code names is found when that code is called. A trace function sees every call
of a Python function before its first line runs, and notes what that function names. Nothing can have changed it before,
since none of the code that ran named it.

Not held: `UNCOVERED`. Objects of C libraries that can be advanced or written and not put back (iterators, generators,
files) are `opaque`: a model that leads to one and runs one record at a time is refused. A record whose values lead to
code that no made-up record came to, and that names such an object, is stopped there and contributes nothing.
"""

from __future__ import annotations

import contextvars
import decimal
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from .kinds import foreign, of_the_user
from .memory import Draws, Memory
from .reach import Reach
from .snapshots import ABSENT, Names, content

T = TypeVar("T")
Called = dict[CodeType, dict[str, Any]]
"""Code of libraries that has been called, with the variables of its module."""
UNCOVERED = (
    "what a model or loss that runs one record at a time keeps from one record for the next in files, other processes "
    "or threads, in memory of C libraries, by what runs when an object is deleted, in variables of Python's own or of "
    "installed libraries that its code does not name, or where it disables the restoring itself"
)


class Stopped(BaseException):
    """A record led to code that names what cannot be put back. Not an Exception, since user code catches those."""


class Surroundings(Reach):
    """The state around some user code as it is now. `run` calls a function and puts all of it back."""

    def __init__(self, *roots: Any, near: bool = False, called: Called | None = None) -> None:
        """`near`: see `Reach`. `called`: code that earlier runs came to, and that this one adds to."""
        super().__init__(*roots, near=near)
        self.called: Called = {} if called is None else called
        self._codes: set[CodeType] = set()
        for code, variables in list(self.called.items()):
            if not code.co_freevars:
                self._known.add(code)
            self._note(code, variables, () if code.co_freevars else self._waiting.pop(code, ()))
        self._memories = [Memory(self._tensors)]
        self.snapshots += [Names(held, frozenset(names)) for held, names in self._named.values()]
        self.snapshots.append(self._memories[0])
        self._modules = frozenset(sys.modules)
        self._seed: int | None = None

    def run(self, seed: int, function: Callable[[], T]) -> T:
        """The function's result, with generators that start from the seed; afterwards all is as it was."""
        with self._entered(seed), decimal.localcontext():
            return contextvars.copy_context().run(self._traced, function)

    def moved_by(self, function: Callable[[], object]) -> bool:
        """Whether a call of the function leaves something otherwise than it was; afterwards all is as it was."""
        with self._entered(None):
            function()
            try:
                return any(one.moved() for one in (*self.snapshots, *self._own_draws()) if hasattr(one, "moved"))
            except Exception:  # objects that cannot be compared
                return True

    def _own_draws(self) -> list[Draws]:
        """Generators but for Python's and numpy's own, which start alike for all parts of a step (`Coins`)."""
        return [draws for draws in self.draws if draws.held not in (random._inst, np.random.mtrand._rand)]

    def _traced(self, function: Callable[[], T]) -> T:
        """Call a function while `_call` is told of every Python function that is called in this thread."""
        if self._near:
            return function()
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            return function()
        finally:
            sys.settrace(before)

    def _call(self, frame: FrameType, event: str, _: Any) -> None:
        """Note what the code of a library names, and what the function encloses, before it runs for the first time."""
        code = frame.f_code
        if code in self._known or _importing(frame):
            return
        if not code.co_freevars:
            self._known.add(code)
        own = code not in self._codes and not foreign(str(frame.f_globals.get("__name__", "")))
        waiting = self._waiting.get(code, [])
        here = [one for one in waiting if _runs(one, frame)]
        if own:
            self.called[code] = frame.f_globals
        if own or here:
            self._waiting[code] = [one for one in waiting if one not in here]
            self._more(lambda: self._note(code, frame.f_globals if own else {}, here))

    def _note(self, code: CodeType, variables: dict[str, Any], functions: Iterable[FunctionType] = ()) -> None:
        """Visit what code names among the variables of its module, and what functions enclose."""
        if variables:
            self._codes.add(code)
            self.names(code, variables)
        for function in functions:
            self.enclosed(function)
        self._walk()

    def _more(self, visit: Callable[[], None]) -> None:
        """Add what is visited to that which is put back, in the midst of a run."""
        known, arrays, draws, tensors = len(self.opaque), len(self._arrays), len(self.draws), len(self._tensors)
        before = {key: set(names) for key, (_, names) in self._named.items()}
        visit()
        for key, (held, names) in self._named.items():
            if new := frozenset(names - before.get(key, set())):
                self.snapshots.append(Names(held, new))
        for array in self._arrays[arrays:]:
            array.enter()
        for one in self.draws[draws:]:
            one.seed(self._seed or 0)
        if self._tensors[tensors:]:
            self._memories.append(more := Memory(self._tensors[tensors:]))
            self.snapshots.append(more)
            more.enter()
        if len(self.opaque) > known:
            raise Stopped

    @contextmanager
    def _entered(self, seed: int | None) -> Iterator[None]:
        self._seed = seed
        for memory in self._memories:
            memory.enter()
        for array in self._arrays:
            array.enter()
        if seed is not None:
            for draws in self.draws:
                draws.seed(seed)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
                yield
        finally:
            for snapshot in self.snapshots:
                with suppress(Exception):  # an object that resists; a refusal would tell that a value made it do so
                    snapshot.restore()
            for draws in self.draws:
                draws.restore()
            for cache in self.caches:
                cache.cache_clear()
            self._unload()

    def _unload(self) -> None:
        """Forget modules of the user's that a record was the first to import; libraries stay loaded."""
        if len(sys.modules) == len(self._modules):
            return
        for name in sys.modules.keys() - self._modules:
            module = sys.modules[name]
            if isinstance(module, ModuleType) and of_the_user(module):
                del sys.modules[name]
                package, _, last = name.rpartition(".")
                if package in sys.modules and vars(sys.modules[package]).get(last) is module:
                    delattr(sys.modules[package], last)


def _runs(function: FunctionType, frame: FrameType) -> bool:
    """Whether a frame that begins is a call of this function: it encloses the same objects."""
    held = frame.f_locals if function.__closure__ else {}
    cells = zip(frame.f_code.co_freevars, function.__closure__ or (), strict=True)
    return all(held.get(name, ABSENT) is content(cell) for name, cell in cells)


def _importing(frame: FrameType | None) -> bool:
    """Whether code runs because a library is loaded for the first time: it then makes what it names."""
    while frame is not None and frame.f_code is not Surroundings._traced.__code__:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False
