r"""A mixture of one Gaussian at several places, on and around the real line.

With a_j = w_j e^{c_j (x - c_j/2)/s^2} the ratio to N(0, s^2) is r(x) = sum_j a_j, and
r(x + ib) = sum_j a_j e^{i c_j b/s^2}.
"Posterior" means with weights a_j/r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .noise import Array
from .pairs import Parts

ANGLE = 1.1
"""Largest angle used where a mixture has more than two parts; with two, angles up to 2.8 are."""


@dataclass(frozen=True)
class Mixture:
    """One side at given places: log r, posterior mean and mean square of the shift, and for two parts their odds."""

    log_ratio: Array
    mean: Array
    square: Array
    odds: Array | None
    largest: float

    @classmethod
    def at(cls, parts: Parts, x: Array, scale: float) -> Mixture:
        largest = max(abs(place) for _, place in parts)
        if len(parts) == 1:
            place, ones = parts[0][1], np.ones_like(x)
            return cls(place * (x - place / 2) / scale**2, largest * ones, largest**2 * ones, None, largest)
        if len(parts) == 2 and parts[0][1] == 0.0:
            return cls._two(parts[1][0], parts[1][1], x, scale)
        places = np.array([place for _, place in parts])[:, None]
        weights = np.array([weight for weight, _ in parts])[:, None]
        exponents = places * (x - places / 2) / scale**2
        top = exponents.max(axis=0)
        terms = weights * np.exp(exponents - top)
        total = terms.sum(axis=0)
        shifts = np.abs(places)
        mean, square = ((terms * shifts**power).sum(axis=0) / total for power in (1, 2))
        return cls(top + np.log(total), mean, square, None, largest)

    @classmethod
    def _two(cls, weight: float, place: float, x: Array, scale: float) -> Mixture:
        """log(1 - w + w e^y) by log1p, so that small rates keep their digits."""
        y = place * (x - place / 2) / scale**2
        log_ratio = np.where(y < 700.0, np.log1p(weight * np.expm1(np.minimum(y, 700.0))), y + math.log(weight))
        mean = np.exp(math.log(weight) + y - log_ratio)
        odds = np.exp(np.minimum(y + math.log(weight / (1 - weight)), 700.0))
        return cls(log_ratio, abs(place) * mean, place**2 * mean, odds, abs(place))

    def angle(self, turn: float) -> Array:
        """A bound of |arg r(x + ib)| over |b| <= a, turn = a/s^2, at every node; it rises with the mean shift."""
        theta = turn * self.largest
        if not self.largest:
            return self.mean
        if self.odds is None:
            return turn * self.mean / math.cos(min(theta, ANGLE)) if theta <= ANGLE else np.full_like(self.mean, theta)
        free = np.asarray(np.arctan2(self.odds * math.sin(theta), 1 + self.odds * math.cos(theta)))
        if math.cos(theta) >= 0:
            return free
        return np.where(self.odds < -math.cos(theta), np.arcsin(np.minimum(self.odds, 1.0)), free)

    def least_angle(self, turn: float) -> Array:
        """|arg r(x + ia)| from below, turn = a/s^2 at most pi/2 over the largest shift; rises with the mean shift."""
        if self.odds is None:
            return turn * self.mean * math.sin(turn * self.largest) / max(turn * self.largest, 1e-300)
        theta = turn * self.largest
        return np.asarray(np.arctan2(self.odds * math.sin(theta), 1 + self.odds * math.cos(theta)))

    def dip(self, turn: float) -> Array:
        """A bound of -log |r(x + ib)| / r(x) over |b| <= a on every cell between nodes."""
        theta = turn * self.largest
        if not self.largest:
            return np.zeros(self.mean.size - 1)
        if self.odds is None:
            return _most(-np.log(np.maximum(1 - turn**2 * self.square / 2, 1e-300)))
        with np.errstate(divide="ignore"):
            ends = -0.5 * np.log1p(-2 * (1 - math.cos(theta)) * self.odds / (1 + self.odds) ** 2)
        inside = (self.odds[:-1] - 1) * (self.odds[1:] - 1) < 0
        return np.where(inside, -math.log(max(math.cos(theta / 2), 1e-300)), _most(ends))

    def deepest(self, turn: float) -> float:
        """The largest `dip` anywhere."""
        if self.odds is None:
            return -math.log(max(1 - (turn * self.largest) ** 2 / 2, 1e-300))
        return -math.log(max(math.cos(turn * self.largest / 2), 1e-300))

    @property
    def steepest(self) -> float:
        """Largest theta for which `angle` and `dip` are useful."""
        return 2.8 if self.odds is not None else ANGLE


def _most(values: Array) -> Array:
    """The larger end of every cell."""
    return np.asarray(np.maximum(values[1:], values[:-1]))
