r"""Losses of one margin m = y x . theta, for labels y = -1 or 1: convex, with bounded slope and bounded curvature.

Private minimisation needs the two bounds for every margin: `lipschitz` on |l'(m)| and `smoothness` on l''(m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import check

Floats = NDArray[np.float64]


class MarginLoss(Protocol):
    """A convex, twice differentiable function of a margin, with public bounds on its derivatives."""

    @property
    def lipschitz(self) -> float:
        """The largest |l'(m)|."""
        ...

    @property
    def smoothness(self) -> float:
        """The largest l''(m)."""
        ...

    def value(self, margin: Floats) -> Floats: ...

    def slope(self, margin: Floats) -> Floats:
        """l'(m), between -lipschitz and 0 for a loss that falls."""
        ...

    def curvature(self, margin: Floats) -> Floats:
        """l''(m), between 0 and smoothness."""
        ...


@dataclass(frozen=True)
class Logistic:
    """l(m) = log(1 + e^-m)."""

    lipschitz: float = 1.0
    smoothness: float = 0.25

    def value(self, margin: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, -margin))

    def slope(self, margin: Floats) -> Floats:
        return np.asarray(-special.expit(-margin))

    def curvature(self, margin: Floats) -> Floats:
        return np.asarray(special.expit(margin) * special.expit(-margin))


@dataclass(frozen=True)
class SmoothHinge:
    r"""The hinge loss with its corner rounded over [1 - h, 1 + h], twice differentiable.

    l(m) = 0 for m > 1 + h, 1 - m for m < 1 - h, and with u = 1 - m between them
    3h/16 + u/2 + 3u^2/8h - u^4/16h^3, whose curvature 3/4h (1 - u^2/h^2) is at most 3/4h.
    Reference: Chaudhuri, Monteleoni and Sarwate 2011, Differentially private empirical risk minimization, section 3.4.
    """

    width: float = 0.5
    lipschitz: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check.positive("width", self.width))

    @property
    def smoothness(self) -> float:
        return 0.75 / self.width

    def _shortfall(self, margin: Floats) -> Floats:
        """u = 1 - m, held within [-h, h]."""
        return np.asarray(np.clip(1.0 - margin, -self.width, self.width))

    def value(self, margin: Floats) -> Floats:
        h, u = self.width, self._shortfall(margin)
        square = u * u
        rounded = 3 * h / 16 + u / 2 + 3 * square / (8 * h) - square * square / (16 * h**3)
        return np.asarray(rounded + np.maximum(1.0 - margin - h, 0.0))

    def slope(self, margin: Floats) -> Floats:
        h, u = self.width, self._shortfall(margin)
        return np.asarray(-(0.5 + 3 * u / (4 * h) - u * u * u / (4 * h**3)))

    def curvature(self, margin: Floats) -> Floats:
        h, u = self.width, self._shortfall(margin)
        return np.asarray(3 / (4 * h) * (1 - (u / h) ** 2))
