"""Secrets on disk: written whole, readable by their owner alone, and destroyed when the run is over."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from ..core import BadInput


def write(state: dict[str, Any], path: str | Path) -> Path:
    """Mode 0600 from the first byte; a crash leaves the old file or the new one, never a half."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return path


def read(path: str | Path) -> dict[str, Any]:
    """Read what `write` wrote; only tensors and plain values are accepted."""
    path = Path(path)
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, EOFError, struct.error, UnpicklingError):
        raise BadInput(f"{path.name} is not a checkpoint.", fix="Remove it to start anew.") from None
    if not isinstance(state, dict):
        raise BadInput(f"{path.name} is not a checkpoint.", fix="Remove it to start anew.")
    return state


def destroy(path: str | Path) -> None:
    """Overwrite and remove: the noise of the run must not outlive it."""
    path = Path(path)
    if path.exists():
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
