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
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

SETS = ("manual_seed", "seed", "set_state", "set_offset")
_NOW: ContextVar[Coins | None] = ContextVar("coins", default=None)


class Coins:
    """The coins of one step: drawn by its first part, seen by all."""

    def __init__(self) -> None:
        self.drawn: dict[str, list[Tensor]] = {}
        self.places: dict[str, int] = {}
        self.start: tuple[Any, Any] | None = None

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the step runs here. The numbers of Python and numpy go on behind the first one's."""
        self.places, outside = {}, _states()
        first = self.start is None
        if self.start is None:
            self.start = outside
        else:
            _set(self.start)
        token = _NOW.set(self)
        try:
            yield
        finally:
            _NOW.reset(token)
            if not first:
                _set(outside)

    def next(self, kind: str, draw: Callable[[], Tensor]) -> Tensor:
        """The next coin of a kind; drawn where no part has come so far yet."""
        drawn, place = self.drawn.setdefault(kind, []), self.places.get(kind, 0)
        if place == len(drawn):
            drawn.append(draw())
        self.places[kind] = place + 1
        return drawn[place].clone()


def coin(kind: str, draw: Callable[[], Tensor]) -> Tensor:
    """A coin of the step that runs; outside one, a fresh one. A compiled part would draw its own: it is not traced."""
    coins = _NOW.get()
    found = draw() if coins is None else coins.next(kind, draw)
    if isinstance(found, FakeTensor):
        raise RuntimeError("A random number that all records share cannot be compiled.")
    return found


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
        sys.setprofile(before)
    return any(found)


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
    random.seed(seed)
    np.random.mtrand._rand.seed(seed % 2**32)
    try:
        yield
    finally:
        _set(before)
        _NOW.reset(token)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.mtrand._rand.get_state()


def _set(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.mtrand._rand.set_state(states[1])
