"""What private classifiers share: how records, labels and classes are read."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..core import BadInput, PrivacyWarning, check
from ..core.arrays import Array
from .estimator import PrivateEstimator
from .rows import answers, bounded, checked, fewest, places, read
from .tables import Schemas, encoded, label_places, read_off, row_norm, schema_of

GAP = "accuracy on records trained on, above that on new ones, on average at most"
READ = "the list of classes: it was read off the data"


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Rows of bounded norm with labels of a public list, or a table with its schema."""

    schema: Schemas
    classes: Sequence[Any] | None
    norm_bound: float
    utility_: dict[str, float]
    classes_: Array
    _sparse = False

    def _read(self, X: object, y: ArrayLike | None) -> tuple[Any, NDArray[np.int64]]:
        """Rows, and the number of each record's class; -1 for a record of none, which counts as nothing."""
        x, labels = self._training(X, y)
        self.classes_ = self._classes(labels)
        return x, labels if self.schema is not None else places(labels, self.classes_)

    def _training(self, X: object, y: ArrayLike | None) -> tuple[Any, Array]:
        if self.schema is not None:
            x, labels = encoded(schema_of(self.schema), X, y, fewest=fewest(self))
            self.n_features_in_ = x.shape[1]
            return x, labels
        x, labels = checked(self, X, y, sparse=self._sparse, guess=self.classes is None)
        if self.classes is None:
            _check_alike(labels)
        return x, labels

    def _asked(self, X: object) -> Any:
        """Rows to predict for, shortened as those of the training were."""
        if self.schema is not None:
            x, _ = encoded(schema_of(self.schema), X, None, labelled=False, fewest=fewest(self))
        else:
            x = read(self, X, sparse=self._sparse, reset=False)
        return bounded(x, self._norm_bound(), False) * self._norm_bound()

    def predict(self, X: object) -> Array:
        """The likeliest class of each record."""
        check_is_fitted(self, self._result)
        return np.asarray(self.classes_[self._answered(X)])

    def _answered(self, X: object) -> NDArray[np.int64]:
        """The number of the likeliest class of each record."""
        raise NotImplementedError

    def score(self, X: object, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """The share of right answers. Labels are read as `fit` reads them; one of no class is never answered rightly.

        Of records that the model was trained on this is no private number.
        """
        check_is_fitted(self, self._result)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(self._right(X, y).astype(np.float64), weights=weights))

    def _right(self, X: object, y: ArrayLike | None) -> NDArray[np.bool_]:
        """Which records are answered rightly, each by itself."""
        if self.schema is not None:
            place = label_places(schema_of(self.schema), X, y, fewest(self))
        elif y is None:
            raise BadInput(f"{self._name()} needs the labels as y.")
        else:
            place = places(answers(y, guess=self.classes is None), self.classes_)
        given = self._answered(X)
        check_consistent_length(given, place)
        return np.asarray(given == place)

    def _classes(self, labels: NDArray[np.generic]) -> NDArray[np.generic]:
        if self.schema is not None:
            own = schema_of(self.schema).classes
            if self.classes is not None and [str(name) for name in self.classes] != list(own):
                raise BadInput("The schema names the classes, and classes= names others.", fix="Leave classes out.")
            return np.asarray(several(own))
        if self.classes is not None:
            return several(self.classes)
        warnings.warn(
            "The classes were read off the data, which no proof covers. Give classes= to the estimator.",
            PrivacyWarning,
            stacklevel=5,
        )
        found = np.unique(labels)
        if found.size < 2:
            raise BadInput(f"{self._name()} needs samples of at least 2 classes; the data has one class.")
        return found

    def _norm_bound(self) -> float:
        if self.schema is not None:
            return row_norm(schema_of(self.schema))
        return check.positive("norm_bound", self.norm_bound)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        return tags

    def _not_covered(self) -> tuple[str, ...]:
        if self.schema is None:
            return (READ,) if self.classes is None else ()
        return read_off(schema_of(self.schema))


def _check_alike(labels: Array) -> None:
    """Labels of which a list of classes can be read off: classes, and all of one kind."""
    try:
        check_classification_targets(labels)
    except TypeError:  # it tells the types of values
        raise BadInput(
            "The classes cannot be read off labels of several kinds, such as texts and missing values.",
            fix="Give classes= to the estimator: then a record with another label counts as nothing.",
        ) from None


def several(classes: Sequence[object]) -> NDArray[np.generic]:
    """A public list of classes, as numbers or texts, or as objects where it holds both."""
    if isinstance(classes, str) or not isinstance(classes, Iterable):
        raise BadInput(f"classes must be a list of labels, got {type(classes).__name__}.")
    named = [name.item() if isinstance(name, np.generic) else name for name in classes]
    if len(named) < 2 or len(set(named)) < len(named):
        raise BadInput("classes must be at least two different labels.")
    texts = {isinstance(name, str) for name in named}
    return np.asarray(named) if len(texts) == 1 else answers(named)
