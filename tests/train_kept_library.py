"""Stands for an installed library: its functions keep what they are given in variables that only they name."""

from __future__ import annotations

import itertools
from collections.abc import Callable

SEEN: list[float] = []
TOTAL = 0.0
COUNTER = itertools.count()


def remember(value: float) -> None:
    global TOTAL
    SEEN.append(value)
    TOTAL += value


def remembered() -> float:
    return TOTAL + sum(SEEN)


def counted() -> float:
    return float(next(COUNTER))


def counted_twice() -> float:
    return 2 * float(next(COUNTER))


def enclosing() -> tuple[Callable[[float], None], Callable[[], float]]:
    last = 0.0

    def put(value: float) -> None:
        nonlocal last
        last = value

    return put, lambda: last


PUT, GET = enclosing()
