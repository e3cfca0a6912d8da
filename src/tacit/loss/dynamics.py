r"""Privacy dynamics: what the last iterate of noisy gradient descent gives away, when no other iterate is released.

    theta <- theta - (eta/n) g(theta) + sqrt(2 eta sigma^2) N(0, I),

g the total gradient of n losses, each lambda-strongly convex and beta-smooth, eta < 1/beta, |g - g'| <= S between
neighbours (so sigma is not a noise multiplier). Full batches, true gradients: no clipping, no sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core import check
from ..core.adjacency import Adjacency
from ..core.bound import Bound, Side
from ..core.errors import BadInput
from .closed import GaussianTotal
from .conditions import FRESH
from .noise import Array

ASSUMPTIONS = (
    "every loss is strongly convex and smooth with the stated constants, without clipping or sampling",
    "the gradient sensitivity holds between all neighbours and comes from public bounds",
    "the start does not depend on the data and only the last iterate is released",
    "every step takes all of `size` records, whose number is public",
    FRESH,
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
    steps: int

    def __post_init__(self) -> None:
        for name in ("strong_convexity", "smoothness", "gradient_sensitivity", "step_size", "noise"):
            object.__setattr__(self, name, check.positive(name, getattr(self, name)))
        for name in ("size", "steps"):
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

        It asks for the start N(0, (2 sigma^2/lambda) I). `upper` does not, and is smaller.
        Reference: Chourasia, Ye and Shokri 2021, Differential privacy dynamics, with the factor (1 - eta beta)^2.
        """
        grown = -np.expm1(-self.strong_convexity * self.step_size * self.steps / 2)
        slack = (1 - self.step_size * self.smoothness) ** 2
        return np.asarray(orders * self._unit / (self.strong_convexity * slack) * grown)

    def composition(self, orders: Array) -> Array:
        """a eta K S^2/(4 sigma^2 n^2): every iterate released, K Gaussian mechanisms of shift eta S/n."""
        return np.asarray(orders * self.step_size * self.steps * self._unit / 4)

    def upper(self, orders: Array) -> Array:
        r"""a S^2 (2 - eta lambda)/(4 sigma^2 n^2 lambda) (1 - r^K)/(1 + r^K), r = 1 - eta lambda: below both others.

        Reference: docs/proofs/dynamics.md, Theorem 1; Bok, Su and Altschuler 2024, Shifted interpolation.
        """
        return np.asarray(orders * self.mu**2 / 2)

    @property
    def mu(self) -> float:
        """The last iterate is as private as one Gaussian mechanism with this shift over standard deviation."""
        shrink = self.steps * math.log1p(-self.step_size * self.strong_convexity)
        scale = (2 - self.step_size * self.strong_convexity) / (2 * self.strong_convexity)
        return math.sqrt(self._unit * scale * -math.expm1(shrink) / (1 + math.exp(shrink)))

    def lower(self, orders: Array) -> Array:
        r"""What the loss (lambda/2)|theta - x|^2 from a point start attains: the theorem of `upper` cannot be improved.

        Both last iterates are Gaussian: a step moves their means apart by eta S/n and adds 2 eta sigma^2 to their
        variance, after shrinking them by r and r^2.
        """
        drift, spread = self.step_size * self.gradient_sensitivity / self.size, 2 * self.step_size * self.noise**2
        lost = self.step_size * self.strong_convexity
        mean, variance = (
            scale * _geometric(share, self.steps) for scale, share in ((drift, lost), (spread, lost * (2 - lost)))
        )
        return np.asarray(orders * mean**2 / (2 * variance))

    def bound(self, delta: float) -> Bound:
        """The proven claim for the last iterate, under replace-one."""
        delta = check.probability("delta", delta, zero=False, one=False)
        return Bound(
            epsilon=GaussianTotal(self.mu).epsilon(delta).upper,
            delta=delta,
            side=Side.UPPER,
            confidence=1.0,
            method="privacy dynamics, by shifted interpolation (docs/proofs/dynamics.md, Theorem 1)",
            adjacency=Adjacency.REPLACE,
            assumptions=ASSUMPTIONS,
        )


def _geometric(lost: float, terms: int) -> float:
    """1 + r + ... + r^(terms - 1), r = 1 - lost."""
    return -math.expm1(terms * math.log1p(-lost)) / lost
