"""All that a method may know before it reads records, and what a method makes of it: public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..core import Event

UNIT = 2.0**-53
LENGTH = 6.0
"""How long weights are taken to be, over d^(1/4). The bound on the excess risk of objective perturbation, d (z s)^2/
lambda + lambda |theta|^2, is least at lambda = sqrt(d) z s/|theta|. The factor has the least mean log loss at epsilon
0.1 and 1 on five tables, without Adult: benchmarks/erm_spread.py."""
AHEAD = 3.0
"""A descent with momentum moves a weight by T^2/4 times c and the gradient, a plain one, of whose iterates the later
half counts, by 3T/4 times eta: they move as far, with as much noise, where c T^2 = 3 eta T."""


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
    def spread(self) -> float:
        """Noise in every weight that is accepted, for rows of norm 1: with it, noise and weights are as long."""
        return LENGTH / math.sqrt(math.sqrt(self.features))

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
    slowness: float = 0.0
    """`expected` grows by this times |w|^2 - 1, for weights w of another norm."""
    accelerated: bool = False
    """Whether a descent has momentum: its step t is t times `step_size` long."""
    rate: float = 1.0
    """The share of the records in every step."""
    reason: str = ""

    @property
    def time(self) -> float:
        """How far a descent goes: the number of its steps times their length, for one without momentum."""
        return self.step_size * self.steps * (self.steps / AHEAD if self.accelerated else 1.0)

    @property
    def travel(self) -> float:
        """The sum of all steps of a descent, without their gradients."""
        return self.step_size * (self.steps * (self.steps + 1) / 2 if self.accelerated else self.steps)

    def with_(self, **changed: Any) -> Design:
        return replace(self, **changed)
