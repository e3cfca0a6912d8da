"""Snapshots of objects of C code that keep a little state and let themselves be told: locks, structs and dtypes."""

from __future__ import annotations

from _thread import LockType, RLock
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any

import numpy as np

PATIENCE = 0.05
"""Seconds for which another thread may hold a lock before it counts as left locked."""


class Value:
    """What a C object keeps and lets itself be told: `get` reads it, `put` sets it."""

    def __init__(self, held: Any, get: Callable[[], Any], put: Callable[[Any], object]) -> None:
        self.held, self.get, self.put = held, get, put
        self.noted = get()

    def restore(self) -> None:
        if self.moved():
            self.put(self.noted)

    def moved(self) -> bool:
        return bool(self.get() != self.noted)


class Locked:
    """Whether a lock is taken. Where another thread is just using it, that thread is waited for."""

    def __init__(self, held: LockType) -> None:
        self.held, self.noted = held, _is_left_locked(held)

    def restore(self) -> None:
        if self.moved():
            self.held.acquire(blocking=False) if self.noted else self.held.release()

    def moved(self) -> bool:
        return not self.held.locked() if self.noted else _is_left_locked(self.held)


def _is_left_locked(lock: LockType) -> bool:
    if lock.locked() and lock.acquire(timeout=PATIENCE):
        lock.release()
    return lock.locked()


def kept_by_c(value: Any) -> Value | Locked | None:
    """The state of a lock, of a compiled struct or of a structured dtype; None for anything else."""
    if isinstance(value, LockType):
        return Locked(value)
    if isinstance(value, RLock):
        return Value(value, lambda: _times(value), partial(_take, value))
    if isinstance(value, Struct):
        return Value(value, lambda: value.format, lambda text: Struct.__init__(value, text))
    if isinstance(value, np.dtype) and value.names is not None:
        return Value(value, lambda: value.names, lambda names: setattr(value, "names", names))
    return None


def _times(lock: RLock) -> int:
    """How often this thread holds a lock."""
    if not lock._is_owned():  # type: ignore[attr-defined]
        return 0
    state = lock._release_save()  # type: ignore[attr-defined]
    lock._acquire_restore(state)  # type: ignore[attr-defined]
    return int(state[0])


def _take(lock: RLock, times: int) -> None:
    for _ in range(_times(lock) - times):
        lock.release()
    for _ in range(times - _times(lock)):
        lock.acquire(blocking=False)
