"""Shares of 0 and 1 in full: what an estimator that rounds its shares to these says in logarithms.

Naive Bayes, discriminant analysis and logistic regression compute logarithms first, and their shares are often exactly
0 or 1. An attacker who has the estimator asks for the logarithms: of Gaussian naive Bayes on coarse features they tell
nearly all members, where the shares tell a few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from .records import lent

ALIKE = 1e-3
"""How far shares may lie from those of the logarithms to be the same: logarithms of 1e10 are that inexact."""


def in_full(target: object, shares: Callable[[object], object], x: object) -> object:
    """Logits where some of an estimator's shares are exactly 0 or 1 and it has logits with just these shares.

    Else its shares, as they are.
    """
    told, ask = shares(lent(x)), _logits_of(target)
    if ask is None or not isinstance(told, np.ndarray) or told.ndim != 2 or not ((told == 0) | (told == 1)).any():
        return told
    logits = np.asarray(ask(x))
    logits = np.stack((np.zeros_like(logits), logits), axis=1) if logits.ndim == 1 else logits
    if logits.shape != told.shape or logits.dtype.kind != "f" or not np.isfinite(logits).all():
        return told
    return logits if np.abs(special.softmax(logits, axis=1) - told).max() <= ALIKE else told


def _logits_of(target: object) -> Callable[[Any], object] | None:
    """How to ask for logits: naive Bayes has logarithms of its own, others decision values; None without either.

    Any other estimator's logarithms are those of its shares.
    """
    last = target
    while (inner := getattr(last, "best_estimator_", None) or getattr(last, "_final_estimator", None)) is not None:
        last = inner
    bayes = callable(getattr(last, "predict_joint_log_proba", None))
    found = getattr(target, "predict_log_proba" if bayes else "decision_function", None)
    return found if callable(found) else None
