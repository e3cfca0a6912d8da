"""Random numbers that no record has a part in: LayerDrop's coin, a `random.random()` in a model. One for a whole step.

A step may run in several parts, and which of them a record is in hangs on who else is in the sample. A coin that fell
anew for each part would carry that into the record's contribution: with one more record in front, one record of every
part moves to the next. So all parts of a step see the same coins.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._guards import detect_fake_mode

SETS = ("manual_seed", "seed", "set_state", "set_offset")
_NOW: ContextVar[Coins | None] = ContextVar("coins", default=None)


class Coins:
    """The coins of one step: drawn by its first part, seen by all. `seed`: one that all processes of the run share."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self.drawn: dict[str, list[Tensor]] = {}
        self.places: dict[str, int] = {}
        self.start: tuple[Any, Any] | None = None

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the step runs here. Python's and numpy's own numbers start alike in all parts."""
        self.places, outside = {}, _states()
        ambient = self.start is None and self.seed is None
        if self.seed is not None:
            _seed(self.seed)
        elif self.start is not None:
            _set(self.start)
        self.start = self.start or outside
        token = _NOW.set(self)
        try:
            yield
        finally:
            _NOW.reset(token)
            if not ambient:  # alone, numbers go on behind the first part's
                _set(outside)

    def next(self, kind: str, draw: Callable[[], Tensor]) -> Tensor:
        """The next coin of a kind; drawn where no part has come so far yet."""
        drawn, place = self.drawn.setdefault(kind, []), self.places.get(kind, 0)
        if place == len(drawn):
            drawn.append(self._fresh(draw))
        self.places[kind] = place + 1
        return drawn[place].clone()

    def _fresh(self, draw: Callable[[], Tensor]) -> Tensor:
        """Another process has drawn other numbers for its records by now, and must see the same coin."""
        if self.seed is None:
            return draw()
        number = sum(map(len, self.drawn.values()))
        with torch.random.fork_rng(devices=_devices()):
            seed_torch(self.seed + number)
            return draw()


def coin(kind: str, draw: Callable[[], Tensor]) -> Tensor:
    """A coin of the step that runs; outside one, a fresh one. A compiled part would draw its own: it is not traced."""
    coins = _NOW.get()
    if detect_fake_mode() is not None:
        raise RuntimeError("A random number that all records share cannot be compiled.")
    return draw() if coins is None else coins.next(kind, draw)


def seeds(run: Callable[[], object]) -> bool:
    """Whether a call sets the state of a generator of torch's: records would draw by their place, and all know what.

    Torch's own checkpointing sets states too, and puts them back.
    """
    found = []

    def note(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and isinstance(getattr(function, "__self__", None), torch.Generator):
            found.append(function.__name__ in SETS and not _within(frame, "torch.utils.checkpoint"))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        _profiled_by(before)
    return any(found)


def _profiled_by(profiler: Any) -> None:
    """Put a profiler back. One written in C (`cProfile`) is no function, and turns itself on."""
    sys.setprofile(profiler if callable(profiler) else None)
    if profiler is not None and not callable(profiler):
        profiler.enable()


def _within(frame: FrameType | None, module: str) -> bool:
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("torch.random", "torch.cuda")):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == module


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """For made-up records: Python's and numpy's own numbers start from a seed, and go on afterwards where they were.

    The step's coins are left alone meanwhile.
    """
    before, token = _states(), _NOW.set(None)
    _seed(seed)
    try:
        yield
    finally:
        _set(before)
        _NOW.reset(token)


@contextmanager
def drawn_from(key: bytes, device: torch.device, *, read: bool) -> Iterator[None]:
    """Random numbers of a step come from its key: torch's, and where records are `read` by code of the user's, Python's
    and numpy's; afterwards they go on as before. Inside a part, Python's and numpy's are coins.

    Which numbers a record is given (dropout, augmentation) follows from its place in the sample, so from who else is in
    it. That tells nothing if nobody knows the numbers. A script that calls `torch.manual_seed(0)` makes them known, and
    one record more would then change what all later ones are given.
    """
    seed = int.from_bytes(key[:8], "little") >> 1
    before, place = _states() if read else None, torch.get_rng_state()
    generator = torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else None
    there = None if generator is None else generator.get_state()
    if read:
        _seed(seed)
    torch.default_generator.manual_seed(seed)
    if generator is not None:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        if before is not None:
            _set(before)
        torch.set_rng_state(place)
        if generator is not None and there is not None:
            generator.set_state(there)


def seed_torch(seed: int) -> None:
    """What `torch.manual_seed` does; without an accelerator, none of what it notes for when there is one."""
    if _processor_only():
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@cache
def _processor_only() -> bool:
    return not torch.accelerator.is_available()


def _devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.mtrand._rand.seed(seed % 2**32)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.mtrand._rand.get_state()


def _set(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.mtrand._rand.set_state(states[1])
