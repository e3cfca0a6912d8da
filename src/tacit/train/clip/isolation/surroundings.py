"""Run user code for one record, and restore everything that it can reach.

`Reach` finds what the model, the loss and the user's modules lead to, before the record runs. Installed libraries hold
far more than a pass uses, so what their code refers to is found when that code is called. A trace function sees every
call of a Python function before its first line runs, and snapshots what that function refers to. Nothing can have
changed it before, since no code that ran referred to it.

Not covered: `UNCOVERED`. Objects of C libraries that can be advanced or written and not restored (iterators,
generators, files) are `opaque`: a model that can reach one and runs one record at a time is refused. A record may
reach, because of its values, code that no made-up record reached and that refers to such an object. It is stopped there
and contributes nothing.
"""

from __future__ import annotations

import contextvars
import decimal
import gc
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.coins import profiled_by
from .alike import ABSENT, content
from .kinds import foreign, of_the_user
from .memory import Draws, Memory
from .reach import Reach
from .settings import InForce
from .snapshots import Names

T = TypeVar("T")
Called = dict[CodeType, dict[str, Any]]
"""Code of libraries that has been called, with the variables of its module."""
UNCOVERED = (
    "what a model or loss that runs one record at a time keeps from one record for the next in files, other processes "
    "or threads, in memory of C libraries, by what runs when an object is deleted, in handlers of signals, in how many "
    "references or subclasses an object has, in variables of Python's own or of installed libraries that its code does "
    "not name, or where it disables the restoring itself"
)


class Stopped(BaseException):
    """A record reached code that refers to what cannot be restored. Not an Exception, since user code catches those."""


