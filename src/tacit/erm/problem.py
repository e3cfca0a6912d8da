r"""A regularised sum of margin losses, F(theta) = sum_i l(y_i x_i . theta) + (lambda/2) |theta|^2 + b . theta.

Sums, not means: a record adds or removes one term, and every constant is public. Rows have norm at most `norm`, so that
the gradient of one term has norm at most `steepness` = lipschitz norm, and its curvature is at most smoothness norm^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, cg

from ..core import NotFinished
from .losses import Floats, MarginLoss

EXACT = 2_000
"""Features up to which Newton's equations are solved directly; beyond, by conjugate gradients."""
UNIT = 2.0**-53
NEWTON, GRADIENT = 60, 20_000
"""Steps of each kind before the minimiser gives up."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows x (n, d), signs y in {-1, 0, 1} (0 is nobody's record), and a loss."""

    x: Any
    y: Floats
    loss: MarginLoss
    norm: float

    @property
    def size(self) -> int:
        return int(self.x.shape[0])

    @property
    def features(self) -> int:
        return int(self.x.shape[1])

    @property
    def steepness(self) -> float:
        """No record's gradient is longer."""
        return self.loss.lipschitz * self.norm

    @property
    def bend(self) -> float:
        """No record's curvature is larger."""
        return self.loss.smoothness * self.norm**2

    def rounding(self, length: float) -> float:
        """A bound on the rounding error of `gradient` at a point of this length, in the worst order of summation.

        A sum of k products is off by at most 2k 2^-53 times the sum of their sizes (Higham 2002, Accuracy and stability
        of numerical algorithms, section 3.1). A margin's error moves its slope by `smoothness` times as much.
        """
        margin = 2 * (self.features + 2) * UNIT * self.norm * length
        slope = 8 * UNIT * self.loss.lipschitz + self.loss.smoothness * margin
        summed = 2 * (self.size + 2) * UNIT * self.steepness * math.sqrt(self.features)
        return self.size * (summed + slope * self.norm)

    def gradient(self, theta: Floats) -> Floats:
        """The sum of all records' gradients."""
        margin = self.y * (self.x @ theta)
        return np.asarray(self.x.T @ (self.y * self.loss.slope(margin)))

    def minimum(self, regularization: float, tilt: Floats, tolerance: float, start: Floats | None = None) -> Floats:
        """A point where the gradient of F, evaluated exactly, has norm at most `tolerance`.

        F is strongly convex: damped Newton steps converge from every start, and so do gradient steps of length
        1/(n bend + lambda), which follow should rounding stop the former early. Only a tolerance below what floating
        point can reach would not be met; `reachable` names one that can.
        """
        theta = np.zeros(self.features) if start is None else start.copy()
        shortest, floor = 1 / (self.size * self.bend + regularization), 0.0
        for attempt in range(NEWTON + GRADIENT):
            pull = self.gradient(theta) + regularization * theta + tilt
            if np.linalg.norm(pull) + self.rounding(float(np.linalg.norm(theta))) <= tolerance:
                return theta
            if attempt < NEWTON:
                step = self._newton(theta, pull, regularization, floor)
                length = self._length(theta, step, pull, regularization, tilt)
                theta = theta - length * step
                floor = floor / 8 if length == 1.0 else max(4 * floor, 0.01 * self.loss.smoothness)
            else:
                theta = theta - shortest * pull
        raise NotFinished("The minimiser did not reach its tolerance.", fix="Raise `regularization`.")

    def reachable(self, regularization: float, tilt_length: float) -> float:
        """A public tolerance that `minimum` can reach: far below one record's gradient, above all rounding errors.

        F at its minimum is at most F(0) = n l(0), which bounds the minimiser's length.
        """
        worst = 2 * self.size * float(self.loss.value(np.zeros(1))[0]) / regularization
        length = tilt_length / regularization + math.sqrt((tilt_length / regularization) ** 2 + worst)
        return 1e-5 * self.steepness + 4 * self.rounding(length) + 64 * UNIT * (regularization * length + tilt_length)

    def value(self, theta: Floats, regularization: float, tilt: Floats) -> float:
        margin = self.y * (self.x @ theta)
        return float(self.loss.value(margin).sum() + regularization / 2 * theta @ theta + tilt @ theta)

    def _newton(self, theta: Floats, pull: Floats, regularization: float, floor: float) -> Floats:
        """Newton's step, with at least `floor` as every record's curvature (after Levenberg 1944): where the loss is
        straight, a step by its own curvature would lead far beyond the minimum."""
        curvature = self.loss.curvature(self.y * (self.x @ theta))
        weight = np.clip(curvature, floor, self.loss.smoothness) * self.y**2
        if self.features > EXACT:
            shape = (self.features, self.features)
            times = LinearOperator(shape, lambda v: self.x.T @ (weight * (self.x @ v)) + regularization * v)
            return np.asarray(cg(times, pull, rtol=1e-3, maxiter=200)[0])
        bend = self._products(weight)
        bend[np.diag_indices_from(bend)] += regularization
        return np.asarray(linalg.solve(bend, pull, assume_a="pos"))

    def _products(self, weight: Floats) -> Floats:
        """The sum of x x^T over records, each with its weight."""
        if not isinstance(self.x, np.ndarray):
            return np.asarray((self.x.T @ sparse.diags(weight) @ self.x).toarray())
        return np.asarray((self.x.T * weight) @ self.x)

    def _length(self, theta: Floats, step: Floats, pull: Floats, regularization: float, tilt: Floats) -> float:
        """Halve the step until F falls enough (Armijo 1966)."""
        now, fall, length = self.value(theta, regularization, tilt), float(pull @ step), 1.0
        while length > 1e-8 and self.value(theta - length * step, regularization, tilt) > now - 1e-4 * length * fall:
            length /= 2
        return length
