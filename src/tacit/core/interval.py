"""Numbers that say how sure they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .errors import BadInput


@dataclass(frozen=True, slots=True)
class Interval:
    """Certified ends of one true number; `upper` is the claim."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if math.isnan(self.lower) or math.isnan(self.upper) or self.lower > self.upper:
            raise BadInput(f"An interval needs lower <= upper, got [{self.lower}, {self.upper}].")

    @property
    def gap(self) -> float:
        """(upper - lower) / max(upper, 1e-6); 0 when both ends are infinite."""
        if math.isinf(self.upper):
            return 0.0 if math.isinf(self.lower) else math.inf
        return (self.upper - self.lower) / max(self.upper, 1e-6)

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def to_json(self) -> dict[str, float | None]:
        """Both ends as values for JSON."""
        return {"lower": finite(self.lower), "upper": finite(self.upper)}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A measured number with its confidence interval; `value` is None when the sample cannot say."""

    value: float | None
    lower: float
    upper: float
    confidence: float
    n: int
    note: str = ""

    def to_json(self) -> dict[str, float | int | str | None]:
        """The estimate as values for JSON."""
        return {"value": self.value, "lower": self.lower, "upper": self.upper, "n": self.n, "note": self.note}

    @classmethod
    def from_json(cls, data: dict[str, object], confidence: float) -> Estimate:
        """The estimate that `to_json` wrote."""
        value = data["value"]
        return cls(
            None if value is None else float(str(value)),
            float(str(data["lower"])),
            float(str(data["upper"])),
            confidence,
            int(str(data["n"])),
            str(data.get("note", "")),
        )


def finite(value: float) -> float | None:
    """JSON has no infinity: null means no finite value."""
    return float(value) if math.isfinite(value) else None
