"""Private principal components."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from scipy import stats
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, check, source
from ..core.events import Gaussian
from .features import PrivateOfRows
from .losses import Floats
from .noise import from_products, gaussian, products, room_of_sums
from .tables import Schemas

MEAN_WEIGHT = 0.5
"""How much sums count beside products in what is released: the noise of means is larger by its inverse."""
LOST = "variance that the best components hold more than these, 95 %"


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateOfRows):
    r"""Private principal components: eigenvectors of a noisy matrix of second moments.

    M(D) = (sum_i x_i x_i^T, w sum_i x_i) + N(0, (z s)^2 I) for rows of norm at most 1, s = sqrt(1 + w^2): one release.

    Guarantee: `Gaussian(z)`, charged before any noise is drawn; means, components and variances are computed from it.
    Caller ensures: one row per person; `norm_bound` or `schema` and the number of records are public.
    Edge cases: a value that is not finite counts as 0; longer rows are shortened.
    After fit `utility_` says how much less variance the components hold than the best ones, with probability 0.95.
    Reference: Dwork, Talwar, Thakurta and Zhang 2014, Analyze Gauss, Algorithm 1; docs/proofs/erm.md, Theorem 11.
    """

    _result = "components_"
    utility_: dict[str, float]
    _released = "the means and components"

    def __init__(
        self,
        n_components: int | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schemas = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.adjacency = adjacency
        self.norm_bound = norm_bound
        self.public_size = public_size
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: object, y: object = None) -> Self:
        """Find components of rows X (n, features); y is not read."""
        self._begin()
        rows = self._rows(X, reset=True)
        count = self._count(rows.shape[1])
        size = self._size(len(rows))
        budget = self._budget(size)
        if budget.delta == 0:
            raise BadInput("PrivatePCA needs a delta above 0.")
        noise = budget.gaussian_noise()
        self.method_ = "sums of products"
        self.utility_ = {LOST: self._lost(noise, size, rows.shape[1], count)}
        self._charge(Gaussian(noise), budget)
        self._solve(*self._moments(rows, noise, size), count)
        return self

    def transform(self, X: object) -> Floats:
        """Coordinates along the components, shape (n, n_components)."""
        check_is_fitted(self, self._result)
        return np.asarray((self._rows(X, reset=False) * self._norm_bound() - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: object) -> Floats:
        """Rows of the original features that have the given coordinates."""
        check_is_fitted(self, self._result)
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.components_ + self.mean_)

    def _moments(self, rows: Floats, noise: float, size: int) -> tuple[Floats, Floats]:
        """Noisy second moments and means of the rows."""
        features = rows.shape[1]
        share = math.hypot(1.0, MEAN_WEIGHT) * (1 + room_of_sums(self._most(size), features))
        both = np.concatenate((products(rows), MEAN_WEIGHT * rows.sum(axis=0)))
        found = gaussian(both, share, noise, source(self.random_state)) / size
        return from_products(found[:-features], features), found[-features:] / MEAN_WEIGHT

    def _lost(self, noise: float, size: int, features: int, count: int) -> float:
        """How much less variance these components hold than the best ones: docs/proofs/erm.md, Theorem 11."""
        deviation = 1.01 * noise * math.hypot(1.0, MEAN_WEIGHT) / size  # 1 % for the grid
        products_off = deviation * (math.sqrt(2 * features) + math.sqrt(2 * math.log(50)))
        means_off = deviation / MEAN_WEIGHT * math.sqrt(float(stats.chi2.ppf(0.99, features)))
        most = self._most(size) / size
        return 2 * count * (products_off + 2 * most * means_off + means_off**2) * self._norm_bound() ** 2

    def _solve(self, moments: Floats, mean: Floats, count: int) -> None:
        scale = self._norm_bound()
        values, vectors = np.linalg.eigh(moments - np.outer(mean, mean))
        order = np.argsort(values)[::-1][:count]
        found = vectors[:, order].T
        largest = found[np.arange(count), np.abs(found).argmax(axis=1)]
        self.components_ = found * np.where(largest < 0, -1.0, 1.0)[:, None]
        self.mean_ = mean * scale
        self.explained_variance_ = np.maximum(values[order], 0.0) * scale**2
        self.n_components_ = count

    def _count(self, features: int) -> int:
        if self.n_components is None:
            return features
        count = check.whole("n_components", self.n_components)
        if count > features:
            raise BadInput(f"n_components must be at most the number of features, {features}, got {count}.")
        return count

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)
