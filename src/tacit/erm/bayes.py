"""Private naive Bayes with normal features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, source
from ..core.events import Gaussian
from .labelled import GAP, PrivateClassifier
from .losses import Floats
from .noise import gaussian, room_of_sums
from .rows import bounded, products_by_row
from .tables import Schemas

SHARE = math.sqrt(3.0)
"""Norm of one record's (1, x, x^2), for a row x of norm at most 1: |x^2| <= |x|^2."""


class PrivateGaussianNB(PrivateClassifier):
    r"""Private naive Bayes: each feature is normal given the class.

    M(D) = for each class, sum over its records of (1, x, x^2), plus N(0, (z s)^2 I), s = sqrt(3), rows of norm at most
    1; a record counts in one class.

    Guarantee: `Gaussian(z)`, charged before any noise is drawn; shares, means and variances are computed from it.
    Caller ensures: one row per person; `norm_bound` or `schema`, `classes` and the number of records are public.
    Edge cases: a value that is not finite counts as 0; a record of no listed class counts as nothing.
    Reference: Vaidya, Shafiq, Basu and Hong 2013, Differentially private naive Bayes classification.
    """

    _result = "theta_"
    _released = "the shares of the classes and the means and variances of the features"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        schema: Schemas = None,
        classes: Sequence[object] | None = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.classes = classes
        self.adjacency = adjacency
        self.norm_bound = norm_bound
        self.public_size = public_size
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: object, y: ArrayLike | None = None) -> Self:
        """Train on rows X (n, features) and labels y; with `schema`, on a table that may hold its label itself."""
        self._begin()
        x, place = self._read(X, y)
        rows = bounded(x, self._norm_bound(), False)
        size = self._size(len(rows))
        budget = self._budget(size)
        if budget.delta == 0:
            raise BadInput("PrivateGaussianNB needs a delta above 0.")
        noise = budget.gaussian_noise()
        self.method_ = "noisy sums"
        event = Gaussian(noise)
        self.utility_ = {GAP: budget.generalisation_gap(event)}
        self._charge(event, budget)
        self._solve(self._sums(rows, place), noise, size)
        return self

    def _sums(self, rows: Floats, place: NDArray[np.int64]) -> Floats:
        """(1, x, x^2) summed over the records of each class: shape (classes, 1 + 2 features)."""
        parts = []
        for each in range(len(self.classes_)):
            own = rows[place == each]
            parts.append(np.concatenate(([float(len(own))], own.sum(axis=0), (own * own).sum(axis=0))))
        return np.stack(parts)

    def _solve(self, sums: Floats, noise: float, size: int) -> None:
        features, scale = (sums.shape[1] - 1) // 2, self._norm_bound()
        share = SHARE * (1 + room_of_sums(self._most(size), features))
        noisy = gaussian(sums, share, noise, source(self.random_state))
        count = np.clip(noisy[:, :1], min(noise * share, size / len(sums)), size)
        mean = np.clip(noisy[:, 1 : 1 + features] / count, -1.0, 1.0)
        floor = np.maximum(noise * share / count, 1e-9)  # what noise alone makes of a variance
        variance = np.clip(noisy[:, 1 + features :] / count - mean * mean, np.minimum(floor, 1.0 / features), 1.0)
        self.theta_, self.var_ = mean * scale, variance * scale**2
        self.class_count_ = count[:, 0]
        self.class_prior_ = self.class_count_ / self.class_count_.sum()

    def predict_joint_log_proba(self, X: object) -> Floats:
        """The logarithm of P(class) times the density of the record given the class: shape (n, classes)."""
        check_is_fitted(self, self._result)
        x = self._asked(X)
        spread = np.log(2 * math.pi * self.var_).sum(axis=1)
        far = products_by_row(x * x, (1 / self.var_).T) - 2 * products_by_row(x, (self.theta_ / self.var_).T)
        far = far + (self.theta_**2 / self.var_).sum(axis=1)
        return np.asarray(np.log(self.class_prior_) - (spread + far) / 2)

    def predict_proba(self, X: object) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        return np.asarray(special.softmax(self.predict_joint_log_proba(X), axis=1))

    def _answered(self, X: object) -> NDArray[np.int64]:
        return np.asarray(self.predict_joint_log_proba(X).argmax(axis=1))
