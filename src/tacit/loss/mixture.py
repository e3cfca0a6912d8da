r"""A mixture of one Gaussian at several places, on and around the real line.

With a_j = w_j e^{c_j (x - c_j/2)/s^2} the ratio to N(0, s^2) is r(x) = sum_j a_j, and
r(x + ib) = sum_j a_j e^{i c_j b/s^2}.
"Posterior" means with weights a_j/r. Turns are a/s^2 for the strip |b| <= a, one number or one for every place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .noise import Array
from .pairs import Parts

ANGLES = 2.8, 1.1
"""Largest angle used where a mixture has the place 0 and one other, and where it has more."""


@dataclass(frozen=True)
class Mixture:
    """One side at given places: log r, posterior mean of the shift, for two parts their odds, else its mean square."""

    log_ratio: Array
    mean: Array
    odds: Array | None
    largest: float
    squares: Array | None = None

    @classmethod
    def at(cls, parts: Parts, x: Array, scale: float) -> Mixture:
        if len(parts) == 1:
            place = parts[0][1]
            if not place:
                return STILL
            return cls(place * (x - place / 2) / scale**2, np.full(x.shape, abs(place)), None, abs(place))
        if len(parts) == 2 and parts[0][1] == 0.0:
            return cls._two(parts[1][0], parts[1][1], x, scale)
        places, weights = np.array([place for _, place in parts]), np.array([weight for weight, _ in parts])
        exponents = places * (x[..., None] - places / 2) / scale**2
        top = exponents.max(axis=-1)
        terms = weights * np.exp(exponents - top[..., None])
        total, shifts = terms.sum(axis=-1), np.abs(places)
        return cls(top + np.log(total), terms @ shifts / total, None, float(shifts.max()), terms @ shifts**2 / total)

    @classmethod
    def _two(cls, weight: float, place: float, x: Array, scale: float) -> Mixture:
        """log(1 - w + w e^y) by log1p, so that small rates keep their digits."""
        y = (x - place / 2) * (place / scale**2)
        near = np.minimum(y, 600.0)
        log_ratio = np.log1p(weight * np.expm1(near)) + (y - near)
        odds = weight / (1 - weight) * np.exp(near)
        return cls(log_ratio, abs(place) * odds / (1 + odds), odds, abs(place))

    @property
    def square(self) -> Array:
        """Posterior mean square of the shift."""
        return self.largest * self.mean if self.squares is None else self.squares

    def __getitem__(self, index: int | slice) -> Mixture:
        """The places of one index."""
        if self is STILL:
            return self
        odds, squares = (None if item is None else item[index] for item in (self.odds, self.squares))
        return Mixture(self.log_ratio[index], self.mean[index], odds, self.largest, squares)

    def means(self, index: slice) -> Array:
        """`mean` at the places of one index."""
        return self.mean if self is STILL else self.mean[index]

    def angle(self, turn: Array) -> Array:
        """A bound of |arg r(x + ib)| over |b| <= a; it rises with the mean shift."""
        theta = turn * self.largest
        if not self.largest:
            return NOTHING
        cosine = np.cos(theta)
        if self.odds is None:
            return np.where(theta <= ANGLES[1], turn * self.mean / np.maximum(cosine, 0.4), theta)
        free = np.arctan2(self.odds * np.sin(theta), 1 + self.odds * cosine)
        return np.where(self.odds < -cosine, np.arcsin(np.minimum(self.odds, 1.0)), free)

    def arc(self, turn: float, gap: float, reach: float, end: slice) -> Array:
        r"""A bound of |arg r| over |b| <= a and places within a gap, or at the `end` within reach, both over s^2.

        |arg(1 + k e^{i theta})| is at most theta, and k sin theta up to a right angle, then arcsin k <= pi k/2. Odds
        and mean grow at most by e^{c gap/s^2}.
        """
        if not self.largest:
            return NOTHING
        theta = turn * self.largest
        if self.odds is None:
            slope, size = turn / max(math.cos(theta), 0.4), self.mean
        else:
            slope, size = math.sin(theta) if theta < math.pi / 2 else math.pi / 2, self.odds
        found = (slope * math.exp(gap * self.largest)) * size
        found[end] *= math.exp((reach - gap) * self.largest)
        return np.minimum(theta, found)

    def sag(self, turn: float, gap: float, reach: float, ends: int) -> Array:
        r"""A bound of -log |r(x + ib)| / r(x), likewise at both ends, and of how far -log r is above its chords."""
        growth, far = math.exp(gap * self.largest), math.exp((reach - gap) * self.largest)
        if self.odds is None:
            most = growth * self.square
        else:
            most = growth * self.mean * (self.largest - self.mean)
        most[:ends] *= far
        most[-ends:] *= far
        chord = (gap**2 / 8 * growth) * self.square
        if self.odds is None:
            return chord - np.log(np.maximum(1 - turn**2 / 2 * np.minimum(most, self.largest**2), 1e-300))
        bend = 2 * (1 - math.cos(turn * self.largest)) / self.largest**2
        return chord - 0.5 * np.log(np.maximum(1 - bend * np.minimum(most, self.largest**2 / 4), 1e-300))

    def least_angle(self, turn: Array) -> Array:
        """|arg r(x + ia)| from below, turn = a/s^2 at most pi/2 over the largest shift; rises with the mean shift."""
        theta = turn * self.largest
        if self.odds is None:
            return turn * self.mean * np.sinc(theta / math.pi)
        return np.asarray(np.arctan2(self.odds * np.sin(theta), 1 + self.odds * np.cos(theta)))

    @staticmethod
    def dip(left: Mixture, right: Mixture, turn: Array) -> Array:
        """A bound of -log |r(x + ib)| / r(x) over |b| <= a between places on the left and on the right."""
        theta = turn * left.largest
        if left.odds is None or right.odds is None:
            most = np.maximum(left.square, right.square)
            return np.asarray(-np.log(np.maximum(1 - turn**2 * most / 2, 1e-300)))
        sides = [odds / (1 + odds) / (1 + odds) for odds in (left.odds, right.odds)]
        most = np.where((left.odds < 1) != (right.odds < 1), 0.25, np.maximum(*sides))
        return np.asarray(-0.5 * np.log(np.maximum(1 - 2 * (1 - np.cos(theta)) * most, 1e-300)))


NOTHING = np.zeros(1)
STILL = Mixture(NOTHING, NOTHING, None, 0.0)
"""N(0, s^2) itself, anywhere."""


def steepest(parts: Parts) -> float:
    """Largest turn a/s^2 of a strip on which r has no zero and its bounds are useful."""
    if len(parts) == 2 and parts[0][1] == 0.0:
        return ANGLES[0] / abs(parts[1][1])
    return ANGLES[1] / max(abs(place) for _, place in parts) if len(parts) > 1 else math.inf
