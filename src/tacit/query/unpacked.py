"""Compressed CSV files that the engine does not unpack itself: it reads their text from memory, never from a copy."""

from __future__ import annotations

import contextlib
import lzma
import os
import shutil
import weakref
import zlib
from pathlib import Path

from ..core.errors import BadInput
from ..core.files import shown
from ..data.csv_file import bytes_of

OWN = (".csv", ".gz")
"""Ends of names that DuckDB reads by itself."""


def readable(path: Path, engine: object) -> Path:
    """The path that the engine reads; the memory behind it is held as long as the engine is."""
    if path.suffix.lower() in OWN:
        return path
    if not hasattr(os, "memfd_create"):
        raise BadInput(f"{shown(path)} cannot be unpacked on this system.", fix="Unpack it, or compress it with gzip.")
    handle = os.memfd_create("tacit", os.MFD_CLOEXEC)
    weakref.finalize(engine, _close, handle)
    try:
        with bytes_of(path) as file, os.fdopen(os.dup(handle), "wb") as memory:
            shutil.copyfileobj(file, memory, 2**20)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        raise BadInput(f"{shown(path)} cannot be read to its end.", fix="Is it a whole file?") from None
    return Path(f"/proc/self/fd/{handle}")


def _close(handle: int) -> None:
    with contextlib.suppress(OSError):
        os.close(handle)
