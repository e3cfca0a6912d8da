"""Write secrets to disk atomically, readable by their owner only, and destroy them when the run is over."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import BadInput
from ..core.files import content, shown, unwritten
from .packing import packed, unpacked


def write(state: Mapping[str, object], path: str | Path) -> Path:
    """Write atomically, with mode 0600 from the first byte: a crash leaves the old file or the new one."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    with unwritten(path, partial):
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            for part in packed(state):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    return path


def read(path: str | Path) -> dict[str, Any]:
    """Read what `write` wrote; only tensors and plain values, under a checksum, are accepted."""
    path = Path(path)
    try:
        return unpacked(content(path, MOST), shown(path))
    except BadInput as error:
        keep = "It was left as it is; remove it only if its run is not to be resumed."
        raise BadInput(error.message, fix=f"{error.fix} {keep}".strip()) from None


GONE = ".gone"
CHUNK = 2**20
MOST = 2**40
"""An upper limit in bytes, larger than any model that one process trains."""


def destroy(path: str | Path) -> None:
    """Overwrite and remove the file: the noise of the run must not outlive it.

    It is renamed first, so that a half-overwritten file is never taken for a checkpoint.
    """
    path = Path(path)
    forget(path)
    if path.exists():
        path.replace(path.with_name(path.name + GONE))
        forget(path)


def forget(path: Path) -> None:
    """Remove what is left of a checkpoint whose destruction was interrupted."""
    path = path.with_name(path.name + GONE)
    if path.exists():
        with contextlib.suppress(OSError), path.open("r+b") as file:
            left = path.stat().st_size
            while left > 0:
                left -= file.write(bytes(min(left, CHUNK)))
            file.flush()
            os.fsync(file.fileno())
        path.unlink(missing_ok=True)  # another process of the run may have done so meanwhile