class Surroundings(Reach):
    """The state around some user code as it is now. `run` calls a function and restores all of it."""

    def __init__(self, *roots: object, near: bool = False, called: Called | None = None) -> None:
        """`near`: see `Reach`. `called`: code that earlier runs came to, and that this one adds to."""
        super().__init__(*roots, near=near)
        self.called: Called = {} if called is None else called
        self._codes: set[CodeType] = set()
        self._sought: set[CodeType] = set()
        for code, variables in list(self.called.items()):
            if not code.co_freevars:
                self._known.add(code)
            self._note(code, variables, () if code.co_freevars else self._waiting.pop(code, ()))
        self._memories = [Memory(self._tensors)]
        self.snapshots += [Names(held, frozenset(names)) for held, names in self._named.values()]
        self.snapshots.append(self._memories[0])
        self._modules = frozenset(sys.modules)
        self._seed: int | None = None
        self._met: dict[str, str] = {}
        self._lock = threading.RLock()
        self._stopped = self._over = False

    @property
    def lost(self) -> dict[str, str]:
        """What cannot be restored, by its path: what the roots lead to, and what a run was stopped at."""
        return self.opaque | self._met

    def run(self, seed: int, function: Callable[[], T]) -> T:
        """The function's result, with generators seeded; afterwards all state is restored."""
        with self._entered(seed), decimal.localcontext():
            return contextvars.copy_context().run(self._traced, function)

    def moved_by(self, function: Callable[[], object]) -> str:
        """The name of something that a call of the function changes, empty if nothing; all state is restored."""
        with self._entered(None):
            function()
            return self.otherwise()

    def otherwise(self) -> str:
        """The name of something that has changed since this was made; empty if nothing."""
        for one in (*self.snapshots, *self._own_draws()):
            if isinstance(one, Memory):
                if (tensor := one.written()) is not None:
                    return self.name_of(tensor)
                continue
            if not hasattr(one, "moved"):
                continue
            try:
                found = one.moved()
            except Exception:  # objects that cannot be compared
                found = True
            if found:
                held = getattr(one, "held", None)
                return found if held is None else self.name_of(held, found if isinstance(found, str) else "")
        return ""

    def _own_draws(self) -> list[Draws]:
        """All generators except those of Python and numpy, which start alike for all parts of a step (`Coins`)."""
        return [draws for draws in self.draws if draws.held not in (random._inst, np.random.mtrand._rand)]

    def _traced(self, function: Callable[[], T]) -> T:
        """Call a function while `_call` is told of every Python function that it calls, in threads that it starts too.

        Raises `Stopped` where the function was stopped, even if code in it caught that and went on.
        """
        if self._near:
            return function()
        before, threads, profiler = sys.gettrace(), threading.gettrace(), sys.getprofile()
        self._stopped = self._over = False
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            found = function()
        finally:
            self._over = True
            if self._stopped:
                profiled_by(profiler)
            sys.settrace(before)
            threading.settrace(threads)
        if self._stopped:
            raise Stopped
        return found

    def _call(self, frame: FrameType, event: str, _: object) -> None:
        """Snapshot what a library's code refers to and a function encloses, before it runs for the first time."""
        code = frame.f_code
        if code in self._known or _importing(frame):
            return
        with self._lock:
            self._first(frame, code)

    def _first(self, frame: FrameType, code: CodeType) -> None:
        if not code.co_freevars:
            self._known.add(code)
        own = code not in self._codes and not foreign(str(frame.f_globals.get("__name__", "")))
        waiting = self._waiting.get(code, [])
        here = [one for one in waiting if _runs(one, frame)] or self._unheld(frame, code)
        if own:
            self.called[code] = frame.f_globals
        if not own and not here:
            return
        self._waiting[code] = [one for one in waiting if one not in here]
        if not self._more(lambda: self._note(code, frame.f_globals if own else {}, here)):
            self._known.discard(code)
            if own:
                self._codes.discard(code)
                self.called.pop(code)
            self._waiting[code] = waiting
            self._stop()

    def _unheld(self, frame: FrameType, code: CodeType) -> list[FunctionType]:
        """The function that a frame is a call of, where only C code holds it (an operator's): it may enclose things."""
        if not code.co_freevars or code in self._sought or not _of_the_user_by_name(frame):
            return []
        self._sought.add(code)
        visited = (one for one in self._seen.values() if isinstance(one, FunctionType) and one.__code__ is code)
        if any(_runs(one, frame) for one in visited):
            return []
        held = [one for one in gc.get_referrers(code) if isinstance(one, FunctionType) and id(one) not in self._seen]
        return [one for one in held if one.__code__ is code and _runs(one, frame)]

    def _stop(self) -> None:
        """Raise `Stopped` where a call leads to what cannot be put back. Code that catches it is watched further.

        Python turns off a trace function that raises, so a profile function turns it on again.
        """
        self._stopped = True
        sys.setprofile(self._watch_again)
        raise Stopped

    def _watch_again(self, frame: FrameType, event: str, _: object) -> None:
        sys.settrace(self._call)
        if event == "call" and not self._over:
            self._call(frame, event, None)
        sys.setprofile(None)

    def _note(self, code: CodeType, variables: dict[str, object], functions: Iterable[FunctionType] = ()) -> None:
        """Visit what code names among the variables of its module, and what functions enclose."""
        if variables:
            self._codes.add(code)
            self.names(code, variables)
        for function in functions:
            self.enclosed(function)
        self._walk()

    def _more(self, visit: Callable[[], None]) -> bool:
        """Add what is visited to that which is put back, in the midst of a run.

        If the visit leads to what cannot be put back, all of it is forgotten, and the answer is no. So whatever leads
        there later is stopped as well, whoever was stopped before.
        """
        mark = self._mark()
        before = {key: set(names) for key, (_, names) in self._named.items()}
        with plainly():
            visit()
            if len(self.opaque) == mark["opaque"] and self._added(mark, before):
                return True
            self._met |= dict(list(self.opaque.items())[mark["opaque"] :])
            self._forget(mark, before)
        return False

    def _added(self, mark: dict[str, int], before: dict[int, set[str]]) -> bool:
        """Whether what was visited since a mark is put back from now on; nothing of it is where something resists."""
        memories = len(self._memories)
        try:
            self._add(mark, before)
        except Exception as error:
            self.opaque.setdefault("what a function of a library encloses", type(error).__name__)
            for one in (*self.snapshots[mark["snapshots"] :], *self.draws[mark["draws"] :]):
                with suppress(Exception):
                    one.restore()
            del self._memories[memories:]
            return False
        return True

    def _add(self, mark: dict[str, int], before: dict[int, set[str]]) -> None:
        """Put back from now on what was visited since a mark."""
        for key, (held, names) in self._named.items():
            if new := frozenset(names - before.get(key, set())):
                self.snapshots.append(Names(held, new))
        for array in self._arrays[mark["_arrays"] :]:
            array.enter()
        for one in self.draws[mark["draws"] :]:
            one.seed(self._seed or 0)
        for cache in self.caches[mark["caches"] :]:
            cache.cache_clear()
        if self._tensors[mark["_tensors"] :]:
            self._memories.append(more := Memory(self._tensors[mark["_tensors"] :]))
            self.snapshots.append(more)
            more.enter()

    @contextmanager
    def _entered(self, seed: int | None) -> Iterator[None]:
        self._seed, before = seed, InForce()
        self._empty_caches()
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
            before.restore()
            for snapshot in self.snapshots:
                with suppress(Exception):  # an object that resists; a refusal would tell that a value made it do so
                    snapshot.restore()
            for draws in self.draws:
                draws.restore()
            self._empty_caches()
            self._unload()

    def _empty_caches(self) -> None:
        """Empty what `lru_cache` holds, also for the first record: others must not see that they come later."""
        for cache in self.caches:
            cache.cache_clear()

    def _unload(self) -> None:
        """Unload the user's modules that a record was the first to import; libraries stay loaded."""
        if len(sys.modules) == len(self._modules):
            return
        for name in sys.modules.keys() - self._modules:
            module = sys.modules[name]
            if isinstance(module, ModuleType) and of_the_user(module):
                del sys.modules[name]
                package, _, last = name.rpartition(".")
                if package in sys.modules and vars(sys.modules[package]).get(last) is module:
                    delattr(sys.modules[package], last)


@contextmanager
def plainly() -> Iterator[None]:
    """Run our own code inside the user's, without levels of `torch.func`, modes and settings of torch."""
    levels, functions = torch._C._DisableFuncTorch(), torch._C.DisableTorchFunction()
    with levels, functions, _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield


def _runs(function: FunctionType, frame: FrameType) -> bool:
    """Whether a frame that begins is a call of this function: it encloses the same objects."""
    held = frame.f_locals if function.__closure__ else {}
    cells = zip(frame.f_code.co_freevars, function.__closure__ or (), strict=True)
    return all(held.get(name, ABSENT) is content(cell) for name, cell in cells)


def _importing(frame: FrameType | None) -> bool:
    """Whether code runs because a library is being imported: it then creates what it refers to."""
    last = frame
    while frame is not None and frame.f_code is not Surroundings._traced.__code__:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return not _of_the_user_by_name(last)
        last, frame = frame, frame.f_back
    return False


def _of_the_user_by_name(frame: FrameType | None) -> bool:
    """Whether the code of a frame belongs to a module of the user's."""
    module = sys.modules.get(str(frame.f_globals.get("__name__", ""))) if frame is not None else None
    return isinstance(module, ModuleType) and of_the_user(module)
