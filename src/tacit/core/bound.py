"""Epsilon at delta, with everything that makes the number mean something."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from . import check
from .adjacency import Adjacency
from .errors import BadInput, Mismatch
from .json_text import Json
from .shown import at_least, at_most, shortened, small, table


class Side(StrEnum):
    """From which side a bound holds epsilon."""

    UPPER = "upper"
    LOWER = "lower"


@dataclass(frozen=True)
class Bound:
    r"""A statement about epsilon.

    An upper bound is proven (confidence 1.0): the mechanism is (epsilon, delta)-DP.
    A lower bound is demonstrated: with probability `confidence` over the experiment, no smaller epsilon is true.

    `assumes` names the family of mechanisms a bound was read from; None means none was assumed.
    `assumptions` are what the reader must believe, in words.
    """

    epsilon: float
    delta: float
    side: Side
    confidence: float
    method: str
    adjacency: Adjacency
    unit: str = "record"
    assumes: str | None = None
    assumptions: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.side not in list(Side):
            raise BadInput(f"side must be 'upper' or 'lower', got {self.side!r}.")
        checked = {
            "epsilon": check.nonnegative("epsilon", self.epsilon, infinite=True),
            "delta": check.delta(self.delta),
            "side": Side(self.side),
            "confidence": check.probability("confidence", self.confidence, zero=False),
            "adjacency": Adjacency.of(self.adjacency),
            "assumptions": tuple(self.assumptions),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        sign = "<=" if self.side is Side.UPPER else ">="
        kind = "proven" if sign == "<=" and self.confidence == 1 else f"{self.confidence:.10g} confidence"
        family = f", within {shortened(self.assumes)}" if self.assumes else ""
        where = f"at delta {small(self.delta)}, {self.adjacency.value}, one {self.unit}"
        return f"Bound(epsilon {sign} {self.shown(4)} {where}; {kind} by {self.method}{family})"

    def _repr_html_(self) -> str:
        told = {"epsilon": self.shown(4), "delta": small(self.delta), "confidence": f"{self.confidence:.10g}"}
        told["assumes"] = "no family of mechanisms" if self.assumes is None else shortened(self.assumes)
        rows = [(name, told.get(name, value)) for name, value in vars(self).items() if name != "assumptions"]
        return table("Bound", [*rows, *(("must be believed", text) for text in self.assumptions)])

    def shown(self, digits: int = 3) -> str:
        """Epsilon in so many significant digits, rounded so that the written bound is true as well."""
        return (at_most if self.side is Side.UPPER else at_least)(self.epsilon, digits)

    def contradicts(self, other: Bound) -> bool:
        """Whether a lower bound lies above an upper one: this is the audit.

        Raises Mismatch when the two do not speak of the same thing. A bound read from a family says nothing about a
        claim outside that family, so it never contradicts one (soundness rule 15).
        """
        if not isinstance(other, Bound):
            raise BadInput(f"A bound is compared with a Bound, not with {type(other).__name__}.")
        if self.side is Side.UPPER:
            if other.side is Side.UPPER:
                raise Mismatch("Two upper bounds cannot contradict each other; compare a lower with an upper one.")
            return other.contradicts(self)
        if other.side is Side.LOWER:
            raise Mismatch("Two lower bounds cannot contradict each other; compare a lower with an upper one.")
        for name in ("delta", "adjacency", "unit"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise Mismatch(
                    f"The bounds differ in {name} ({mine} and {theirs}), so neither can contradict the other."
                )
        if self.assumes is not None and self.assumes != other.assumes:
            return False
        return self.epsilon > other.epsilon

    def to_json(self) -> Json:
        """The bound as values for JSON."""
        data = asdict(self)
        data["epsilon"] = self.epsilon if math.isfinite(self.epsilon) else None
        data["side"], data["adjacency"] = self.side.value, self.adjacency.value
        data["assumptions"] = list(self.assumptions)
        return data

    @classmethod
    def from_json(cls, data: Json) -> Bound:
        """The bound that `to_json` wrote."""
        epsilon = data["epsilon"]
        return cls(**{**data, "epsilon": math.inf if epsilon is None else epsilon})
