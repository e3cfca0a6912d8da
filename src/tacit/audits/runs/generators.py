"""Generators of random numbers that somebody's training keeps: each run starts them afresh, from words of its own.

A module that holds `RNG = np.random.default_rng()` is common, and correct. But workers are forked: all of them begin
with the same state, in every call, and draw the same noise. Runs would not be independent, and a true claim would be
refuted. So what a task reaches is searched for generators: closures, globals of the modules of its code, attributes,
containers. Libraries are left alone: theirs are the ambient ones, which are started afresh by name.

Two things follow. Runs in the caller's own process would leave these generators at numbers that the audit's seed, or
this code, makes known. The caller may draw real noise from them afterwards, so their states are given back. And a
generator with a fixed seed is hidden by a fresh start, so it is counted and the evidence names it.
"""

from __future__ import annotations

import functools
import gc
import random
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

MOST = 20_000
"""Objects that are looked at: those near the training come first."""
LONGEST = 1000
"""Items of a container that are looked at."""
PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), np.generic, np.dtype)
"""What holds no generator, or is data."""
ENTROPY = 1 << 96, 1 << 48
"""Seeds below these, of NumPy and of torch, were written down: the machine's entropy has 128 and 64 bits."""
BUILT_IN = "builtins", "functools", "itertools"
"""Modules of kinds that keep what they hold out of sight of Python: suspended generators, iterators, caches, static
methods. The garbage collector knows what they hold."""
NO_STATE = TypeError, ValueError, AttributeError, NotImplementedError
"""What generators raise that have no state, or one of a kind that we do not know."""
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class _Same:
    """An object as a key: equal to itself alone, whatever its own class says."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def generators(task: object) -> tuple[object, ...]:
    """Every generator that a task reaches, the nearest first; a forked worker inherits what was found."""
    return _found(_Same(task))


@functools.lru_cache(maxsize=2)
def _found(key: _Same) -> tuple[Any, ...]:
    task = key.held
    home = _home(task)
    waiting, seen, found = deque([task]), {id(task)}, []
    while waiting and len(seen) < MOST:
        item = waiting.popleft()
        if _draws(item):
            found.append(item)
            continue
        with suppress(Exception):  # somebody's attributes may raise anything
            for part in _parts(item, home):
                if id(part) not in seen and not isinstance(part, PLAIN):
                    seen.add(id(part))
                    waiting.append(part)
    return tuple(found)


def started_afresh(task: object, words: tuple[int, ...]) -> None:
    """Start all generators of a task from the words of a run."""
    for place, item in enumerate(generators(task)):
        sequence = np.random.SeedSequence([*words, place])
        with suppress(*NO_STATE):
            _start(item, sequence)


@contextmanager
def given_back(task: object) -> Iterator[None]:
    """Restore the states of a task's generators, and of the ambient ones, after runs in this process."""
    before = [restore for item in (*generators(task), *_ambient()) if (restore := _restore(item)) is not None]
    without = "torch" not in sys.modules
    try:
        yield
    finally:
        for restore in before:
            restore()
        if without and "torch" in sys.modules:  # imported by a run: there is no state to go back to
            sys.modules["torch"].seed()


def fixed(task: Any) -> int:
    """How many generators of a task were started from a seed that somebody wrote down; of NumPy and torch.

    Asked before the first run: torch forgets the seed of a generator that is started afresh.
    """
    return sum(_written_down(item) for item in generators(task))


def _written_down(item: Any) -> bool:
    numpy, torch = ENTROPY
    if isinstance(item, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence):
        words = getattr(_seeds(item), "entropy", None)
        found = np.atleast_1d(np.asarray(0 if words is None else words, dtype=object)).ravel().tolist()
        return words is not None and sum(int(word) << (32 * place) for place, word in enumerate(found)) < numpy
    if isinstance(item, random.Random | np.random.RandomState):
        return False  # they do not keep their seed
    return int(item.initial_seed()) < torch


def _ambient() -> list[object]:
    """The generators that libraries draw from."""
    torch = sys.modules.get("torch")
    found = [random._inst, np.random.mtrand._rand]
    if torch is None:
        return found
    devices = torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    return [*found, torch.default_generator, *devices]


def _restore(item: Any) -> Callable[[], object] | None:
    """How to put a generator back to where it is now."""
    with suppress(*NO_STATE):
        if isinstance(item, random.Random):
            return functools.partial(item.setstate, item.getstate())
        if isinstance(item, np.random.SeedSequence):
            return functools.partial(item.__init__, **item.state)  # type: ignore[misc]
        if isinstance(item, np.random.Generator | np.random.BitGenerator):
            bits = item.bit_generator if isinstance(item, np.random.Generator) else item
            state, seeds = functools.partial(setattr, bits, "state", bits.state), _seeds(bits)
            more = None if seeds is None else _restore(seeds)
            return lambda: (state(), more and more())
        return functools.partial(item.set_state, item.get_state())
    return None


