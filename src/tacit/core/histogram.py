"""How the scores of an audit's runs fall, with and without the canary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from . import check
from .errors import BadInput
from .json_text import Json

if TYPE_CHECKING:
    from .scores import Scores

BINS = 30
TAIL = 0.005
"""The share of scores on either side that the outermost bars take up, however far they lie."""


@dataclass(frozen=True)
class Histogram:
    """Counts of scores between `edges`, of runs with the canary (`inside`) and without it (`outside`).

    The outermost bars also hold what lies beyond them; a failed run has no score, and is in none.
    """

    name: str
    edges: tuple[float, ...]
    inside: tuple[int, ...]
    outside: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.inside) == len(self.outside) == len(self.edges) - 1:
            raise BadInput("a histogram has one count per bar on both sides")
        if not all(first < second for first, second in pairwise(self.edges)):
            raise BadInput("the edges of a histogram must rise")

    @classmethod
    def of(cls, scores: Scores) -> Histogram | None:
        """From the scores of a game; None where there is nothing to draw."""
        finite = np.isfinite(scores.score)
        values, member = scores.score[finite], scores.member[finite]
        if not values.size:
            return None
        low, high = np.quantile(values, (TAIL, 1 - TAIL))
        if not low < high:
            return None
        edges = np.linspace(low, high, BINS + 1)
        inner = np.clip(values, low, high)
        counts = [np.histogram(inner[side], edges)[0].tolist() for side in (member, ~member)]
        if not np.all(np.diff(edges) > 0):  # values that differ by next to nothing
            return None
        return cls(scores.attack, tuple(edges.tolist()), tuple(counts[0]), tuple(counts[1]))

    def to_json(self) -> Json:
        sides = {"inside": list(self.inside), "outside": list(self.outside)}
        return {
            "name": self.name,
            "edges": list(self.edges),
            **sides,
            "n_in": sum(self.inside),
            "n_out": sum(self.outside),
        }

    @classmethod
    def from_json(cls, data: Json) -> Histogram:
        sides = [tuple(check.whole("count", item, least=0) for item in data[key]) for key in ("inside", "outside")]
        found = cls(str(data["name"]), tuple(map(float, data["edges"])), *sides)
        if (data["n_in"], data["n_out"]) != (sum(found.inside), sum(found.outside)):
            raise BadInput("a histogram's totals must be the sums of its bars")
        return found


def histograms(scores: Sequence[Scores]) -> tuple[Histogram, ...]:
    """One histogram for each game: scores of records, which tell on people, are in none."""
    found = (Histogram.of(item) for item in scores if item.randomised)
    return tuple(item for item in found if item is not None)
