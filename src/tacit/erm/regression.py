r"""Private least squares from noisy sums of products, in scikit-learn's shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, check, source
from ..core.events import Compose, Gaussian
from .estimator import strength
from .features import PrivateOfRows
from .losses import Floats
from .noise import from_products, gaussian, products, room_of_sums
from .rows import NUMERIC, answers, bounded, checked, fewest, largest_norm, number
from .tables import Schemas, encoded, same_length, schema_of

GAP_OF_SQUARES = "squared error, in squares of the range, on new records, above that on those trained on, on average"
"""The other way round than GAP: an error, which is smaller on records trained on."""


class PrivateLinearRegression(RegressorMixin, PrivateOfRows):
    r"""Private linear regression: theta = (A + N + r I)^-1 (b + v), A = sum x x^T, b = sum x y, on scaled rows.

    Guarantee: the noisy A and b cost two `Gaussian` events, charged before any noise is drawn; the rest is arithmetic
    on what they released. Targets are clipped to `target_range`, rows shortened to `norm_bound`.
    Caller ensures: one row per person; `target_range`, `norm_bound` and the number of records are public.
    The ridge r = `regularization` n, or with "auto" the size of the largest eigenvalue that noise alone makes.
    Reference: Vu and Slavkovic 2009; Wang 2018, Revisiting differentially private linear regression (AdaSSP).
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        target_range: tuple[float, float] | None = None,
        schema: Schemas = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.target_range = target_range
        self.schema = schema
        self.adjacency = adjacency
        self.norm_bound = norm_bound
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.public_size = public_size
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: object, y: ArrayLike | None = None) -> Self:
        """Train on rows X (n, features) and numbers y; one that is not finite counts as the middle of the range."""
        self._begin()
        self._range(), strength(self.regularization)
        x, target = self._training(X, y)
        rows, goal = bounded(x, self._norm_bound(), self.fit_intercept), self._goal(target)
        size = self._size(len(rows))
        budget = self._budget(size)
        if budget.delta == 0:
            raise BadInput(f"{self._name()} needs a delta above 0.")
        noise = budget.gaussian_noise(2)
        self.method_ = "sums of products"
        event = Compose((Gaussian(noise), Gaussian(noise)))
        self.utility_ = {GAP_OF_SQUARES: budget.generalisation_gap(event)}
        self._charge(event, budget)
        rng, features, norm = source(self.random_state), rows.shape[1], largest_norm(self.fit_intercept)
        room = 1 + room_of_sums(self._most(size), features)
        moments = gaussian(products(rows), norm**2 * room, noise, rng)
        pulls = gaussian(rows.T @ goal, norm * room, noise, rng)
        return self._solve(from_products(moments, features), pulls, noise * norm**2 * math.sqrt(features), size)

    def predict(self, X: object) -> Floats:
        """The expected number of each record, within `target_range`."""
        check_is_fitted(self, "coef_")
        rows = self._rows(X, reset=False) * self._norm_bound()
        return np.asarray(np.clip(rows @ self.coef_ + self.intercept_, *self._range()))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the tiny data of scikit-learn's own checks
        return tags

    def _goal(self, target: NDArray[np.generic]) -> Floats:
        """Targets within [-1, 1]: clipped to the range, and its middle where they are not finite."""
        low, high = self._range()
        half = (high - low) / 2
        with np.errstate(all="ignore"):
            plain = target if target.dtype.kind in NUMERIC else [number(value) for value in target.tolist()]
            found = np.array(plain, dtype=np.float64)
        return np.clip((np.clip(np.where(np.isfinite(found), found, low + half), low, high) - low) / half - 1, -1, 1)

    def _solve(self, moments: Floats, pulls: Floats, spread: float, size: int) -> Self:
        """Weights from noisy sums; `spread` is the ridge of "auto": the largest eigenvalue that noise alone makes."""
        asked, low, high = strength(self.regularization), *self._range()
        values, vectors = np.linalg.eigh(moments)
        stretched = np.maximum(values, 0.0) + max(spread if asked is None else asked * size, 1e-12)
        theta = vectors @ ((vectors.T @ pulls) / stretched)
        half = (high - low) / 2
        self.coef_ = (theta[:-1] if self.fit_intercept else theta) * half / self._norm_bound()
        self.intercept_ = float((theta[-1] if self.fit_intercept else 0.0) * half + low + half)
        return self

    def _training(self, X: object, y: ArrayLike | None) -> tuple[Any, NDArray[np.generic]]:
        if self.schema is None:
            return checked(self, X, y, sparse=False)
        if y is None:
            raise BadInput(f"{self._name()} needs the targets as y.", fix="A schema's label is a category.")
        x, _ = encoded(schema_of(self.schema), X, None, labelled=False, fewest=fewest(self))
        self.n_features_in_ = x.shape[1]
        return x, same_length(len(x), answers(y))

    def _range(self) -> tuple[float, float]:
        if not isinstance(self.target_range, Sequence | np.ndarray) or len(self.target_range) != 2:
            raise BadInput(
                f"{self._name()} needs the public range of the target.",
                fix="Give target_range=(low, high); never the smallest and largest of these records.",
            )
        low, high = (check.real("target_range", end) for end in self.target_range)
        if not low < high or not math.isfinite(high - low):
            raise BadInput("target_range must be (low, high) with low below high and a finite width.")
        return low, high


class PrivateRidge(PrivateLinearRegression):
    """Private linear regression with a ridge of your choice: `regularization` is that of the mean squared error."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        target_range: tuple[float, float] | None = None,
        schema: Schemas = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        regularization: float | str = 0.01,
        fit_intercept: bool = True,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            target_range=target_range,
            schema=schema,
            adjacency=adjacency,
            norm_bound=norm_bound,
            regularization=regularization,
            fit_intercept=fit_intercept,
            public_size=public_size,
            ledger=ledger,
            random_state=random_state,
        )
