r"""Noise added to numbers: Laplace and Gaussian, exact on a public grid.

`sensitivity` bounds what one record adds to the value (L1 norm for Laplace, Euclidean norm for Gaussian): how far the
value moves when one record is added or removed. Under replace-one adjacency a value moves by twice as much, and the
noise is calibrated for that. Whole numbers get whole noise. Real numbers are rounded to multiples of h = 2^k first, h
far below the sensitivity; what rounding adds to the sensitivity is part of the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt

import numpy as np

from ..core import Adjacency, Answer, BadInput, Charger, Source, check
from ..core.events import DiscreteGaussian, DiscreteLaplace, Gaussian
from . import draws, scales
from .charging import Offer, Random, Terms
from .inputs import (
    Steps,
    array_of,
    collected,
    float_of,
    is_whole,
    numbers,
    off_grid,
    on_grid,
    plain,
    power_of_two,
    step_of,
    wholes,
)

FINE = 1024
"""Grid steps in the share of the sensitivity that one entry of an array has."""


@dataclass(frozen=True)
class Grid:
    """The public grid that a value is put on: its spacing, and how many entries the value has."""

    spacing: Fraction
    count: int
    whole: bool

    @classmethod
    def of(cls, value: object, sensitivity: float) -> Grid:
        count = 1 if isinstance(value, int | float) else plain(array_of(value)).size
        if is_whole(value) and float(sensitivity).is_integer():
            return cls(Fraction(1), count, True)
        return cls(_spacing(float(sensitivity), count), count, False)

    def steps(self, value: object) -> Steps:
        return wholes(value) if self.whole else on_grid(numbers(value), self.spacing)

    def noisy(self, value: object, noise: Callable[[int], Steps]) -> object:
        """The value on the grid plus noise, as a number or an array like the value."""
        if isinstance(value, float):
            return float_of(step_of(value, self.spacing) + int(noise(1)[0]), self.spacing)
        steps = self.steps(value)
        total = (
            steps.astype(object) + noise(steps.size).item()
            if steps.ndim == 0
            else (steps + noise(steps.size).reshape(steps.shape))
        )
        if self.whole:
            return total if isinstance(total, np.ndarray) and total.ndim else int(total)
        found = off_grid(np.asarray(total), self.spacing)
        return found if found.ndim else float(found)

    def error(self, reach: float) -> float:
        """Noise of at most `reach` steps, and half a step of rounding."""
        return float((Fraction(reach) + (0 if self.whole else Fraction(1, 2))) * self.spacing)

    def l1(self, sensitivity: float) -> int:
        """Steps that one record moves the value by, in L1 norm: every entry is rounded by less than a step."""
        return ceil(Fraction(sensitivity) / self.spacing) + (0 if self.whole else max(self.count, 1) - 1)

    def l2(self, sensitivity: float) -> Fraction:
        """Steps that one record moves the value by, in Euclidean norm: rounding adds at most sqrt(count)."""
        steps = Fraction(sensitivity) / self.spacing
        return steps if self.whole else steps + Fraction(isqrt(max(self.count, 1) << 60) + 1, 1 << 30)


@lru_cache(maxsize=1024)
def _spacing(sensitivity: float, count: int) -> Fraction:
    return power_of_two(Fraction(sensitivity) / (FINE * max(count, 1)))


def laplace(
    value: object,
    *,
    sensitivity: float,
    epsilon: float,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release a number, or an array of numbers, with Laplace noise.

    M(D) = h (round(f(D)/h) + Lap_Z(z S)^d): S = grid steps of a record in L1 norm, z = 1/epsilon (replace: 2/epsilon).

    Guarantee: `DiscreteLaplace(z, S)`, epsilon-DP, drawn exactly (distance 0) and charged before the draw.
    Caller ensures: one record moves `value`, as it was computed, by at most `sensitivity` in L1 norm. A sum of rounded
    floating-point numbers can move by more than the mathematical sum: add whole numbers, or enlarge the sensitivity.
    Whether `value` is whole or real, and its shape, are public: Python's `sum([])` is the whole number 0, so give
    `float(sum(...))` where the numbers are real.
    Edge cases: NaN counts as 0, infinities as the largest number; an empty array is returned empty.
    Error: all entries at once are within `error`, with probability `confidence`, before a real number is rounded to a
    float: beyond 2^53 times the error that rounding is larger.
    Reference: Ghosh, Roughgarden and Sundararajan 2009; docs/proofs/sampling.md, Theorem 4 and Lemma 7.
    """
    terms, value = Terms(ledger, key, rng, adjacency), collected(value)
    epsilon = check.positive("epsilon", epsilon)
    grid = Grid.of(value, check.positive("sensitivity", sensitivity))
    offer, scale = _laplace_offer(
        grid, float(sensitivity), float(epsilon), check.probability("confidence", confidence), terms.neighbours
    )
    return offer.drawn(lambda chance: grid.noisy(value, lambda n: draws.discrete_laplace(scale, n, chance)), terms)


