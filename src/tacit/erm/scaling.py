"""Private means and spreads of features, by which rows are scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, check, source
from ..core.events import Compose, Gaussian
from ..core.randomness import Source
from .budget import Budget
from .estimator import PrivateEstimator
from .losses import Floats
from .noise import gaussian, room_of_sums
from .rows import read

SMALLEST, LARGEST = -40, 40
"""Bounds are looked for between 2^SMALLEST and 2^LARGEST, on both sides of 0."""
Bounds = tuple[ArrayLike, ArrayLike] | str | None


class PrivateStandardScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    r"""Scale features to mean 0 and spread 1, by private means and variances.

    M(D) = sum_i (t_i, t_i^2 - 1/2) + N(0, (z s)^2 I), t in [-1, 1]^d the place of a value within `bounds`,
    s = sqrt(1.25 d).

    `bounds` (low, high): public numbers, or arrays of one number per feature. "private" spends half of the budget (as a
    noise of the same size) on noisy counts of values between powers of two, and takes the outermost frequent ones.

    Guarantee: `Gaussian(z)`, or two of them, charged before any noise is drawn.
    Caller ensures: one row per person; `bounds` and the number of records are public.
    Edge cases: a value that is not finite counts as the middle of its bounds, and becomes 0; others are clipped.
    """

    _result = "scale_"
    _released = "the means and spreads of the features"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bounds: Bounds = None,
        adjacency: str = "add-remove",
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.adjacency = adjacency
        self.public_size = public_size
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> Self:
        """Find means and spreads of rows X (n, features); y is not read."""
        self._begin()
        given = self._given()
        x = read(self, X, sparse=False, reset=True)
        given = None if given is None else of_width(given, x.shape[1])
        size = self._size(len(x))
        budget = self._budget(size)
        if budget.delta == 0:
            raise BadInput("PrivateStandardScaler needs a delta above 0.")
        noise = self._noise(budget, found=given is None)
        self._charge(Gaussian(noise) if given else Compose((Gaussian(noise), Gaussian(noise))), budget)
        self._solve(x, given, noise, size)
        return self

    def _noise(self, budget: Budget, *, found: bool) -> float:
        self.method_ = "noisy sums, bounds found by noisy counts" if found else "noisy sums"
        return budget.gaussian_noise(2 if found else 1)

    def _solve(self, x: Floats, given: tuple[Floats, Floats] | None, noise: float, size: int) -> None:
        rng, features = source(self.random_state), x.shape[1]
        low, high = found_bounds(x, noise, rng) if given is None else given
        half = (high - low) / 2
        middle = low + half
        self.low_, self.high_ = middle - half, middle + half
        place = (self._clipped(x) - middle) / half
        np.clip(place, -1.0, 1.0, out=place)
        share = math.sqrt(1.25 * features) * (1 + room_of_sums(self._most(size), features))
        sums = np.concatenate((place.sum(axis=0), (place * place - 0.5).sum(axis=0)))
        means = gaussian(sums, share, noise, rng) / size
        mean = np.clip(means[:features], -1.0, 1.0)
        variance = means[features:] + 0.5 - mean * mean
        self.mean_ = middle + half * mean
        self.scale_ = half * np.sqrt(np.clip(variance, min(noise * share / size, 1.0), 1.0))
        self.var_ = self.scale_**2

    def transform(self, X: object) -> Floats:
        """Clip to the bounds, subtract the mean and divide by the spread."""
        check_is_fitted(self, self._result)
        x = read(self, X, sparse=False, reset=False)
        return np.asarray((self._clipped(x, self.mean_) - self.mean_) / self.scale_)

    def inverse_transform(self, X: object) -> Floats:
        """Undo `transform`: scaled rows back to the original units."""
        check_is_fitted(self, self._result)
        return np.asarray(np.asarray(X, dtype=np.float64) * self.scale_ + self.mean_)

    @property
    def norm_bound_(self) -> float:
        """The norm that no scaled row exceeds: what an estimator after this one may be given."""
        check_is_fitted(self, self._result)
        farthest = np.maximum(self.high_ - self.mean_, self.mean_ - self.low_) / self.scale_
        return float(np.linalg.norm(farthest)) * (1 + 1e-12)

    def _clipped(self, x: Floats, missing: Floats | None = None) -> Floats:
        middle = self.low_ + (self.high_ - self.low_) / 2 if missing is None else missing
        return np.clip(np.where(np.isfinite(x), x, middle), self.low_, self.high_)

    def _given(self) -> tuple[Floats, Floats] | None:
        private = isinstance(self.bounds, str) and self.bounds == "private"
        return None if private else public_bounds(self.bounds, self._name(), ', or bounds="private"')


def public_bounds(bounds: Bounds, name: str, more: str = "") -> tuple[Floats, Floats]:
    """Bounds (low, high) of the features: numbers, or arrays of one number per feature."""
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray) or len(bounds) != 2:
        raise BadInput(
            f"{name} needs the public bounds of the features.",
            fix=f"Give bounds=(low, high), numbers or one per feature{more}; never those of these records.",
        )
    try:
        low, high = (np.asarray(end, dtype=np.float64) for end in bounds)
    except (TypeError, ValueError):
        raise BadInput(f"{name}: bounds must be numbers, or arrays of numbers.") from None
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    if not (np.all(low < high) and np.all((width >= check.LEAST) & (width <= check.MOST))):
        raise BadInput(
            f"bounds must be (low, high), low below high, with a finite width between {check.LEAST:g} and "
            f"{check.MOST:g}.",
            fix="For two features: bounds=([0, 10], [120, 60]), all lower ends first.",
        )
    return low, high


def of_width(bounds: tuple[Floats, Floats], features: int) -> tuple[Floats, Floats]:
    """Broadcast the bounds to one pair per feature; a single number stands for all features."""
    low, high = bounds
    if not {low.size, high.size} <= {1, features}:
        raise BadInput(f"bounds must hold one number, or one for each of {features} features.")
    return np.broadcast_to(low.ravel(), features), np.broadcast_to(high.ravel(), features)


def found_bounds(x: Floats, noise: float, rng: Source) -> tuple[Floats, Floats]:
    """Bounds of every feature from noisy counts: the outermost powers of two between which values are frequent.

    Guarantee: `Gaussian(noise)`; every record adds 1 to one count of each feature.
    A count of nobody passes for any of all counts with probability 0.05 at most.
    """
    features, levels = x.shape[1], LARGEST - SMALLEST + 1
    edges = 2.0 ** np.arange(SMALLEST, LARGEST)
    value = np.clip(np.where(np.isfinite(x), x, 0.0), -1e300, 1e300)
    level = np.searchsorted(edges, np.abs(value), side="right")  # 0 .. levels - 1
    cell = np.where(value < 0, levels - 1 - level, levels + level)
    counts = np.stack([np.bincount(column, minlength=2 * levels) for column in cell.T]).astype(np.float64)
    share = math.sqrt(features)
    noisy = gaussian(counts, share, noise, rng)
    frequent = noisy > noise * share * math.sqrt(2 * math.log(20 * counts.size))
    outer = 2.0 ** np.arange(SMALLEST, LARGEST + 1)
    tops = np.concatenate((-outer[::-1], outer))  # the end of each cell that is farther from 0
    low = np.where(frequent, tops, np.inf).min(axis=1)
    high = np.where(frequent, tops, -np.inf).max(axis=1)
    low, high = np.where(np.isfinite(low), np.minimum(low, 0.0), -1.0), np.where(np.isfinite(high), high, 1.0)
    return low, np.maximum(high, np.where(low < 0, 0.0, outer[0]))
