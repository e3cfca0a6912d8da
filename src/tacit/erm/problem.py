r"""A regularised sum of margin losses, F(theta) = sum_i l(y_i x_i . theta) + (lambda/2) |theta|^2 + b . theta.

Sums, not means: a record adds or removes one term, and every constant is public. Rows have norm at most `norm`, so that
the gradient of one term has norm at most `steepness` = lipschitz norm, and its curvature is at most smoothness norm^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator, cg

from ..core import NotFinished
from .losses import Floats, MarginLoss
from .shape import UNIT, Shape

EXACT = 2_000
"""Features up to which Newton's equations are solved directly; beyond, by conjugate gradients."""
MANY, SHARE = 20_000, 10
"""From so many records on, the minimiser begins with every tenth."""
BLOCK = 1 << 17
"""Numbers of one block of rows: 1 MiB."""
KEPT = 0.1
"""How much shorter a step must make the gradient for the curvature to be kept."""
NEWTON = 1000
"""Newton steps before accelerated gradient steps take over: a loss with sharp corners takes hundreds, and each of those
replaces many of the others."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows x (n, d), signs y in {-1, 0, 1} (0 is nobody's record), and a loss.

    `public_size` stands for the number of records where that is private; there are never more than twice as many.
    """

    x: Any
    y: Floats
    loss: MarginLoss
    norm: float
    public_size: int | None = None

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

    @property
    def shape(self) -> Shape:
        """The public numbers of the problem."""
        start, given = float(self.loss.value(np.zeros(1))[0]), self.public_size
        size, most = (self.size, None) if given is None else (given, 2 * given)
        return Shape(size, self.features, self.steepness, self.bend, at_zero=start, most=most)

    def some(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Problem:
        """The sum over the given records alone."""
        return replace(self, x=self.x[rows], y=self.y[rows])

    def rounding(self, length: float) -> float:
        """A bound on the rounding error of `gradient` at a point of this length."""
        return self.shape.rounding(length)

    def gradient(self, theta: Floats) -> Floats:
        """The sum of all records' gradients."""
        return self._sloped(self.margins(theta))

    def margins(self, theta: Floats) -> Floats:
        return np.asarray(self.y * (self.x @ theta))

    def _sloped(self, margin: Floats) -> Floats:
        return np.asarray(self.x.T @ (self.y * self.loss.slope(margin)))

    def minimum(self, regularization: float, tilt: Floats, tolerance: float, start: Floats | None = None) -> Floats:
        """A point where the gradient of F, evaluated exactly, has norm at most `tolerance`.

        Damped Newton steps get there in practice. Accelerated gradient steps follow where they do not: those reach
        every tolerance above the rounding errors, as `reachable` names one, whatever the records are. Of many records,
        which begin near the minimum, the curvature is kept as long as steps by it make the gradient much shorter.
        `start` is a point to begin from, such as the weights of a fit before; it is left where 0 is better.
        """
        theta, floor = self._start(regularization, tilt, start), 0.0
        margin, fresh, solved, before = self.margins(theta), True, None, 0.0
        for _ in range(NEWTON):
            pull = self._sloped(margin) + regularization * theta + tilt
            if self._left(theta, pull, regularization, tilt) <= tolerance:
                if fresh:
                    return theta
                margin, fresh = self.margins(theta), True
                continue
            before, long = float(np.linalg.norm(pull)), before
            if solved is None or floor > 0 or self.size < MANY or before > KEPT * long:
                solved = self._newton(margin, regularization, floor)
            step = solved(pull)
            moved = self.margins(step)
            length = self._length(theta, step, (margin, moved), pull, regularization, tilt)
            theta, margin, fresh = theta - length * step, margin - length * moved, False
            floor = floor / 8 if length == 1.0 else max(4 * floor, 0.01 * self.loss.smoothness)
        return self.accelerated(regularization, tilt, tolerance, theta)

    def accelerated(self, regularization: float, tilt: Floats, tolerance: float, theta: Floats) -> Floats:
        """Find a point of small gradient, as `minimum` does, by gradient steps with momentum.

        With q = sqrt(lambda/(n bend + lambda)), k steps reduce F - min F to at most (1 - q)^k |grad F|^2/lambda
        (Nesterov 2018, Lectures on convex optimization, Theorem 2.2.3). The point ahead is at most three times as far
        from the minimum as a bound for the step before, so its gradient is at most 3 sqrt(2) (1 - q)^((k - 1)/2)
        |grad F|/q^2.
        """
        most_bent = self.size * self.bend + regularization
        q, ahead = math.sqrt(regularization / most_bent), theta
        first = float(np.linalg.norm(self._pull(theta, regularization, tilt))) / tolerance
        for _ in range(math.ceil(2 * math.log(8 * max(first, 1.0) / q**2) / q) + 100):
            pull = self._pull(ahead, regularization, tilt)
            if self._left(ahead, pull, regularization, tilt) <= tolerance:
                return ahead
            before, theta = theta, ahead - pull / most_bent
            ahead = theta + (1 - q) / (1 + q) * (theta - before)
        raise NotFinished("The minimiser did not reach its tolerance.", fix="Raise `regularization`.")

    def _start(self, regularization: float, tilt: Floats, given: Floats | None = None) -> Floats:
        """Where to begin: a point that was given, or the minimum of one in SHARE of many records, which costs little
        and is near."""
        zero = np.zeros(self.features)
        if given is not None and self._better(given, zero, regularization, tilt):
            return np.array(given, dtype=np.float64)
        if self.size < MANY:
            return zero
        few = Problem(self.x[::SHARE], self.y[::SHARE], self.loss, self.norm)
        near = 0.1 * math.sqrt(few.size) * self.steepness + few.reachable(regularization, float(np.linalg.norm(tilt)))
        return few.minimum(regularization / SHARE, tilt / SHARE, near)

    def _better(self, theta: Floats, other: Floats, regularization: float, tilt: Floats) -> bool:
        """Whether F is smaller at one of two points; never at one that is not finite."""

        def value(at: Floats) -> float:
            return float(self.loss.value(self.margins(at)).sum() + regularization / 2 * at @ at + tilt @ at)

        return bool(np.isfinite(theta).all()) and value(theta) < value(other)

    def _pull(self, theta: Floats, regularization: float, tilt: Floats) -> Floats:
        return np.asarray(self.gradient(theta) + regularization * theta + tilt)

    def _left(self, theta: Floats, pull: Floats, regularization: float, tilt: Floats) -> float:
        """A bound on the norm of the gradient of F, evaluated exactly, where `pull` was computed."""
        length, tilted = float(np.linalg.norm(theta)), float(np.linalg.norm(tilt))
        norm = (1 + 2 * (self.features + 2) * UNIT) * float(np.linalg.norm(pull))
        return norm + self.rounding(length) + 8 * UNIT * (regularization * length + tilted)

    def reachable(self, regularization: float, tilt_length: float) -> float:
        """A public tolerance that `minimum` can reach."""
        return self.shape.reachable(regularization, tilt_length)

    def _newton(self, margin: Floats, regularization: float, floor: float) -> Callable[[Floats], Floats]:
        """Newton's step for a gradient, with at least `floor` as every record's curvature (after Levenberg 1944): where
        the loss is straight, a step by its own curvature would lead far beyond the minimum."""
        weight = np.clip(self.loss.curvature(margin), floor, self.loss.smoothness) * np.abs(self.y)
        if self.features > EXACT:
            shape = (self.features, self.features)
            times = LinearOperator(shape, lambda v: self.x.T @ (weight * (self.x @ v)) + regularization * v)
            return lambda pull: np.asarray(cg(times, pull, rtol=1e-3, maxiter=200)[0])
        bend = self._products(weight)
        bend[np.diag_indices_from(bend)] += regularization
        try:
            factor = linalg.cho_factor(bend, check_finite=False)
        except linalg.LinAlgError:  # so badly conditioned that rounding hides lambda: a step that is surely downhill
            return lambda pull: np.asarray(pull / (self.size * self.bend + regularization))
        return lambda pull: np.asarray(linalg.cho_solve(factor, pull, check_finite=False))

    def _products(self, weight: Floats) -> Floats:
        """The sum of x x^T over records, each with its weight; in blocks that stay in the cache."""
        if not isinstance(self.x, np.ndarray):
            return np.asarray((self.x.T @ sparse.diags(weight) @ self.x).toarray())
        total, root, rows = np.zeros((self.features, self.features)), np.sqrt(weight), max(BLOCK // self.features, 1)
        for first in range(0, self.size, rows):
            part = self.x[first : first + rows] * root[first : first + rows, None]
            total += part.T @ part
        return total

    def _length(
        self,
        theta: Floats,
        step: Floats,
        margins: tuple[Floats, Floats],
        pull: Floats,
        regularization: float,
        tilt: Floats,
    ) -> float:
        """Halve the step until F falls enough (Armijo 1966); margins of the point and of the step."""

        def value(length: float) -> float:
            ahead = theta - length * step
            losses = self.loss.value(margins[0] - length * margins[1]).sum()
            return float(losses + regularization / 2 * ahead @ ahead + tilt @ ahead)

        now, fall, length = value(0.0), float(pull @ step), 1.0
        while length > 1e-8 and value(length) > now - 1e-4 * length * fall:
            length /= 2
        return length
