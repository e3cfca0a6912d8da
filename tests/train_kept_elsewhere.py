"""A module of somebody's own with variables that a loss may keep records in."""

from __future__ import annotations

from typing import Any, ClassVar

TOTAL = 0.0
SEEN: list[Any] = []


class Holder:
    """Keeps what it is given in its class."""

    last = 0.0
    every: ClassVar[dict[str, float]] = {}


def add(value: float) -> None:
    global TOTAL
    TOTAL += value


def total() -> float:
    return TOTAL


class Box:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.last = 0.0


BOX = Box()
