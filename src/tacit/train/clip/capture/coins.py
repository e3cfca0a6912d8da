"""Random draws that are shared by all records, such as LayerDrop's coin or `random.random()` in a model: one per step.

A step may run in several parts, and which part a record is in depends on who else is in the sample. A shared draw
(here: a coin) that were made anew for each part would carry that dependence into the record's contribution. For
example, one more record in front moves one record of every part to the next. So all parts of a step see the same coins.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache, partial
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.overrides import TorchFunctionMode

from .functions import public_coin

T = TypeVar("T")
SHARED = "A random number that all records share cannot be compiled."
BACKWARD = (torch.autograd.graph._engine_run_backward.__code__,)
"""The code object from which torch calls its backward pass."""
SEEDS = "it sets the state of a generator of random numbers"
TWISTER, FIRST = 624, 24
"""Words of a Mersenne Twister, and the byte of torch's state (eight bytes to a word) where they begin."""
MEMORY = ("torch.cuda.memory", "torch.accelerator.memory", "torch.mps", "torch.xpu.memory")
SETS = ("manual_seed", "seed", "set_state", "set_offset")
_NOW: ContextVar[Coins | None] = ContextVar("coins", default=None)


class Coins:
    """The shared random draws of one step, the same in all of its parts.

    `seed` is common to all processes of the run. Without it, a seed is derived from the state of torch's generator at
    the first part, which belongs to this step (`drawn_from`).
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self.drawn: dict[str, list[Tensor]] = {}
        self.places: dict[str, int] = {}

    @contextmanager
    def part(self) -> Iterator[None]:
        """Context for one part of the step, in which the generators of Python and numpy start from the same state.

        Their former state is restored afterwards, because a step without records has no part and would not advance
        them.
        """
        outside, token = _states(), _NOW.set(self)
        self.rewind()
        try:
            yield
        finally:
            _NOW.reset(token)
            _set(outside)

    def rewind(self) -> None:
        """Return to the first coin."""
        if self.seed is None:  # a hash: no number is drawn, so records are given those that they would be given anyway
            state = torch.default_generator.get_state().numpy().tobytes()
            self.seed = int.from_bytes(hashlib.sha256(state).digest()[:7], "little")
        self.places = {}
        _seed(self.seed)

    def next(self, kind: str, draw: Callable[[], Tensor]) -> Tensor:
        """The next coin of a kind; drawn if no earlier part has drawn it."""
        drawn, place = self.drawn.setdefault(kind, []), self.places.get(kind, 0)
        if place == len(drawn):
            drawn.append(self._fresh(draw))
        self.places[kind] = place + 1
        return drawn[place].clone()

    def _fresh(self, draw: Callable[[], Tensor]) -> Tensor:
        """Draw a coin that does not depend on how many numbers were drawn for records, in this process or in others."""
        assert self.seed is not None
        number = sum(map(len, self.drawn.values()))
        with torch.random.fork_rng(devices=devices_in_use()):
            seed_torch(self.seed + number)
            return draw()


@contextmanager
def in_a_step() -> Iterator[None]:
    """Treat the code that runs here as a part of a step, if no part is running."""
    if _NOW.get() is None:
        with Coins().part():
            yield
    else:
        yield


def replayed(run: Callable[[], T]) -> T:
    """Run code for a single record with the coins that all records of the step share, starting at the first.

    Otherwise a record that makes a joint pass raise would change the coins of all others.
    """
    coins = _NOW.get()
    if coins is None:
        return run()
    coins.rewind()
    with Shared():
        return run()


def rewound() -> None:
    """Return to the first coin of the running part, to run it again."""
    coins = _NOW.get()
    if coins is not None:
        coins.rewind()


def from_here() -> Callable[[], AbstractContextManager[None]]:
    """A context that restores the present state of coins and of Python's and numpy's generators, to repeat a part."""
    coins, states = _NOW.get(), _states()
    places = {} if coins is None else dict(coins.places)

    @contextmanager
    def again() -> Iterator[None]:
        outside, before = _states(), {} if coins is None else coins.places
        _set(states)
        if coins is not None:
            coins.places = dict(places)
        try:
            yield
        finally:
            _set(outside)
            if coins is not None:
                coins.places = before

    return again


def rewinding() -> Callable[[], None]:
    """A function that resets coins and the generators of Python and numpy to their present state."""
    coins, states = _NOW.get(), _states()
    places = {} if coins is None else dict(coins.places)

    def back() -> None:
        _set(states)
        if coins is not None:
            coins.places = dict(places)

    return back


class Shared(TorchFunctionMode):
    """A function mode for code that no capture watches: draws that all records share become the step's coins."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return tossed(func, args, kwargs) if public_coin(func, args, kwargs) else func(*args, **kwargs)