def _start(item: Any, sequence: np.random.SeedSequence) -> None:
    if isinstance(item, random.Random):
        item.seed(int.from_bytes(sequence.generate_state(8).tobytes(), "little"))
    elif isinstance(item, np.random.RandomState):
        item.seed(sequence.generate_state(8))
    elif isinstance(item, np.random.SeedSequence):
        item.__init__(sequence.generate_state(8).tolist())  # type: ignore[misc]
    elif isinstance(item, np.random.Generator | np.random.BitGenerator):
        bits = item.bit_generator if isinstance(item, np.random.Generator) else item
        bits.state = type(bits)(sequence).state
        if (seeds := _seeds(bits)) is not None:  # children that a run spawns come from these
            _start(seeds, sequence.spawn(1)[0])
    else:
        item.manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def _seeds(item: object) -> np.random.SeedSequence | None:
    """The seeds that children of a generator are spawned from, or None for a kind that we do not know."""
    bits = item.bit_generator if isinstance(item, np.random.Generator) else item
    found = bits if isinstance(bits, np.random.SeedSequence) else getattr(bits, "seed_seq", None)
    return found if isinstance(found, np.random.SeedSequence) else None


def _draws(item: object) -> bool:
    torch = sys.modules.get("torch")
    numpy = np.random.Generator, np.random.BitGenerator, np.random.RandomState, np.random.SeedSequence
    kinds = random.Random, *numpy
    return isinstance(item, kinds) or (torch is not None and isinstance(item, torch.Generator))


def _parts(item: object, home: str) -> Iterator[Any]:
    """What one object holds."""
    if isinstance(item, FunctionType):
        yield from (cell.cell_contents for cell in item.__closure__ or () if _filled(cell))
        yield from (*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values(), *vars(item).values())
        if not _library(item.__module__, home):
            yield from _names(item.__globals__)
    elif isinstance(item, ModuleType):
        yield from () if _library(item.__name__, home) else _names(vars(item))
    elif isinstance(item, MethodType):
        yield from (item.__self__, item.__func__)
    elif isinstance(item, functools.partial):
        yield from (item.func, *item.args, *item.keywords.values())
    elif isinstance(item, dict):
        yield from (*_some(item.values()), *_some(item))
    elif isinstance(item, list | tuple | set | frozenset | deque):
        yield from _some(item)
    elif isinstance(item, type):
        yield from () if _library(item.__module__, home) else [*vars(item).values(), *item.__bases__, type(item)]
    elif isinstance(item, np.ndarray):
        yield from _some(item.ravel()) if item.dtype.hasobject else ()
    elif isinstance(item, ContextVar):
        yield item.get(None)
    elif type(item).__module__ in BUILT_IN:
        yield from gc.get_referents(item)
    else:
        yield from list(getattr(item, "__dict__", {}).values())
        slots = (name for kind in type(item).__mro__ for name in _slots(kind))
        yield from (getattr(item, name) for name in slots if hasattr(item, name))
        yield type(item)


def _slots(kind: type) -> Iterator[str]:
    """Names of a class's slots, as attributes: private ones carry the name of the class."""
    names = vars(kind).get("__slots__", ())
    for name in (names,) if isinstance(names, str) else names:
        private = name.startswith("__") and not name.endswith("__")
        yield f"_{kind.__name__.lstrip('_')}{name}" if private else name


def _names(table: dict[str, object]) -> list[Any]:
    """What a module holds, without what the import system keeps there: loaders may reach everybody's modules."""
    return [value for name, value in list(table.items()) if not name.startswith("__")]


def _some(items: Iterable[object]) -> list[object]:
    return [item for item, _ in zip(items, range(LONGEST), strict=False)]


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _home(task: object) -> str:
    """The package that a training comes from; what this package puts around it is taken off."""
    while (top := _top(task)) == "tacit":
        inner = getattr(task, "task", None) or getattr(task, "fit", None)
        if inner is None:
            break
        task = inner
    return top


def _top(item: object) -> str:
    return str(getattr(item, "__module__", None) or type(item).__module__).partition(".")[0]


def _library(name: str | None, home: str) -> bool:
    """Whether a module belongs to a library, and not to whoever wrote the training."""
    top = str(name).partition(".")[0]
    if top in ("__main__", home) and top != "tacit":
        return False
    file = getattr(sys.modules.get(str(name)), "__file__", None)
    return top == "tacit" or file is None or str(file).startswith(_LIBRARIES)
