r"""Several classes at once: softmax regression by noisy gradients.

f_i(Theta) = log sum_k e^{theta_k . x_i} - theta_{y_i} . x_i has the gradient (p_i - e_{y_i}) x_i^T, of norm at most
sqrt(2) |x_i|, and curvature at most |x_i|^2 / 2 (the softmax covariance has norm at most 1/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core.randomness import Source
from .descent import descended
from .losses import Floats
from .shape import UNIT, Design, Shape


@dataclass(frozen=True, eq=False)
class Softmax:
    """Rows x (n, d) of norm at most `norm`, classes y from 0 to k - 1; -1 is nobody's record."""

    x: Any
    y: NDArray[np.int64]
    classes: int
    norm: float
    public_size: int | None = None

    @property
    def size(self) -> int:
        return len(self.y)

    @property
    def steepness(self) -> float:
        return math.sqrt(2.0) * self.norm

    @property
    def shape(self) -> Shape:
        """The public numbers of the problem."""
        size, most = (self.size, None) if self.public_size is None else (self.public_size, 2 * self.public_size)
        return Shape(size, self.classes * self.x.shape[1], self.steepness, self.norm**2 / 2, most=most)

    def some(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Softmax:
        """The sum over the given records alone."""
        return replace(self, x=self.x[rows], y=self.y[rows])

    def gradient(self, theta: Floats) -> Floats:
        """The sum of all records' gradients: shape (classes, d)."""
        share = special.softmax(np.asarray(self.x @ theta.T), axis=1)
        known = self.y >= 0
        share[np.flatnonzero(known), self.y[known]] -= 1.0
        share[~known] = 0.0
        return np.asarray((self.x.T @ share).T)

    def rounding(self, length: float) -> float:
        """A bound on the rounding error of `gradient` (Higham 2002, section 3.1), as for one margin and per class."""
        n, d, k = self.shape.records, self.x.shape[1], self.classes
        logit = 4 * (d + 2) * UNIT * self.norm * length
        share = (8 * k * UNIT + 2 * logit) * math.sqrt(k)
        summed = 2 * (n + d + 4) * UNIT * self.steepness
        return float(n * (summed + share * self.norm))


def descend(problem: Softmax, design: Design, rng: Source) -> Floats:
    """Noisy gradient descent; the mean of the later half of all iterates."""
    return descended(problem, design, np.zeros((problem.classes, problem.x.shape[1])), problem.shape, rng)