def tossed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The coin that replaces a call of a torch function."""
    return coin(f"{func.__name__} {args} {kwargs}", partial(func, *args, **kwargs))


def coin(kind: str, draw: Callable[[], Tensor]) -> Tensor:
    """A coin of the running step; outside of a step, a fresh draw. Not traced: a compiled part would draw its own."""
    coins = _NOW.get()
    if detect_fake_mode() is not None:
        raise RuntimeError(SHARED)
    return draw() if coins is None else coins.next(kind, draw)


@contextmanager
def not_baked_in() -> Iterator[None]:
    """Refuse to trace code that draws from the generators of Python or numpy: a compiled step would repeat the same
    draws.

    If a record's gradient is not finite, the step is repeated without compilation. All other records would then see a
    different coin because of that record.
    """
    traced = detect_fake_mode() is not None
    before = _states() if traced else None
    yield
    if before is not None and not alike(_states(), before):
        raise RuntimeError(SHARED)


def asks_around(run: Callable[[], object]) -> str:
    """Run a call and say what it reads or sets, besides tensors, that depends on a record's position or on the number
    of records.

    That is setting the state of a torch generator, because records would then draw known numbers by their position.
    (Torch's own checkpointing sets states too, and restores them.) Asking how much memory is in use is the other case.
    """
    found = []

    def note(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and isinstance(getattr(function, "__self__", None), torch.Generator):
            if function.__name__ in SETS and not _within(frame, "torch.utils.checkpoint"):
                found.append(SEEDS)
        elif event == "call" and frame.f_globals.get("__name__") in MEMORY and _asked_by_others(frame.f_back):
            found.append(f"it calls {frame.f_code.co_name}, and how much memory is in use tells how many records run")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        profiled_by(before)
    return found[0] if found else ""


def _asked_by_others(frame: FrameType | None) -> bool:
    return frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] != "torch"


def looked_backwards(run: Callable[[], object], look: Callable[[], object]) -> None:
    """Run a pass, and call `look` before and after every Python call that torch's backward pass makes."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "return") and frame.f_back is not None and frame.f_back.f_code in BACKWARD:
            sys.setprofile(None)
            look()
            sys.setprofile(note)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with torch.autograd.set_multithreading_enabled(False):
            run()
    finally:
        profiled_by(before)


def profiled_by(profiler: Any) -> None:
    """Restore a profiler. One written in C (`cProfile`) is not a function and enables itself."""
    sys.setprofile(profiler if callable(profiler) else None)
    if profiler is not None and not callable(profiler):
        profiler.enable()


def _within(frame: FrameType | None, module: str) -> bool:
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("torch.random", "torch.cuda")):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == module


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """For made-up records: seed the generators of Python and numpy, and restore their state afterwards.

    The step's coins are not touched.
    """
    before, token = _states(), _NOW.set(None)
    _seed(seed)
    try:
        yield
    finally:
        _set(before)
        _NOW.reset(token)


class drawn_from:
    """Draw the random numbers of a step from its key: torch's, and, where user code reads records, Python's and
    numpy's. Called without `here`, it seeds the generator of a GPU alone, for work that runs nothing on the CPU.

    The former states are restored afterwards; `restore` does so again, for whoever called a step that Ctrl-C broke off
    on its way out of here. Inside a part, the numbers of Python and numpy are coins. Which numbers a record gets
    (dropout, augmentation) depends on its position in the sample, and so on who else is in it. That reveals nothing as
    long as nobody knows the numbers. A script that calls `torch.manual_seed(0)` would make them known, and one more
    record would change the numbers of all later ones.
    """

    def __init__(self, key: bytes, device: torch.device, *, read: bool) -> None:
        self._key, self._read, self._here = key, read, True
        self._there = torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else None
        self._noted: list[Callable[[], object]] = []

    def __call__(self, *, here: bool = True) -> drawn_from:
        self._here = here
        return self

    def __enter__(self) -> None:
        self._noted = [*self._states()]
        try:
            self._seed()
        except BaseException:
            self.restore()
            raise

    def _states(self) -> Iterator[Callable[[], object]]:
        if self._read:
            yield partial(_set, _states())
        if self._here:
            yield partial(torch.set_rng_state, torch.get_rng_state())
        if self._there is not None:
            yield partial(self._there.set_state, self._there.get_state())

    def _seed(self) -> None:
        if self._here:
            seed_wholly(self._key, read=self._read)
        if self._there is not None:
            self._there.manual_seed(int.from_bytes(self._key[:8], "little") >> 1)

    def __exit__(self, *_: object) -> None:
        self.restore()
        self._noted = []

    def restore(self) -> None:
        """Give the generators the states that they had."""
        for put_back in self._noted:
            put_back()


def seed_wholly(key: bytes, *, read: bool) -> None:
    """Fill torch's generator of the CPU with numbers from a key; with `read`, Python's and numpy's generators too.

    `manual_seed` uses 32 bits of its seed there, and numpy's `seed` takes no more: whoever tries all 2^32 seeds would
    know the numbers.
    """
    torch.default_generator.manual_seed(0)
    state = torch.default_generator.get_state()
    words = np.frombuffer(hashlib.shake_256(b"torch" + key).digest(4 * TWISTER), dtype="<u4")
    state.numpy()[FIRST : FIRST + 8 * TWISTER] = words.astype("<u8").view(np.uint8)
    torch.default_generator.set_state(state)
    if read:
        random.seed(key)
        np.random.mtrand._rand.seed(np.frombuffer(hashlib.shake_256(b"numpy" + key).digest(4 * TWISTER), dtype="<u4"))


def seed_torch(seed: int) -> None:
    """Seed torch as `torch.manual_seed` does; without an accelerator, skip what it queues for one."""
    if _processor_only():
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@cache
def _processor_only() -> bool:
    return not torch.accelerator.is_available()


def devices_in_use() -> list[int]:
    """GPUs whose generators this process has begun to use."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.mtrand._rand.seed(seed % 2**32)


def alike(states: tuple[Any, Any], others: tuple[Any, Any]) -> bool:
    """Whether nothing was drawn from the generators of Python and numpy between two observed states."""
    (kind, numbers, *rest), (other, those, *more) = states[1], others[1]
    return bool(states[0] == others[0] and (kind, rest) == (other, more) and np.array_equal(numbers, those))


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.mtrand._rand.get_state()


def _set(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.mtrand._rand.set_state(states[1])
