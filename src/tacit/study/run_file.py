"""`run.toml`: one file that names data, model, plan and what to do with them."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import BadInput

SECTIONS: dict[str, tuple[str, ...]] = {
    "data": ("source", "label", "groups", "members"),
    "model": ("make", "file", "predict", "fit"),
    "plan": ("epsilon", "delta", "epochs", "batch_size", "clip_norm", "adjacency", "rate", "steps", "noise_multiplier",
             "public_size"),
    "train": ("optimizer", "lr", "momentum", "precision", "compile"),
    "attack": ("attacks", "references", "fpr"),
    "audit": ("game", "canary", "runs", "seconds", "confidence"),
    "output": ("folder", "seed"),
}  # fmt: skip


@dataclass(frozen=True)
class RunFile:
    """The sections of a run file, each a plain table with known keys."""

    path: Path
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> RunFile:
        path = Path(path)
        try:
            with path.open("rb") as file:
                found = tomllib.load(file)
        except OSError:
            raise BadInput(f"{path.name} cannot be read.", fix="Give the path of a run.toml.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"{path.name} is not TOML: {str(error).splitlines()[0]}.") from None
        for section, table in found.items():
            _known(section, SECTIONS, "section")
            if not isinstance(table, dict):
                raise BadInput(f"{path.name}: {section} must be a section, [{section}].")
            for key in table:
                _known(key, SECTIONS[section], f"key of [{section}]")
        return cls(path, found)

    def get(self, section: str) -> dict[str, Any]:
        """A section's table; empty when it is absent."""
        return dict(self.sections.get(section, {}))

    def need(self, section: str, key: str) -> Any:
        """A value that must be there."""
        value = self.get(section).get(key)
        if value is None:
            raise BadInput(f"{self.path.name} needs `{key}` in [{section}].")
        return value

    def one_of(self, section: str, keys: tuple[str, ...]) -> str:
        """Which of several keys is given; exactly one must be."""
        given = [key for key in keys if key in self.get(section)]
        if len(given) != 1:
            raise BadInput(f"{self.path.name} needs exactly one of {', '.join(keys)} in [{section}].")
        return given[0]


def _known(name: str, names: Any, what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.0)
        raise BadInput(f"{name!r} is not a {what}.", fix=f"Did you mean {near[0]!r}? Known: {', '.join(names)}.")