def gaussian(
    value: object,
    *,
    sensitivity: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | str | None = None,
    confidence: float = 0.95,
    ledger: Charger | None = None,
    key: str | None = None,
    rng: Random = None,
) -> Answer:
    r"""Release a number, or an array of numbers, with Gaussian noise.

    A whole number: M(D) = f(D) + N_Z(0, (z s)^2), the discrete Gaussian, z calibrated on that event.
    Else: M(D) = h (round(f(D)/h) + round(N(0, (z S)^2 I))), S = grid steps of one record in Euclidean norm. That is
    the rounded value of a Gaussian mechanism on whole numbers, so its event is `Gaussian(z)` in any dimension.

    Guarantee: `DiscreteGaussian(z, s)` or `Gaussian(z)`, (epsilon, delta)-DP, drawn exactly, charged before the draw.
    Caller ensures: one record moves `value`, as it was computed, by at most `sensitivity` in Euclidean norm; whether
    `value` is whole or real, and its shape, are public (`sum([])` is a whole number).
    Edge cases: NaN counts as 0, infinities as the largest number; an empty array is returned empty.
    Error: all entries at once are within `error`, with probability `confidence`, before a real number is rounded to a
    float: beyond 2^53 times the error that rounding is larger.
    Reference: Balle and Wang 2018; Canonne, Kamath and Steinke 2020; docs/proofs/sampling.md, Theorems 5 and 6.
    """
    terms, value = Terms(ledger, key, rng, adjacency), collected(value)
    neighbours = terms.neighbours
    epsilon = check.positive("epsilon", epsilon)
    if (delta := check.delta(delta)) == 0:
        raise BadInput("Gaussian noise needs a delta above 0.", fix="Use laplace, which is pure.")
    grid = Grid.of(value, check.positive("sensitivity", sensitivity))
    if grid.whole and isinstance(value, int | np.integer):
        return _discrete(int(wholes(int(value))), int(sensitivity), epsilon, delta, confidence, terms)
    multiplier = scales.gaussian_multiplier(float(epsilon), float(delta), neighbours)
    offer, deviation = _gaussian_offer(
        grid, float(sensitivity), multiplier, check.probability("confidence", confidence), neighbours
    )
    return offer.drawn(lambda chance: grid.noisy(value, lambda n: draws.rounded_normal(deviation, n, chance)), terms)


@lru_cache(maxsize=1024)
def _laplace_offer(
    grid: Grid, sensitivity: float, epsilon: float, confidence: float, neighbours: Adjacency
) -> tuple[Offer, Fraction]:
    """The public part of a Laplace release, and the scale of its noise in steps."""
    event = DiscreteLaplace(scales.pure_multiplier(epsilon, neighbours.sensitivity), grid.l1(sensitivity))
    scale = Fraction(event.noise_multiplier) * event.sensitivity
    draws.check_scale(scale)
    reach = scales.laplace_reach(scale, scales.each_failure(confidence, grid.count))
    return Offer("laplace", event, neighbours, grid.error(reach), confidence, asked=(grid, sensitivity)), scale


@lru_cache(maxsize=1024)
def _gaussian_offer(
    grid: Grid, sensitivity: float, multiplier: float, confidence: float, neighbours: Adjacency
) -> tuple[Offer, Fraction]:
    """The public part of a Gaussian release, and the deviation of its noise in steps."""
    deviation = Fraction(multiplier) * grid.l2(sensitivity)
    draws.check_scale(deviation)
    failure = scales.each_failure(confidence, grid.count)
    reach = max(ceil(scales.normal_reach(float(deviation), failure) - 0.5), 0)
    offer = Offer(
        "gaussian", Gaussian(multiplier), neighbours, grid.error(reach), confidence, asked=(grid, sensitivity)
    )
    return offer, deviation


def _discrete(value: int, sensitivity: int, epsilon: float, delta: float, confidence: float, terms: Terms) -> Answer:
    """One whole number. P(|N_Z| > m) <= P(|N(0, v)| > m): Canonne, Kamath and Steinke 2020, Proposition 25."""
    neighbours = terms.neighbours
    multiplier = scales.discrete_gaussian_multiplier(float(epsilon), float(delta), sensitivity, neighbours)
    event = DiscreteGaussian(multiplier, sensitivity)
    deviation = Fraction(multiplier) * sensitivity
    draws.check_scale(deviation)
    reach = ceil(scales.normal_reach(float(deviation), scales.each_failure(confidence, 1)))
    offer = Offer("gaussian", event, neighbours, float(reach), confidence)

    def draw(chance: Source) -> int:
        return value + int(draws.discrete_gaussian(deviation**2, 1, chance)[0])

    return offer.drawn(draw, terms)
