r"""Least squares from records that each person randomised: the local model, in which nobody is trusted with records."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..core import Adjacency, BadInput, Charger, Evidence, source
from ..core.events import Gaussian
from ..core.randomness import Source
from .budget import Budget
from .estimator import paid, strength
from .losses import Floats
from .noise import from_products, gaussian, products_of_each
from .regression import PrivateLinearRegression
from .rows import bounded, largest_norm
from .tables import Schemas

SENT = ("products", "rows")
FARTHEST = 1e100
"""Whatever is sent counts as at most this, so that no sum overflows."""
APART = "nobody: records were randomised before they were collected"
TOGETHER = "whoever ran this experiment held all records and randomised them; in use, each person does that"


class PrivateLocalRegression(PrivateLinearRegression):
    r"""Linear regression by input perturbation: every person adds noise to what is sent, and only that is read.

    `sends="products"`: each sends x x^T and x y with noise; sums of them are unbiased. `sends="rows"`: each sends
    (x, y) with noise; the noise of x adds n (z s)^2 I to the sum of x x^T, which is subtracted.

    Guarantee: what one person sends is a `Gaussian(z)` event for any two records that the person might have (replace):
    epsilon-delta local differential privacy. Whoever collects is not trusted, and sees everything that is sent.
    Caller ensures: `target_range`, `norm_bound` or `schema` are public. To randomise where the records are, call
    `randomized` there, one person at a time, and `fit_sent` on what arrives; `fit` does both, for an experiment.
    The noise of n people adds up: the error is larger than in the central model by about sqrt(n).
    Reference: Kasiviswanathan et al. 2011 (local learning); Fukuchi, Tran and Sakuma 2017, Differentially private
    empirical risk minimization with input perturbation; Wang, Gaboardi, Smith and Xu 2020, Theorem 2 (least squares).
    """

    _released = "what every person sent"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        sends: str = "products",
        target_range: tuple[float, float] | None = None,
        schema: Schemas = None,
        norm_bound: float = 1.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon, delta, target_range=target_range, schema=schema, adjacency="replace", norm_bound=norm_bound,
            regularization=regularization, fit_intercept=fit_intercept, ledger=ledger, random_state=random_state,
        )  # fmt: skip
        self.sends = sends

    def fit(self, X: object, y: ArrayLike | None = None) -> Self:
        """Randomise every record by itself, and learn from what was sent."""
        self._begin()
        x, target = self._training(X, y)
        budget, rng = self._local(), source(self.random_state)
        self.method_, self.trust_ = f"input perturbation, {self.sends}", TOGETHER
        self._charge(Gaussian(budget.gaussian_noise()), budget)
        return self._learn(self._sent(x, target, rng))

    def randomized(self, X: object, y: ArrayLike) -> Floats:
        """What the people of these records send: one row each, which nothing but their own record goes into.

        A ledger is charged before the draw. `fit_sent` charges the collector's ledger, if there is one, once more.
        """
        budget = self._local()
        x, target = self._training(X, y)
        rng = self._noise_source()
        if self.ledger is not None:
            paid(self.ledger, Gaussian(budget.gaussian_noise()), budget.adjacency, self._name())
        return self._sent(x, target, rng)

    def fit_sent(self, sent: ArrayLike) -> Self:
        """Fit to rows that people randomized themselves, by `randomized`."""
        self._begin()
        budget, rows = self._local(), self._arrived(sent)
        self.n_features_in_ = self._features(rows.shape[1]) - bool(self.fit_intercept)
        self.method_, self.trust_ = f"input perturbation, {self.sends}", APART
        self._charge(Gaussian(budget.gaussian_noise()), budget)
        return self._learn(rows)

    def _arrived(self, sent: ArrayLike) -> Floats:
        """What people sent, one row each; a row that is not of finite numbers counts as nothing sent."""
        rows = np.asarray(sent, dtype=np.float64)
        features = self._features(rows.shape[1]) if rows.ndim == 2 else 0
        wanted = features + 1 if self.sends == "rows" else features * (features + 3) // 2
        if features <= bool(self.fit_intercept) or rows.shape[1] != wanted:
            raise BadInput("What was sent must be rows as `randomized` makes them, with the same settings.")
        return np.clip(np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0), -FARTHEST, FARTHEST)

    def evidence(self) -> Evidence:
        """The claim for each person, and who had to be trusted with records before they were randomised."""
        found = super().evidence()
        return found.with_(threat={**found.threat, "trust": self.trust_})

    def _local(self) -> Budget:
        if self.sends not in SENT:
            raise BadInput(f"sends must be one of {', '.join(SENT)}, got {self.sends!r}.")
        self._range(), strength(self.regularization)
        budget = self._budget(2)
        if budget.delta == 0 or budget.adjacency is not Adjacency.REPLACE:
            raise BadInput(f"{self._name()} needs a delta above 0.")
        return budget

    def _sent(self, x: Any, target: Any, rng: Source) -> Floats:
        """One row per person, with noise for the norm that any record's numbers may have."""
        rows = bounded(x, self._norm_bound(), self.fit_intercept)
        goal = self._goal(target)
        norm = largest_norm(self.fit_intercept)
        if self.sends == "rows":
            plain, share = np.column_stack((rows, goal)), math.hypot(norm, 1.0)
        else:
            plain, share = np.column_stack((products_of_each(rows), rows * goal[:, None])), math.hypot(norm**2, norm)
        return gaussian(plain, share * (1 + 1e-9), self._local().gaussian_noise(), rng)

    def _learn(self, sent: Floats) -> Self:
        size, features, noise = len(sent), self._features(sent.shape[1]), self._local().gaussian_noise()
        norm = largest_norm(self.fit_intercept)
        if self.sends == "rows":
            deviation = noise * math.hypot(norm, 1.0) * (1 + 1e-9)
            moments = sent[:, :-1].T @ sent[:, :-1] - size * deviation**2 * np.eye(features)
            pulls, spread = sent[:, :-1].T @ sent[:, -1], deviation**2 + deviation
        else:
            spread = noise * math.hypot(norm**2, norm)
            total = sent.sum(axis=0)
            moments, pulls = from_products(total[:-features], features), total[-features:]
        return self._solve(moments, pulls, spread * math.sqrt(size * features), size)

    def _features(self, width: int) -> int:
        """Of a row that was sent, how many features the record has, with the one for the intercept."""
        return width - 1 if self.sends == "rows" else round((math.sqrt(9 + 8 * width) - 3) / 2)
