"""All that a method may know before it reads records, and what a method makes of it: public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..core import Event

UNIT = 2.0**-53


@dataclass(frozen=True)
class Shape:
    """A sum of losses, described by public numbers.

    `steepness` bounds the norm of one record's gradient, `bend` its curvature, `at_zero` its loss at weights 0; no loss
    is negative. `size` is the public number of records, and there are never more than `most` (`size` where it is None).
    """

    size: int
    features: int
    steepness: float
    bend: float
    regularization: float | None = None
    """Of the mean loss; None lets the method choose."""
    at_zero: float = 1.0
    most: int | None = None

    @property
    def records(self) -> int:
        """There are never more records than this."""
        return self.size if self.most is None else self.most

    @property
    def mean_bend(self) -> float:
        """A bound on the curvature of the sum over records, divided by the public size."""
        return self.bend * self.records / self.size

    def rounding(self, length: float) -> float:
        """A bound on the rounding error of a computed sum of gradients, at a point of this length.

        A sum of k products is off by at most 2k 2^-53 times the sum of their sizes (Higham 2002, Accuracy and stability
        of numerical algorithms, section 3.1). That holds for the gradients' sum, every margin, and the norms that rows
        were divided by. A margin's error moves its slope by the curvature times as much.
        """
        n, d = self.records, self.features
        summed = (2 * (n + d + 4) + 8) * self.steepness
        sloped = (8 + 4 * (d + 2) * length) * self.bend
        return n * UNIT * (summed + sloped)

    def reachable(self, regularization: float, tilt_length: float) -> float:
        """A tolerance that a minimiser can reach: far below one record's gradient, above all rounding errors.

        F at its minimum is at most F(0) = n l(0), which bounds the minimiser's length.
        """
        worst = 2 * self.records * self.at_zero / regularization
        length = tilt_length / regularization + math.sqrt((tilt_length / regularization) ** 2 + worst)
        return 1e-5 * self.steepness + 4 * self.rounding(length) + 64 * UNIT * (regularization * length + tilt_length)


@dataclass(frozen=True)
class Design:
    """A method with its noise: what is charged, and what its theorem promises for the regularised objective.

    `excess`: with probability 0.95 the mean objective exceeds its minimum by at most this. `expected`: on average over
    the noise it exceeds that of any weights of norm 1, for rows scaled to norm 1, by at most this. None where the
    theorem does not say.
    """

    method: str
    event: Event
    noise_multiplier: float
    regularization: float
    steps: int = 1
    step_size: float = 0.0
    excess: float | None = None
    expected: float | None = None
    rate: float = 1.0
    """The share of the records in every step."""
    reason: str = ""

    def with_(self, **changed: Any) -> Design:
        return replace(self, **changed)
