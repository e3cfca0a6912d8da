"""Usual faults of private training, and the chance that an audit would have refuted a claim for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import BadInput
from .interval import Estimate

FAULTS = (
    "no noise",
    "noise 2 times too small",
    "noise 3 times too small",
    "no clipping",
    "clipping the average",
    "noise on the mean instead of the sum",
    "another sampling than accounted",
    "preprocessing read off the data",
    "one seed for all runs",
)
LIKELY = 0.8
"""A chance from which on a sentence says "probably"."""


@dataclass(frozen=True)
class Fault:
    """A usual fault and the chance that this audit would have refuted it; None where that is not known."""

    name: str
    chance: Estimate | None = None

    def __post_init__(self) -> None:
        chance = self.chance
        if chance is not None and not (
            chance.value is not None and 0 <= chance.lower <= chance.value <= chance.upper <= 1
        ):
            raise BadInput("a chance must lie in its interval, between 0 and 1")

    def to_json(self) -> dict[str, Any]:
        told = None if self.chance is None else {**self.chance.to_json(), "confidence": self.chance.confidence}
        return {"name": self.name, "chance": told}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Fault:
        told = data["chance"]
        chance = None if told is None else Estimate.from_json(told, float(told["confidence"]))
        return cls(str(data["name"]), chance)


def panel_words(caught: tuple[Fault, ...]) -> str:
    """What an audit would have caught, in one sentence; nothing where no audit has said so."""
    known = [fault for fault in caught if fault.chance is not None]
    if not caught:
        return ""
    if not known:
        return "Which of the usual faults this audit would have refuted is not known."
    sure = [fault.name for fault in known if fault.chance and fault.chance.lower >= LIKELY]
    rest = [f"{fault.name} ({chance_words(fault)})" for fault in known if fault.name not in sure]
    parts = [f"would probably have refuted: {', '.join(sure)}"] if sure else []
    parts += [f"might have missed: {', '.join(rest)}"] if rest else []
    left = len(caught) - len(known)
    parts += [f"has a chance that is not known for {left} other usual fault{'s' * (left > 1)}"] if left else []
    return f"This audit {'; '.join(parts)}."


def chance_words(fault: Fault) -> str:
    """The chance as a range of percents."""
    chance = fault.chance
    if chance is None:
        return "not known"
    low, value, high = (round(100 * part) for part in (chance.lower, chance.value or 0.0, chance.upper))
    return f"chance {value} %" if low == high else f"chance {value} %, between {low} and {high}"
