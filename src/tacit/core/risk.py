"""Risk below the average: single records, groups, and the budget step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import check
from .interval import Estimate, finite


@dataclass(frozen=True)
class Exposure:
    """One record: how surely its membership shows, estimated on models that did not select it."""

    record: int
    selected_by: float
    memorisation: Estimate

    def to_json(self) -> dict[str, Any]:
        """The record's figures as values for JSON."""
        told = {"record": self.record, "selected_by": self.selected_by, "confidence": self.memorisation.confidence}
        return {**told, "memorisation": self.memorisation.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Exposure:
        """The figures that `to_json` wrote."""
        estimate = Estimate.from_json(data["memorisation"], float(data["confidence"]))
        return cls(check.whole("record", data["record"], least=0), float(data["selected_by"]), estimate)


@dataclass(frozen=True)
class GroupRisk:
    """One group's attack advantage (true- minus false-positive rate) and the p-value of its difference from the rest.

    `p_value` is corrected for the number of groups (Holm 1979).
    """

    group: str
    advantage: Estimate
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """The group's figures as values for JSON."""
        told = {"group": self.group, "p_value": self.p_value, "confidence": self.advantage.confidence}
        return {**told, "advantage": self.advantage.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GroupRisk:
        """The figures that `to_json` wrote."""
        estimate = Estimate.from_json(data["advantage"], float(data["confidence"]))
        return cls(str(data["group"]), estimate, float(data["p_value"]))


@dataclass(frozen=True)
class Bin:
    """How many records have a memorisation from `lower` to below `upper`."""

    lower: float
    upper: float
    records: int

    def to_json(self) -> dict[str, Any]:
        return {"lower": self.lower, "upper": self.upper, "records": self.records}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Bin:
        return cls(float(data["lower"]), float(data["upper"]), check.whole("records", data["records"], least=0))


@dataclass(frozen=True)
class Spent:
    """Epsilon that is proven after some steps of the plan."""

    step: int
    epsilon: float

    def to_json(self) -> dict[str, Any]:
        return {"step": self.step, "epsilon": finite(self.epsilon)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Spent:
        found = data["epsilon"]
        return cls(check.whole("step", data["step"], least=0), float("inf") if found is None else float(found))
