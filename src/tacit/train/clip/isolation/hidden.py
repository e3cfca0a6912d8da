"""What objects written in C say of themselves, for those whose memory can neither be looked at nor put back.

An iterator that a forward pass advances tells how many passes there were. Its place is read by what `pickle` would be
given, and that of a generator by its frame.
"""

from __future__ import annotations

import functools
import io
import warnings
from collections import deque
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from .alike import alike

DEPTH, LONGEST = 6, 10_000
UNKNOWN = object()


class Hidden:
    """An object of C code. One that does not tell its place counts as moved, if it is an iterator that a model holds.

    Nothing is put back: a model that leads to such an object does not run one record at a time.
    """

    def __init__(self, held: object, *, strict: bool) -> None:
        self.held, self.noted = held, place_of(held)
        self.strict = strict and advances(type(held))  # type: ignore[arg-type]

    def restore(self) -> None:
        """Nothing: an object of C code cannot be put back."""

    def moved(self) -> bool:
        now = place_of(self.held)
        return self.strict if now is UNKNOWN or self.noted is UNKNOWN else not alike(now, self.noted)


@functools.lru_cache(4096)
def advances(kind: type) -> bool:
    """Whether objects of a class are iterators written in C; files are not counted."""
    return hasattr(kind, "__next__") and not kind.__flags__ & (1 << 9) and not issubclass(kind, io.IOBase)


def place_of(value: object, depth: int = DEPTH) -> object:
    """Copy the state that tells how far an object has advanced, so that later calls do not change the copy."""
    if not depth:
        return value
    if isinstance(value, GeneratorType):
        return _frame(value.gi_frame, depth)
    if isinstance(value, CoroutineType):
        return _frame(value.cr_frame, depth)
    if isinstance(value, AsyncGeneratorType):
        return _frame(value.ag_frame, depth)
    if isinstance(value, tuple | list | deque | dict | set):
        return _copied(value, depth)
    if depth < DEPTH and not advances(type(value)):  # type: ignore[arg-type]
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer versions of Python deprecate this for `itertools`
            return place_of(value.__reduce_ex__(4), depth - 1)
    except Exception:  # whatever C code says
        return UNKNOWN


def _frame(frame: Any, depth: int) -> Any:
    if frame is None:
        return ()
    return frame.f_lasti, {name: place_of(one, depth - 1) for name, one in frame.f_locals.items()}


def _copied(value: Any, depth: int) -> object:
    if len(value) > LONGEST:
        return len(value), value
    if isinstance(value, dict):
        return {key: place_of(one, depth - 1) for key, one in value.items()}
    return tuple(value) if isinstance(value, set) else tuple(place_of(one, depth - 1) for one in value)
