"""Private linear classifiers in scikit-learn's shape."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..core import BadInput, Charger, Event, PrivacyWarning, check, source
from ..core.events import Repeat
from .budget import Budget
from .choice import chosen
from .estimator import PrivateEstimator
from .losses import Floats, Logistic, MarginLoss, SmoothHinge
from .methods import Design, Shape, run
from .problem import Problem
from .rows import answers, bounded, checked, largest_norm, places, read, signs
from .softmax import Softmax, descend
from .tables import encoded, row_norm, schema_of

READ = "the list of classes: it was read off the data"
Schemas = Any
"""A Schema, or the path of a file that holds one."""


class PrivateLinearClassifier(ClassifierMixin, PrivateEstimator):
    """What private linear classifiers share; use one that names its loss.

    Guarantee: the released weights cost `bound_`, the cost of `event_`, charged to `ledger` before any noise is drawn.
    Caller ensures: one row per person, and that all arguments are public, the number of records included.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        method: str = "auto",
        schema: Schemas = None,
        classes: Sequence[Any] | None = None,
        adjacency: str = "add-remove",
        norm_bound: float = 1.0,
        regularization: float | str = "auto",
        fit_intercept: bool = True,
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
        self.ledger = ledger
        self.random_state = random_state

    def _loss(self) -> MarginLoss:
        raise NotImplementedError

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Train on rows X (n, features) and labels y; with `schema`, on a table that may hold its label itself."""
        self._begin()
        x, labels = self._training(X, y)
        self.classes_ = self._classes(labels)
        place = labels if self.schema is not None else places(labels, self.classes_)
        budget = self._budget(x.shape[0], 1 if len(self.classes_) == 2 else len(self.classes_))
        rows = bounded(x, self._norm_bound(), self.fit_intercept)
        design = self._design(rows, budget)
        self.method_, self.reason_ = design.method, design.reason
        self.utility_ = {} if design.excess is None else {"excess of the mean objective, 95 %": design.excess}
        self._charge(self._event(design, budget), budget)
        theta = self._solved(rows, place, design, budget)
        self.coef_ = (theta[:, :-1] if self.fit_intercept else theta) / self._norm_bound()
        self.intercept_ = theta[:, -1] if self.fit_intercept else np.zeros(len(theta))
        self.n_iter_ = design.steps
        return self

    def decision_function(self, X: Any) -> Floats:
        """One number per record for two classes, else one per record and class: larger means likelier."""
        check_is_fitted(self, "coef_")
        found = np.asarray(self._asked(X) @ self.coef_.T + self.intercept_)
        return found[:, 0] if len(self.classes_) == 2 else found

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each record."""
        found = self.decision_function(X)
        place = (found > 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)
        return np.asarray(self.classes_[place])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _not_covered(self) -> tuple[str, ...]:
        if self.schema is None:
            return (READ,) if self.classes is None else ()
        derived = schema_of(self.schema).derived
        return (f"ranges or words read off the data: {', '.join(derived)}",) if derived else ()

    def _training(self, X: Any, y: ArrayLike | None) -> tuple[Any, NDArray[Any]]:
        if self.schema is not None:
            x, labels = encoded(schema_of(self.schema), X, y)
            self.n_features_in_ = x.shape[1]
            return x, labels
        x, labels = checked(self, X, y, sparse=True, guess=self.classes is None)
        if self.classes is None:
            check_classification_targets(labels)
        return x, labels

    def _asked(self, X: Any) -> Any:
        if self.schema is not None:
            x, _ = encoded(schema_of(self.schema), X, None, labelled=False)
        else:
            x = read(self, X, sparse=True, reset=False)
        return bounded(x, self._norm_bound(), False) * self._norm_bound()

    def _classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        if self.schema is not None:
            return np.asarray(several(schema_of(self.schema).classes))
        if self.classes is not None:
            return several(self.classes)
        warnings.warn(
            "The classes were read off the data, which no proof covers. Give classes= to the estimator.",
            PrivacyWarning,
            stacklevel=3,
        )
        found = np.unique(labels)
        if found.size < 2:
            raise BadInput(f"{self._name()} needs samples of at least 2 classes; the data has one class.")
        return found

    def _norm_bound(self) -> float:
        if self.schema is not None:
            return row_norm(schema_of(self.schema))
        return check.positive("norm_bound", self.norm_bound)

    def _design(self, rows: Any, budget: Budget) -> Design:
        norm, loss = largest_norm(self.fit_intercept), self._loss()
        several = len(self.classes_) > 2
        wanted = self._strength()
        margin = Shape(rows.shape[0], rows.shape[1], loss.lipschitz * norm, loss.smoothness * norm**2, wanted)
        softmax = None
        if several and isinstance(loss, Logistic):
            softmax = Shape(rows.shape[0], rows.shape[1], 2**0.5 * norm, norm**2 / 2, wanted)
        return chosen(self.method, margin, budget, softmax)

    def _event(self, design: Design, budget: Budget) -> Event:
        one = budget.models == 1 or design.method == "softmax"
        return design.event if one else Repeat(design.event, budget.models)

    def _solved(self, rows: Any, place: NDArray[np.int64], design: Design, budget: Budget) -> Floats:
        """Weights, one row per model: one model for two classes, else one per class."""
        rng, norm, count = source(self.random_state), largest_norm(self.fit_intercept), len(self.classes_)
        if design.method == "softmax":
            return descend(Softmax(rows, place, count, norm), design, rng)
        wanted = range(1, 2) if count == 2 else range(count)
        problems = (Problem(rows, signs(place, positive), self._loss(), norm) for positive in wanted)
        return np.stack([run(problem, design, budget, rng) for problem in problems])


def several(classes: Sequence[Any]) -> NDArray[Any]:
    """A public list of classes, as numbers or texts, or as objects where it holds both."""
    named = [name.item() if isinstance(name, np.generic) else name for name in classes]
    if len(named) < 2 or len(set(named)) < len(named):
        raise BadInput("classes must be at least two different labels.")
    texts = {isinstance(name, str) for name in named}
    return np.asarray(named) if len(texts) == 1 else answers(named)


class PrivateLogisticRegression(PrivateLinearClassifier):
    """Private logistic regression: two classes by the best of four methods, more by softmax regression.

    `norm_bound` bounds the norm of a row; longer rows are shortened. `regularization` is that of the mean loss.
    `delta` None is 1/n^2. `random_state` None draws from the operating system's cryptographic source.
    """

    def _loss(self) -> MarginLoss:
        return Logistic()

    def predict_proba(self, X: Any) -> Floats:
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
