"""Risk below the average: single records, groups, and the budget step by step."""

from __future__ import annotations

from dataclasses import dataclass

from . import check
from .interval import Estimate, finite
from .json_text import Json


@dataclass(frozen=True)
class Exposure:
    """One record: how surely its membership shows, estimated on models that did not select it."""

    record: int
    selected_by: float
    memorisation: Estimate

    def to_json(self) -> Json:
        """The record's figures as values for JSON."""
        told = {"record": self.record, "selected_by": self.selected_by, "confidence": self.memorisation.confidence}
        return {**told, "memorisation": self.memorisation.to_json()}

    @classmethod
    def from_json(cls, data: Json) -> Exposure:
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

    def to_json(self) -> Json:
        """The group's figures as values for JSON."""
        told = {"group": self.group, "p_value": self.p_value, "confidence": self.advantage.confidence}
        return {**told, "advantage": self.advantage.to_json()}

    @classmethod
    def from_json(cls, data: Json) -> GroupRisk:
        """The figures that `to_json` wrote."""
        estimate = Estimate.from_json(data["advantage"], float(data["confidence"]))
        return cls(str(data["group"]), estimate, float(data["p_value"]))


@dataclass(frozen=True)
class Bin:
    """How many records have a memorisation from `lower` to below `upper`."""

    lower: float
    upper: float
    records: int

    def to_json(self) -> Json:
        return {"lower": self.lower, "upper": self.upper, "records": self.records}

    @classmethod
    def from_json(cls, data: Json) -> Bin:
        return cls(float(data["lower"]), float(data["upper"]), check.whole("records", data["records"], least=0))


@dataclass(frozen=True)
class Spent:
    """Epsilon that is proven after some steps of the plan."""

    step: int
    epsilon: float

    def to_json(self) -> Json:
        return {"step": self.step, "epsilon": finite(self.epsilon)}

    @classmethod
    def from_json(cls, data: Json) -> Spent:
        found = data["epsilon"]
        return cls(check.whole("step", data["step"], least=0), float("inf") if found is None else float(found))
