"""Shadow models with attack classifiers (Shokri et al. 2017): learn from models of one's own what members look like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import Observations
from .logistic import logistic
from .registry import References, attack

Floats = NDArray[np.float64]
ROWS = 20_000
"""Training rows of one classifier; more are thinned evenly."""
ENOUGH = 50
"""Members and non-members of a class from which it gets a classifier of its own; other classes share one."""


@attack("shadow", needs=("logits", "label"), references=References.BOTH)
def shadow(target: Observations, references: Observations) -> Floats:
    """Log-odds of a classifier per class, from the sorted answer and the true label's share in it to membership.

    It learns on the references, whose membership is known (Shokri et al. 2017, section V-D, with logistic regression).
    """
    label = target.need("label").astype(np.int64)
    known, member = _features(references), references.need("member").astype(bool)
    asked = _features(target)
    common = _learned(known, member)
    score = np.empty(asked.shape[:2])
    for y in np.unique(label):
        rows = label == y
        inside = int(member[rows].sum())
        own = min(inside, member[rows].size - inside) >= ENOUGH
        predict = _learned(known[rows], member[rows]) if own else common
        score[rows] = predict(asked[rows].reshape(-1, asked.shape[2])).reshape(asked[rows].shape[:2])
    return score


def _learned(features: Floats, member: NDArray[np.bool_]) -> Callable[[Floats], Floats]:
    """Logistic regression over all (record, model) rows, thinned to `ROWS`."""
    x, y = features.reshape(-1, features.shape[2]), member.ravel()
    step = max(1, -(-len(y) // ROWS))
    return logistic(x[::step], y[::step])


def _features(seen: Observations) -> Floats:
    """The three largest log-probabilities, the true label's, and its margin (squeezed), records x models x features."""
    log_p = special.log_softmax(seen.need("logits"), axis=2)
    top = -np.sort(-log_p, axis=2)[..., :3]
    margin = np.arcsinh(seen.need("margin"))
    return np.concatenate(
        (np.maximum(top, -30.0), np.maximum(-seen.need("loss"), -30.0)[..., None], margin[..., None]), 2
    )
