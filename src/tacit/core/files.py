"""Files that are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

from .errors import BadInput


def written(path: str | Path, text: str) -> Path:
    """Write beside the file, then put it in its place; what cannot be written is one sentence."""
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise BadInput(f"{path.name} cannot be written.", fix="Give a path in a folder that is there.") from None
    return path
