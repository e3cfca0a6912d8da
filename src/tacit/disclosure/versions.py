r"""Whom did a model forget? Two versions of a model, before and after one record was deleted, tell by their difference.

A record that was learnt is predicted with more confidence while it is in. Its score is log p_before(y|x) -
log p_after(y|x), and the record with the largest score is named. Both versions alone may show little; the difference
shows the one record that it is about.
Reference: Salem et al. 2020 (updates leak); Chen et al. 2021 (when unlearning jeopardises privacy).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check

Floats = NDArray[np.float64]
Predict = Callable[[object], object]
"""Records to probabilities: (n, classes), rows that add up to 1."""
LEAST = 1e-12


@dataclass(frozen=True)
class Versions:
    """`scores` of candidates: the larger, the more likely the record was deleted between the two versions."""

    scores: Floats

    @property
    def named(self) -> int:
        """Index of the candidate with the highest score; of equal scores, the first."""
        return int(np.argmax(self.scores))

    def rank(self, place: int) -> int:
        """Rank of a candidate: how many score at least as high. The candidate that is named for certain has rank 1."""
        if not 0 <= check.whole("place", place, least=0) < len(self.scores):
            raise BadInput(f"place must be below the number of candidates {len(self.scores)}.")
        return int(np.sum(self.scores >= self.scores[place]))


def model_versions(before: Predict, after: Predict, x: object, y: object) -> Versions:
    """Score candidate records (x, y) by how much surer the first version is of their labels than the second.

    before, after: functions that give class probabilities; y: labels as places of classes, 0, 1, ...
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not labels.size or not np.issubdtype(labels.dtype, np.integer):
        raise BadInput("y must hold one label for each candidate, as whole numbers.")
    first, second = (_of_labels(predict(x), labels) for predict in (before, after))
    return Versions(first - second)


def naming_limit(epsilon: float, candidates: int) -> float:
    r"""How often anybody can name the deleted one of m equally likely candidates, where both versions are private.

    The second version is trained without one of them, so two such tables differ by a removal and an addition. No output
    is more than e^{2 epsilon} times likelier under one, and the posterior is at most e^{2 epsilon}/(e^{2 epsilon} + m -
    1) (add-remove, delta 0).
    """
    others = check.whole("candidates", candidates, least=2) - 1
    return 1 / (1 + others * math.exp(-2 * check.nonnegative("epsilon", epsilon)))


def _of_labels(predicted: object, labels: NDArray[np.integer]) -> Floats:
    """Log-probability of each label, with probabilities raised to at least LEAST."""
    table = np.asarray(predicted, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(labels) or labels.min() < 0 or labels.max() >= table.shape[1]:
        raise BadInput(
            "A version must give one row of class probabilities for each candidate, and labels name classes."
        )
    if not np.isfinite(table).all() or (table < -1e-9).any() or np.abs(table.sum(axis=1) - 1).max() > 1e-3:
        raise BadInput("A version must give probabilities that add up to 1.", fix="Use predict_proba, not predict.")
    return np.asarray(np.log(np.maximum(table[np.arange(len(labels)), labels], LEAST)))
