"""Secrets on disk: written whole, readable by their owner alone, and destroyed when the run is over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import BadInput
from ..core.files import content, shown, unwritten
from .packing import packed, unpacked


def write(state: Mapping[str, Any], path: str | Path) -> Path:
    """Mode 0600 from the first byte; a crash leaves the old file or the new one, never a half, never both."""
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


MOST = 2**40
"""Bytes: more than any model that one process trains."""


def destroy(path: str | Path) -> None:
    """Overwrite and remove: the noise of the run must not outlive it."""
    path = Path(path)
    if path.exists():
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
