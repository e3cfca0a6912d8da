"""The verb and settings of an unfinished run, so that no other run resumes or deletes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from .errors import BadInput, clean
from .files import content, written
from .json_text import parsed
from .lines import stamped, unstamped

FILE = "settings.json"
MOST = 2**24
Settings = Mapping[str, object]
"""Public values by dotted names ("train.schedule"): they are shown in messages."""


def keep_settings(folder: Path, verb: str, settings: Settings) -> None:
    """Write what the run in `folder` is, under a checksum."""
    written(folder / FILE, stamped({"verb": verb, "settings": dict(settings)}) + "\n", 0o600)


def kept_settings(folder: Path) -> dict[str, object] | None:
    """What the run in `folder` is; None where the file is absent or damaged."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return unstamped(bytes(content(path, MOST)).strip())
    except BadInput:
        return None


def check_settings(kept: Mapping[str, object], settings: Settings) -> None:
    """Refuse to go on under other settings than the run began with, by name."""
    before, now = kept.get("settings"), parsed(json.dumps(dict(settings)), "settings")
    if not isinstance(before, dict) or not isinstance(now, dict):
        return
    differ = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if differ:
        told = "; ".join(f"{name} was {_value(before, name)} and is now {_value(now, name)}" for name in differ[:5])
        raise BadInput(
            f"The run that did not end has other settings: {told}.", fix="Repeat the settings that it began with."
        )


def _value(settings: Mapping[str, object], name: str) -> str:
    return "absent" if name not in settings else clean(json.dumps(settings[name]))[:60]
