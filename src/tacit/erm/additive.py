"""Private additive trees: one step function per feature, summed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import BadInput, Charger, check
from ..core.events import Gaussian
from ..core.randomness import Source
from .bins import CELLS, WIDE, Bins, Cells, cells_of_array, cells_of_table, counted_bins, equal_bins, widths
from .budget import Budget
from .linear import PrivateLogisticRegression
from .rows import bounded, fewest, read
from .scaling import Bounds, of_width, public_bounds
from .tables import Schemas, encoded, schema_of

BINS_NOISE = 4.0
"""Noise of the counts, in multiples of the noise that would spend the whole budget: it costs a 16th of it."""


class PrivateAdditiveTrees(PrivateLogisticRegression):
    r"""Private boosted trees of one feature each: a sum of step functions, as in an explainable boosting machine.

    Every number is cut into bins that hold a share 1/`bins` of the records, or are an eighth of the range wide on a
    logarithmic scale, whichever comes first, by noisy counts. Boosting trees of one feature minimises the logistic loss
    over sums of step functions, one value per bin. Here the values of all bins are found at once, by the methods of
    `PrivateLogisticRegression`, so noise is paid for once, not in each round. `method="gradient"` boosts in rounds:
    every round adds noisy sums of residuals of all bins.

    Guarantee: `Compose((Gaussian, fit))`: the counts of all cells, then the fit; charged before any noise is drawn.
    Where noise would hide the counts, bins have equal widths and cost nothing; public numbers decide.
    Caller ensures: one row per person; `schema`, or `bounds` (low, high) of the features, and `classes` are public.
    Reference: Nori, Caruana, Bu, Shen and Kulkarni 2021, Accuracy, interpretability and differential privacy via
    explainable boosting (DP-EBM); docs/proofs/erm.md, Theorem 4.
    """

    _sparse = False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        bins: int = 8,
        bounds: Bounds = None,
        method: str = "auto",
        schema: Schemas = None,
        classes: Sequence[object] | None = None,
        adjacency: str = "add-remove",
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        public_size: int | None = None,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bins = bins
        self.bounds = bounds
        self.method = method
        self.schema = schema
        self.classes = classes
        self.adjacency = adjacency
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.public_size = public_size
        self.ledger = ledger
        self.random_state = random_state

    def contributions(self, X: object) -> NDArray[np.float64]:
        """What each feature adds to the decision, for two classes: shape (n, features). Their sum and `intercept_`
        are the decision."""
        if len(self.classes_) > 2:
            raise BadInput("contributions are those of two classes.")
        found, starts = self._asked(X).multiply(self.coef_[0]).tocsr(), np.cumsum(self.bins_.widths)[:-1]
        ends = [0, *starts.tolist(), self.bins_.width]
        parts = [found[:, low:high].sum(axis=1) for low, high in pairwise(ends)]
        return np.asarray(np.concatenate([np.asarray(part) for part in parts], axis=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on the tiny data of scikit-learn's own checks
        return tags

    def _training(self, X: object, y: ArrayLike | None) -> tuple[Any, NDArray[np.generic]]:
        if self.schema is not None:
            x, labels = super()._training(X, y)
            return cells_of_table(x, schema_of(self.schema)), labels
        bounds = public_bounds(self.bounds, self._name())
        x, labels = super()._training(X, y)
        return cells_of_array(x, of_width(bounds, x.shape[1])), labels

    def _asked(self, X: object) -> Any:
        if self.schema is not None:
            x, _ = encoded(schema_of(self.schema), X, None, labelled=False, fewest=fewest(self))
            cells = cells_of_table(x, schema_of(self.schema))
        else:
            x = read(self, X, sparse=False, reset=False)
            cells = cells_of_array(x, of_width(public_bounds(self.bounds, self._name()), x.shape[1]))
        return bounded(self.bins_.rows(cells), self._norm_bound(), False) * self._norm_bound()

    def _norm_bound(self) -> float:
        """Every feature is one indicator."""
        features = self.n_features_in_ if self.schema is None else len(schema_of(self.schema).features)
        return math.sqrt(features)

    def _beside(self, x: Cells, budget: Budget) -> Gaussian | None:
        """Counts of cells, where noise does not hide them: public numbers decide."""
        if budget.delta == 0 or not x.numbers:
            return None
        noise = BINS_NOISE * replace(budget, models=1).gaussian_noise()
        spread = noise * math.sqrt(x.numbers) * math.sqrt(CELLS / self._parts())
        return Gaussian(noise) if 2 * spread <= self._size(x.shape[0]) / self._parts() else None

    def _width(self, x: Cells, budget: Budget) -> int:
        return sum(widths(x, WIDE if budget.beside is None else self._parts() + WIDE))

    def _prepared(self, x: Cells, budget: Budget, rng: Source) -> object:
        counted = budget.beside
        noise = counted.noise_multiplier if isinstance(counted, Gaussian) else None
        self.bins_: Bins = (
            equal_bins(x, WIDE) if noise is None else counted_bins(x, self._size(x.shape[0]), self._parts(), noise, rng)
        )
        return self.bins_.rows(x)

    def _parts(self) -> int:
        parts = check.whole("bins", self.bins, least=2)
        if parts > CELLS - WIDE:
            raise BadInput(f"bins must be at most {CELLS - WIDE}, got {parts}.")
        return parts
