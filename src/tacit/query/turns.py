"""One question at a time on each connection: engines mix up, or wait for ever, where threads share one."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_TURNS: dict[int, object] = {}
_GUARD = threading.Lock()


def turn(backend: object) -> Any:
    """The lock of a connection. ibis takes connections for equal that are not the same, so it goes by the object."""
    with _GUARD:
        if (found := _TURNS.get(id(backend))) is None:
            found = _TURNS[id(backend)] = threading.RLock()
            weakref.finalize(backend, _TURNS.pop, id(backend), None)
        return found
