"""What a model answers with: labels, probabilities, logits or values, told from the numbers themselves."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from ..core import BadInput
from ..core.arrays import Array
from ..core.resolution import are_shares

DISTURBED = 0.2
"""How far from shares answers may lie before they are taken for logits without asking."""
NEARLY = 1e-3
"""How far shares may lie below 0 or above 1 by rounding and still be shares."""
ROUNDED = 0.05
"""How far, as a part of their sum, whole numbers may lie from one sum and still be shares in steps."""
OUTSIDE = 0.1
"""Share of a regression's answers that may lie outside of two labels by more than their distance."""


class Form(StrEnum):
    """What a model answers with."""

    LABELS = "labels"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    VALUES = "values"


def lost(answer: Array) -> int:
    """How many records got an answer that is not finite."""
    if answer.dtype.kind != "f":
        return 0
    return int((~np.isfinite(answer.reshape(len(answer), -1))).any(axis=1).sum())


def of_one(answer: Array) -> Array:
    """Convert percentages, log-probabilities and shares slightly below 0 to shares that add up to 1.

    Anything else as it is.
    """
    if answer.ndim != 2 or answer.shape[1] < 2 or answer.dtype.kind not in "fiu":
        return answer
    least, most = answer.min(initial=0.0), answer.max(initial=0.0)  # NaN where one is NaN
    if np.isneginf(least):
        return _from_logarithms(answer)
    if not np.isfinite(least + most):
        return answer
    if least < 0 and _within(answer, NEARLY):
        clipped = answer.clip(0, None)
        return clipped if are_shares(clipped) else answer
    if least < 0 or most < 2.0:
        return answer
    if most > 2.0 and are_shares(answer / 100.0):
        return np.asarray(answer / 100.0)
    return _counted(answer)


def _counted(answer: Array) -> Array:
    """Shares, where rows hold whole numbers of at least 0 with one sum: votes, or shares that were rounded to steps.

    A model of 8-bit numbers gives shares in steps of 1/255, each rounded by itself: these sums differ by half a step
    per class at most. Anything else as it is.
    """
    sums = answer.sum(axis=1, dtype=np.float64)
    total = float(np.median(sums)) if sums.size else 0.0
    slack = min(answer.shape[1] / 2, ROUNDED * total)
    whole = total > 1 and bool((np.abs(sums - total) <= slack).all() and (answer == np.floor(answer)).all())
    return np.asarray(answer / sums[:, None]) if whole and not _ranks(answer) else answer


def _ranks(answer: Array) -> bool:
    """Whether every row holds the same numbers in some order: places of classes, and no votes."""
    rows = np.sort(answer, axis=1)
    return bool((rows == rows[0]).all())


def _from_logarithms(answer: Array) -> Array:
    """Shares, where numbers are their logarithms: at most 0, an impossible class at minus infinity."""
    if np.isnan(answer).any() or answer.max(initial=-np.inf) > NEARLY:
        return answer
    shares = np.exp(answer)
    return np.asarray(shares) if are_shares(shares) else answer


def named(said: str) -> Form:
    try:
        return Form(said)
    except ValueError:
        raise BadInput(f"output must be one of auto, {', '.join(Form)}; got {said!r}.") from None


def form_of(answer: Array, y: Array, usual: Form | None) -> Form:
    """What an answer is, from its numbers and the labels; what could be two things is asked about."""
    column = answer.ndim == 1 or (answer.ndim == 2 and answer.shape[1] == 1)
    if answer.dtype.kind in "OUSb" or (column and answer.dtype.kind in "iu"):
        return Form.VALUES if answer.dtype.kind in "iu" and continuous(y) else Form.LABELS
    if column:
        return _one_column(answer, y, usual)
    if answer.ndim != 2:
        raise BadInput("A model must answer with one row per record and one column per class.")
    shares = None if _disturbed(answer) else are_shares(answer)
    if shares is None and usual is not None:
        return usual
    if shares is None:
        raise BadInput(
            "A model's answers look like shares and are not quite: they may be probabilities or logits.",
            fix='Say which with output="probabilities" or output="logits".',
        )
    return Form.PROBABILITIES if shares else Form.LOGITS


def _disturbed(answer: Array) -> bool:
    """Whether answers are nearly shares, with some below 0: noise on probabilities, or scores of one class against all.

    Answers of such a sum are seldom logits, and reading noisy shares as logits would lose most of what they say.
    """
    near = float(answer.min(initial=0.0)) < 0 and _within(answer, DISTURBED)
    return near and bool((np.abs(answer.sum(axis=1, dtype=np.float64) - 1) <= DISTURBED).all())


def noisy_shares(answer: Array) -> Array:
    """Set shares that noise put below 0 to 0; leave answers that lie further off unchanged."""
    low = answer.min(initial=0) < 0 and _within(answer, DISTURBED)
    return np.asarray(answer.clip(0, None)) if low else answer


def _within(answer: Array, slack: float) -> bool:
    """Whether all answers lie between 0 and 1, or at most `slack` outside."""
    return bool(-slack <= answer.min(initial=0.0) and answer.max(initial=0.0) <= 1 + slack)


def _one_column(answer: Array, y: Array, usual: Form | None) -> Form:
    if continuous(y):
        return Form.VALUES
    if np.unique(y).size > 2 and y.dtype.kind in "iuf" and np.isin(answer, y).all() and np.ptp(answer) > 0:
        return Form.LABELS
    if np.unique(y).size > 2:
        raise BadInput(
            "A model answers with one number per record where the labels have more than two classes.",
            fix='Give one column per class, or say output="values" for a regression.',
        )
    if np.isfinite(answer).all() and answer.min(initial=0) >= 0 and answer.max(initial=0) <= 1:
        return Form.PROBABILITIES
    if usual is None and np.isfinite(answer).all() and (answer.min(initial=0) >= 0 or answer.max(initial=0) <= NEARLY):
        raise BadInput(
            "A model's one column lies on one side of 0: it may be logits, percentages or logarithms of shares.",
            fix='Give the second label\'s share of 1, or say output="logits".',
        )
    return Form.LOGITS


def no_labels(answer: Array, y: Array) -> bool:
    """Whether predicted labels are mostly none that the records have, and more of them than these: they are scores."""
    known = np.isin(answer, y)
    strange = np.unique(answer[~known]).size
    return not known.any() or bool(known.mean() < 0.5 and strange > max(2, np.unique(y).size))


def check_values(answer: Array, y: Array) -> None:
    """Refuse a regression on two whole numbers, 0 and 1, that answers far outside of them: logits, most likely.

    Boosters that were trained by an objective of their owner's own call themselves regressions.
    """
    if y.dtype.kind not in "biuf" or np.unique(y).size != 2 or continuous(y) or answer.dtype.kind != "f":
        return
    low, high = float(y.min()), float(y.max())
    if np.mean((answer < low - (high - low)) | (answer > high + (high - low))) > OUTSIDE:
        raise BadInput(
            "A model that calls itself a regression answers far outside of the two labels: these may be logits.",
            fix='Say output="logits" where it is a classifier, or output="values" where it is none.',
        )


def continuous(y: Array) -> bool:
    """Whether labels are a regression's: numbers with fractions."""
    return y.dtype.kind == "f" and bool((y != np.floor(y)).any())
