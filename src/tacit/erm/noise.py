r"""Noise of the private estimators, drawn exactly on public grids.

A computed vector is rounded to multiples of a power of two, far below one record's contribution, and whole noise is
added there. What rounding adds to the contribution is part of the noise, so no bit of the result tells more than the
event that is charged.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..core.randomness import Source
from ..mechanism import draws
from ..mechanism.inputs import off_grid, power_of_two
from ..mechanism.numeric import Grid

Floats = NDArray[np.float64]
TILT_STEPS = 1 << 24
"""Grid steps in one standard deviation of the tilt of an objective."""


def gaussian(value: Floats, contribution: float, noise_multiplier: float, rng: Source) -> Floats:
    r"""h (round(value/h) + round(N(0, (z S)^2 I))), S = grid steps of `contribution` in Euclidean norm.

    Guarantee: `Gaussian(noise_multiplier)`, drawn exactly.
    Caller ensures: one record moves `value`, as it was computed, by at most `contribution`; the event was charged.
    Edge cases: NaN counts as 0, infinities as the largest number.
    Reference: docs/proofs/sampling.md, Theorem 6.
    """
    grid = Grid.of(np.asarray(value, dtype=np.float64), contribution)
    deviation = Fraction(noise_multiplier) * grid.l2(contribution)
    found = grid.noisy(value, lambda count: draws.rounded_normal(deviation, count, rng))
    return np.asarray(found, dtype=np.float64)


def normal(scale: float, count: int, rng: Source) -> tuple[Floats, float]:
    """Numbers b' and a bound on |b' - b|, where b ~ N(0, scale^2 I) exactly and b' is b rounded to a grid."""
    spacing = power_of_two(Fraction(scale) / TILT_STEPS)
    steps = draws.rounded_normal(Fraction(scale) / spacing, count, rng)
    return off_grid(steps, spacing), 0.51 * float(spacing) * float(np.sqrt(count))


def products(rows: Floats) -> Floats:
    r"""sum_i of the products x_ij x_ik, j <= k, as one vector; those with j < k count with the factor sqrt(2).

    So one record's vector has the norm |x_i|^2 exactly, and noise off the diagonal is smaller by sqrt(2) than on it.
    """
    above, factor = _upper(rows.shape[1])
    return np.asarray((rows.T @ rows)[above] * factor)


def products_of_each(rows: Floats) -> Floats:
    """The vector of `products` for every row by itself: shape (n, d (d + 1)/2)."""
    above, factor = _upper(rows.shape[1])
    return np.asarray(rows[:, above[0]] * rows[:, above[1]] * factor)


def from_products(vector: Floats, features: int) -> Floats:
    """The symmetric matrix (features, features) that `products` wrote as a vector."""
    above, factor = _upper(features)
    whole = np.zeros((features, features))
    whole[above] = vector / factor
    return np.asarray(whole + np.triu(whole, 1).T)


def _upper(features: int) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], Floats]:
    above = np.triu_indices(features)
    return above, np.where(above[0] == above[1], 1.0, np.sqrt(2.0))


def room_of_sums(size: int, numbers: int) -> float:
    """By how much rounding may enlarge one record's share of a sum over `size` records, relative to the largest share.

    A sum of n products is off by at most 2(n + 2) 2^-53 times the sum of their sizes, which is at most n shares
    (Higham 2002, section 3.1); two neighbours are off by twice that. `numbers` covers operations on each sum.
    """
    return 8 * (size + numbers + 16) * 2.0**-53 * max(size, 1)
