"""Attacks that need nothing but the target's own output, and their per-class and population forms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import Observations, Scores
from ..core.observations import blocks
from .registry import References, attack

Floats = NDArray[np.float64]


@attack("loss", needs=("loss",), references=References.NONE)
def loss_threshold(target: Observations) -> Floats:
    """s = -loss: members are fitted better (Yeom et al. 2018, Adversary 2)."""
    return -target.need("loss")


@attack("entropy", needs=("logits",), references=References.NONE)
def entropy(target: Observations) -> Floats:
    """s = sum_i p_i log p_i: members get confident answers, right or wrong (Song and Mittal 2021, section 3.2)."""
    log_p = special.log_softmax(target.need("logits"), axis=2)
    return np.asarray((np.exp(log_p) * log_p).sum(axis=2))


@attack("modified-entropy", needs=("logits", "label"), references=References.NONE)
def modified_entropy(target: Observations) -> Floats:
    """s = (1 - p_y) log p_y + sum_{i != y} p_i log(1 - p_i) (Song and Mittal 2021, equation 7, negated)."""
    return -_mentr(target)


@attack("modified-entropy-per-class", needs=("logits", "label"), references=References.BOTH)
def modified_entropy_per_class(target: Observations, references: Observations) -> Floats:
    """Modified entropy against each class's best threshold on the references (Song and Mittal 2021, section 3.3)."""
    known, member = -_mentr(references), references.need("member").astype(bool)
    label = target.need("label").astype(np.int64)
    score = -_mentr(target)
    overall = best_threshold(known[member], known[~member])
    for y in np.unique(label):
        rows = label == y
        inside, outside = known[rows][member[rows]], known[rows][~member[rows]]
        score[rows] -= best_threshold(inside, outside) if inside.size and outside.size else overall
    return score


@attack("population", needs=("loss",), references=References.OUT)
def population(target: Observations, references: Observations) -> Floats:
    """The share of non-members, of the same class where labels are known, that the references fit worse.

    One threshold per false-positive rate for the whole population (attack P of Ye et al. 2022, section 4.2).
    """
    seen = references.need("member").astype(bool)
    label = np.zeros(target.records, np.int64) if target.label is None else target.label
    losses, outside = target.need("loss"), np.where(seen, np.nan, references.need("loss"))
    score = np.empty_like(losses)
    for y in np.unique(label):
        rows = label == y
        known = outside[rows]
        if np.isnan(known).all():
            known = outside
        score[rows] = share_above(losses[rows], np.sort(known[~np.isnan(known)]))
    return score


def share_above(values: Floats, known: Floats) -> Floats:
    """The share of `known` (sorted) above each value, read between neighbours so that no two values tie for nothing.

    Outside of the known ones it goes on, below 0 and above 1, by the distance to the nearest end.
    """
    below = np.interp(values, known, np.arange(1, known.size + 1) / (known.size + 1))
    scale = max(float(np.ptp(known)), np.finfo(float).tiny)
    beyond = np.minimum(values - known[0], 0.0) + np.maximum(values - known[-1], 0.0)
    return np.asarray(1.0 - below - beyond / (scale * (known.size + 1)))


def best_threshold(inside: Floats, outside: Floats) -> float:
    """The threshold with the largest true-positive minus false-positive rate: members at or above it."""
    both = np.concatenate((inside, outside))
    roc = Scores(both, np.arange(both.size) < inside.size, attack="threshold", randomised=False).roc()
    return float(roc.threshold[1:][np.argmax((roc.tpr - roc.fpr)[1:])])


def _mentr(seen: Observations) -> Floats:
    """Modified entropy; log(1 - p) of the likeliest class is read from the logits, so no probability is clipped.

    Of every other class p is at most 1/2, and log(1 - p) loses nothing. Models and some records are taken one by one:
    answers with a thousand classes are large.
    """
    logits, label = seen.need("logits"), seen.need("label").astype(np.int64)
    found = np.empty(logits.shape[:2])
    for k in range(logits.shape[1]):
        for rows in blocks((logits.shape[0], logits.shape[2])):
            found[rows, k] = _mentr_of(logits[rows, k], label[rows])
    return found


def _mentr_of(z: Floats, label: NDArray[np.int64]) -> Floats:
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    log_all = special.logsumexp(z, axis=1)
    log_p = z - log_all[:, None]
    others = z.copy()
    others[rows, top] = -np.inf
    p = np.exp(log_p)
    rest = p * np.log1p(-np.minimum(p, 0.5))  # p_i log(1 - p_i), i not the likeliest
    rest[rows, top] = p[rows, top] * (special.logsumexp(others, axis=1) - log_all)
    rest[rows, label] = 0.0
    return np.asarray(np.expm1(log_p[rows, label]) * log_p[rows, label] - rest.sum(axis=1))
