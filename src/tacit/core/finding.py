"""What an attack on a release found, in a sentence and in figures; never with a person's value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import BadInput
from .json_text import Json

SEVERE, NOTABLE, NONE = "severe", "notable", "none"
SEVERITIES = (SEVERE, NOTABLE, NONE)


@dataclass(frozen=True)
class Finding:
    """One attack and its outcome. `severity`: severe (people are disclosed), notable, none."""

    attack: str
    sentence: str
    severity: str
    figures: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise BadInput(f"a finding is {', '.join(SEVERITIES[:-1])} or {SEVERITIES[-1]}")

    def to_json(self) -> Json:
        return {
            "attack": self.attack,
            "sentence": self.sentence,
            "severity": self.severity,
            "figures": dict(self.figures),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Finding:
        return cls(str(data["attack"]), str(data["sentence"]), str(data["severity"]), dict(data["figures"]))


def worst(findings: tuple[Finding, ...]) -> Finding | None:
    """The first of the most severe ones."""
    return min(findings, key=lambda item: SEVERITIES.index(item.severity), default=None)
