"""Progress of a fleet's training."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Line:
    """A callback for `progress=` that prints how many models are done, and how many per second."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._started = stream or sys.stderr, time.perf_counter()

    def __call__(self, done: int, count: int) -> None:
        rate = done / max(time.perf_counter() - self._started, 1e-9)
        end = "\n" if done == count else "\r"
        self._stream.write(f"{done:,} of {count:,} models, {rate:,.1f} per second{end}")
        self._stream.flush()
