"""The engine that draws charts: taken where it is installed and the operating system leaves it room.

It holds a JavaScript engine, which reserves far more addresses than it uses. Under a limit such as `ulimit -v` it gets
none and ends the whole process. So the limit is checked first, and a refusal is one sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core import MissingExtra, NotFinished

RESERVED = 66 * 2**30
"""Bytes of addresses: measured 64.2 GiB with vl-convert 1.9 on Linux, whatever is drawn."""


def engine() -> Any:
    """The renderer of charts (vl-convert), or one sentence on why there is none."""
    limit = _limit()
    if limit is not None and limit - _taken() < RESERVED:
        raise NotFinished(
            f"Charts cannot be drawn under a limit of {limit / 2**30:.0f} GiB of addresses: their engine reserves "
            f"{RESERVED // 2**30}.",
            fix="Lift it with `ulimit -v unlimited`; a limit on memory itself may stay.",
        )
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise MissingExtra("report") from None
    except ImportError:  # it is there; what the operating system says of it may hold paths
        raise NotFinished("vl-convert, which draws charts, is installed and cannot be loaded.") from None
    return vl_convert


def _limit() -> int | None:
    """The most addresses that this process may have; None where there is no limit, or no such thing."""
    try:
        import resource
    except ImportError:
        return None
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _taken() -> int:
    """How many bytes of addresses this process has taken; 0 where the system does not tell."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return pages * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
