"""Private linear classifiers in scikit-learn's shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.utils.validation import check_is_fitted

from ..core import Charger, Event, Source, source
from ..core.events import ApproximateDP, walk
from .budget import Budget
from .choice import chosen
from .estimator import FLOATS, strength
from .labelled import GAP as GAP
from .labelled import PrivateClassifier
from .losses import Floats, Logistic, MarginLoss, SmoothHinge
from .methods import run
from .problem import Problem
from .rows import bounded, largest_norm, products_by_row, signs
from .shape import Design, Shape
from .softmax import Softmax, descend
from .tables import Schemas

INTERCEPT = 0.5
"""The constant feature of the intercept, for rows of norm 1; a larger one makes all noise larger. Chosen, with USUAL,
on credit default, heart disease and breast cancer, without Adult: benchmarks/erm_rows.py."""
USUAL = 0.75
"""Rows of a table are shortened to this part of the norm that its schema allows: values hardly ever all lie at the ends
of their ranges, and noise is scaled to the longest row."""
EXCESS = "excess of the mean objective, 95 %"
EXPECTED = "mean objective above that of any weights of norm 1 for rows of norm 1, on average at most"


class PrivateLinearClassifier(PrivateClassifier):
    """Base of the private linear classifiers. Use a subclass, which names its loss.

    Guarantee: the released weights cost `bound_`, the cost of `event_`, charged to `ledger` before any noise is drawn.
    Caller ensures: one row per person, and that all arguments are public, the number of records included.
    """

    _sparse = True
    warm_start = False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        method: str = "auto",
        schema: Schemas = None,
        classes: Sequence[object] | None = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
        public_size: int | None = None,
        warm_start: bool = False,
        ledger: Charger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.schema = schema
        self.classes = classes
        self.adjacency = adjacency
        self.norm_bound = norm_bound
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.public_size = public_size
        self.warm_start = warm_start
        self.ledger = ledger
        self.random_state = random_state

    def _loss(self) -> MarginLoss:
        raise NotImplementedError

    def fit(self, X: object, y: ArrayLike | None = None) -> Self:
        """Train on rows X (n, features) and labels y; with `schema`, on a table that may hold its label itself."""
        before = self._before()
        self._begin()
        x, place = self._read(X, y)
        size, norm = self._size(x.shape[0]), self._norm_bound()
        budget = self._budget(size, self._models())
        budget = replace(budget, beside=self._beside(x, budget))
        loss = self._loss()  # read once: what is charged for is what is minimised
        design = self._design(size, self._width(x, budget) + bool(self.fit_intercept), budget, loss)
        self.method_, self.reason_, self.n_iter_ = design.method, design.reason, design.steps
        event = self._event(design, budget)
        self.utility_ = {GAP: budget.generalisation_gap(event)}
        promised = ((EXCESS, design.excess), (EXPECTED, design.expected))
        self.utility_ |= {name: value for name, value in promised if value is not None}
        self._charge(event, budget)
        rng = source(self.random_state)
        rows = bounded(self._prepared(x, budget, rng), norm, self._constant())
        theta = self._solved(rows, place, loss, design, budget, rng, before)
        self.coef_ = (theta[:, :-1] if self.fit_intercept else theta) / norm
        self.intercept_ = theta[:, -1] * INTERCEPT if self.fit_intercept else np.zeros(len(theta))
        return self

    def records_needed(self, excess: float, features: int | None = None) -> int:
        """Records for which the theorem promises at most this excess: see `sample_size.records_needed`.

        Nothing is fitted or charged. `features` is their number; a schema tells it.
        """
        from .sample_size import records_needed

        return records_needed(self, excess, features)

    def _before(self) -> Floats | None:
        """Weights of the fit before, for rows of norm 1, where the solver shall begin: they were released."""
        if not self.warm_start or "coef_" not in vars(self):
            return None
        last = self.intercept_[:, None] / INTERCEPT if self.fit_intercept else np.zeros((len(self.coef_), 0))
        return np.hstack((self.coef_ * self._norm_bound(), last))

    def _norm_bound(self) -> float:
        return super()._norm_bound() * (1.0 if self.schema is None else USUAL)

    @property
    def _room(self) -> int:
        """The theorem about the last iterate (`LastIterate`) is for at most `size` records, which is public_size."""
        return 1 if self.method == "dynamics" else super()._room

    def _models(self) -> int:
        """How many models there are: one for two classes, else one for each."""
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _constant(self) -> float:
        """The feature that stands for the intercept; 0 for none."""
        return INTERCEPT if self.fit_intercept else 0.0

    def _beside(self, x: Any, budget: Budget) -> Event | None:
        """The event of what is released besides the weights; here nothing is."""
        return None

    def _width(self, x: Any, budget: Budget) -> int:
        """How many features the rows will have: a public number."""
        return int(x.shape[1])

    def _prepared(self, x: Any, budget: Budget, rng: Source) -> object:
        """The rows in the form that is fitted; called after the charge."""
        return x

    def decision_function(self, X: object) -> Floats:
        """One number per record for two classes, else one per record and class: larger means likelier."""
        check_is_fitted(self, "coef_")
        found = products_by_row(self._asked(X), self.coef_.T) + self.intercept_
        return found[:, 0] if len(self.classes_) == 2 else found

    def _answered(self, X: object) -> NDArray[np.int64]:
        found = self.decision_function(X)
        return np.asarray(found > 0, dtype=np.int64) if found.ndim == 1 else found.argmax(axis=1)

    def _not_covered(self) -> tuple[str, ...]:
        pure = any(isinstance(part, ApproximateDP) for part in walk(self.event_))
        return ((FLOATS,) if pure or self.method_ == "dynamics" else ()) + super()._not_covered()

    def _design(self, size: int, features: int, budget: Budget, loss: MarginLoss) -> Design:
        norm = largest_norm(self._constant())
        several = len(self.classes_) > 2
        wanted = strength(self.regularization)
        most = None if self.public_size is None else self._most(size)
        start = float(loss.value(np.zeros(1))[0])
        margin = Shape(size, features, loss.lipschitz * norm, loss.smoothness * norm**2, wanted, start, most)
        softmax = None
        if several and isinstance(loss, Logistic):
            softmax = Shape(size, features * len(self.classes_), 2**0.5 * norm, norm**2 / 2, wanted, most=most)
        return chosen(self.method, margin, budget, softmax)

    def _event(self, design: Design, budget: Budget) -> Event:
        return replace(budget, models=1 if design.method == "softmax" else budget.models).whole(design.event)

    def _solved(
        self,
        rows: Any,
        place: NDArray[np.int64],
        loss: MarginLoss,
        design: Design,
        budget: Budget,
        rng: Source,
        before: Floats | None,
    ) -> Floats:
        """Weights, one row per model: one model for two classes, else one per class. Solvers begin at `before`, if it
        is of this shape."""
        norm, count = largest_norm(self._constant()), len(self.classes_)
        if design.method == "softmax":
            return descend(Softmax(rows, place, count, norm, self.public_size), design, rng)
        wanted = range(1, 2) if count == 2 else range(count)
        fits = before is not None and before.shape == (len(wanted), rows.shape[1])
        starts: list[Floats | None] = list(before) if before is not None and fits else [None] * len(wanted)
        problems = (Problem(rows, signs(place, positive), loss, norm, self.public_size) for positive in wanted)
        found = zip(problems, starts, strict=True)
        return np.stack([run(problem, design, budget, rng, start) for problem, start in found])


class PrivateLogisticRegression(PrivateLinearClassifier):
    """Private logistic regression: two classes by the best of four methods, more by softmax regression.

    `norm_bound` bounds the norm of a row; longer rows are shortened. `regularization` is that of the mean loss.
    `delta` None is 1/n^2. `random_state` None draws from the operating system's cryptographic source. With `warm_start`
    the solver of a second fit begins at the weights of the first, which is faster in a sweep over epsilon; each fit is
    a release of its own.
    """

    def _loss(self) -> MarginLoss:
        return Logistic()

    def predict_proba(self, X: object) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        found = self.decision_function(X)
        if found.ndim == 1:
            share = special.expit(found)
            return np.stack((1 - share, share), axis=1)
        if self.method_ == "softmax":
            return np.asarray(special.softmax(found, axis=1))
        share = special.expit(found)
        return np.asarray(share / share.sum(axis=1, keepdims=True))


class PrivateSVC(PrivateLinearClassifier):
    """A private linear support vector machine: the hinge loss with its corner rounded, so that theorems hold."""

    def _loss(self) -> MarginLoss:
        return SmoothHinge()


def quoted(model: PrivateLinearClassifier, size: int, features: int) -> tuple[Design, Event, Budget]:
    """How a model with public classes would be fitted to so many records and features, and what that costs."""
    model.classes_ = model._classes(np.zeros(0))
    budget = model._budget(size, model._models())
    design = model._design(size, features + bool(model.fit_intercept), budget, model._loss())
    return design, model._event(design, budget), budget
