"""TOML that anybody may have written: read within limits, and whatever is wrong is one sentence with its place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from .errors import BadInput
from .files import shown, text

MOST = 2**22
"""Bytes: a run file has some hundred, a schema of ten thousand columns less than this."""
DEPTH = 20
LARGEST = 2**63
"""TOML's whole numbers have 64 bits."""


def read_toml(path: str | Path, *, fix: str = "") -> dict[str, Any]:
    """The tables of a TOML file of at most `MOST` bytes."""
    path = Path(path)
    name, body = shown(path), text(path, MOST, fix=fix)
    try:
        found = tomllib.loads(body)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name} is not TOML: {str(error).splitlines()[0][:200]}.") from None
    except (ValueError, RecursionError, OverflowError):
        raise BadInput(f"{name} is not TOML that can be used: a number is too long, or values nest too deep.") from None
    _check(found, name, "", 0)
    return found


def _check(value: object, name: str, place: str, depth: int) -> None:
    if depth > DEPTH:
        raise BadInput(f"{name}: values nest more than {DEPTH} deep at {place[:80]}.")
    if type(value) is int and abs(value) >= LARGEST:
        raise BadInput(f"{name}: {place[:80]} is a whole number of more than 64 bits.")
    if isinstance(value, dict):
        for key, item in value.items():
            _check(item, name, f"{place}.{shown(key)}".lstrip("."), depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, name, place, depth + 1)
