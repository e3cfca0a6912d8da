"""Usual faults of private training, and the chance that an audit would have refuted a claim for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import BadInput
from .interval import Estimate
from .json_text import Json

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
LIKELY, UNLIKELY = 0.8, 0.2
"""A chance that is certainly above the one, or below the other, is put into words: "probably"."""
TELLING = 0.5
"""An interval that is wider tells nothing of a chance: its middle is not shown."""


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

    @property
    def wide(self) -> bool:
        """Whether the interval of the chance tells nothing of it."""
        return self.chance is not None and self.chance.upper - self.chance.lower > TELLING

    def to_json(self) -> Json:
        told = None if self.chance is None else {**self.chance.to_json(), "confidence": self.chance.confidence}
        return {"name": self.name, "chance": told}

    @classmethod
    def from_json(cls, data: Json) -> Fault:
        told = data["chance"]
        chance = None if told is None else Estimate.from_json(told, float(told["confidence"]))
        return cls(str(data["name"]), chance)


def panel_words(caught: tuple[Fault, ...]) -> str:
    """What an audit would have caught, in sentences; nothing where no audit has said so."""
    known = [fault for fault in caught if fault.chance is not None]
    if not caught:
        return ""
    if not known:
        return "Which of the usual faults this audit would have refuted is not known."
    sure = [fault.name for fault in known if fault.chance and fault.chance.lower >= LIKELY]
    lost = [fault.name for fault in known if fault.chance and fault.chance.upper <= UNLIKELY]
    rest = [fault for fault in known if fault.name not in (*sure, *lost)]
    some = [f"{fault.name}{_limits(fault)}" for fault in rest if not fault.wide]
    wide = [fault.name for fault in rest if fault.wide]
    parts = [f"would probably have refuted: {', '.join(sure)}"] if sure else []
    parts += [f"would probably have missed: {', '.join(lost)}"] if lost else []
    parts += [f"may have missed: {', '.join(some)}"] if some else []
    parts += [f"gives no clear answer, with the few runs that were planted, on: {', '.join(wide)}"] if wide else []
    left = len(caught) - len(known)
    words = f" For {left} other usual fault{'s' * (left > 1)} the chance is not known." if left else ""
    return f"This audit {'; '.join(parts)}.{words}"


def chance_words(fault: Fault) -> str:
    """The chance of being refuted, in percent; where its interval is wide, that it is not known well."""
    chance = fault.chance
    if chance is None:
        return "not known"
    low, value, high = (round(100 * part) for part in (chance.lower, chance.value or 0.0, chance.upper))
    if low == high:
        return f"chance {value} %"
    if fault.wide:
        return f"not known well: the chance is anything from {low} to {high} %"
    return f"chance {value} % ({low} to {high} %)"


def _limits(fault: Fault) -> str:
    """The interval of a chance that is neither certainly high nor certainly low."""
    assert fault.chance is not None
    low, high = math.floor(100 * fault.chance.lower), math.ceil(100 * fault.chance.upper)
    return f" (refuted with a chance of {low} to {high} %)"
