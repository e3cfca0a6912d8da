r"""Privacy dynamics: what the last iterate of noisy gradient descent gives away, when no other iterate is released.

    theta <- theta - (eta/n) g(theta) + sqrt(2 eta sigma^2) N(0, I),   theta_0 ~ N(0, (2 sigma^2/lambda) I),

g the total gradient of n losses, each lambda-strongly convex and beta-smooth, eta < 1/beta, |g - g'| <= S between
neighbours (so sigma is not a noise multiplier). Full batches, true gradients: no clipping, no sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import check
from ..core.adjacency import Adjacency
from ..core.bound import Bound, Side
from ..core.errors import BadInput
from .noise import Array
from .renyi import TILTS, improved

ASSUMPTIONS = (
    "every loss is strongly convex and smooth with the stated constants, without clipping or sampling",
    "the gradient sensitivity holds between all neighbours and comes from public bounds",
    "the start is drawn from N(0, (2 noise^2/strong_convexity) I) and only the last iterate is released",
)


@dataclass(frozen=True)
class NoisyDescent:
    """Noisy gradient descent on `size` records; symbols as in the module: lambda, beta, S, n, eta, sigma, K."""

    strong_convexity: float
    smoothness: float
    gradient_sensitivity: float
    size: int
    step_size: float
    noise: float
    iterations: int

    def __post_init__(self) -> None:
        for name in ("strong_convexity", "smoothness", "gradient_sensitivity", "step_size", "noise"):
            object.__setattr__(self, name, check.positive(name, getattr(self, name)))
        for name in ("size", "iterations"):
            object.__setattr__(self, name, check.whole(name, getattr(self, name)))
        if self.smoothness < self.strong_convexity:
            raise BadInput("smoothness must be at least strong_convexity.")
        if self.step_size * self.smoothness >= 1:
            raise BadInput(f"step_size must be below 1/smoothness = {1 / self.smoothness:g}, got {self.step_size:g}.")

    @property
    def _unit(self) -> float:
        """S^2/(sigma^2 n^2)."""
        return (self.gradient_sensitivity / (self.noise * self.size)) ** 2

    def converging(self, orders: Array) -> Array:
        r"""a S^2/(lambda sigma^2 n^2 (1 - eta beta)^2) (1 - e^{-lambda eta K/2}): it stops growing.

        Reference: Chourasia, Ye and Shokri 2021, Theorem 2, in the form with the factor (1 - eta beta)^2.
        """
        grown = -np.expm1(-self.strong_convexity * self.step_size * self.iterations / 2)
        slack = (1 - self.step_size * self.smoothness) ** 2
        return np.asarray(orders * self._unit / (self.strong_convexity * slack) * grown)

    def composition(self, orders: Array) -> Array:
        """a eta K S^2/(4 sigma^2 n^2): every iterate released, K Gaussian mechanisms."""
        return np.asarray(orders * self.step_size * self.iterations * self._unit / 4)

    def upper(self, orders: Array) -> Array:
        """The smaller of both bounds."""
        return np.minimum(self.converging(orders), self.composition(orders))

    def lower(self, orders: Array) -> Array:
        r"""What the loss (lambda/2)|theta - x|^2 from a point start attains: a statement that such a loss exists.

        a S^2 (2 - eta lambda)/(4 sigma^2 n^2 lambda) (1 - r^K)/(1 + r^K), r = 1 - eta lambda: two Gaussians.
        """
        shrink = (1 - self.step_size * self.strong_convexity) ** self.iterations
        scale = (2 - self.step_size * self.strong_convexity) / (4 * self.strong_convexity)
        return np.asarray(orders * self._unit * scale * (1 - shrink) / (1 + shrink))

    def bound(self, delta: float) -> Bound:
        """The proven claim for the last iterate, under replace-one."""
        epsilon = improved(self.upper(1 + TILTS), TILTS, check.probability("delta", delta, zero=False, one=False))
        return Bound(
            epsilon=epsilon,
            delta=delta,
            side=Side.UPPER,
            confidence=1.0,
            method="privacy dynamics (Chourasia, Ye and Shokri 2021, Theorem 2)",
            adjacency=Adjacency.REPLACE,
            assumptions=ASSUMPTIONS,
        )
