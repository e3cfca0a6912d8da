"""The relative likelihood-ratio attack: is the record more likely under the target than other records are?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core import Observations, Scores
from .moments import sides
from .registry import References, attack

Floats = NDArray[np.float64]

MARGIN = 1.0
"""gamma: LR(x, z) must reach it (1 as in the published tool; the paper uses 2 with another signal)."""
SLOPES = tuple(k / 10 for k in range(11))
"""The grid on which the offline slope is chosen (Zarifzadeh et al. 2024, appendix)."""


@attack("rmia", needs=("probability",), references=References.BOTH)
def rmia(target: Observations, references: Observations) -> Floats:
    r"""s = P_z[LR(x, z) >= gamma], LR(x, z) = (p(x|target) / p(x)) / (p(z|target) / p(z)).

    p(x) is the mean over references, half with and half without the record; z runs over all records the target was
    asked about, members or not (Zarifzadeh et al. 2024, equation 3).
    """
    inside, outside = sides(references, "probability")
    prior = np.where(inside.count > 0, (inside.mean + outside.mean) / 2, outside.mean)
    return relative(target.need("probability"), prior)


@attack("rmia-offline", needs=("probability",), references=References.OUT)
def rmia_offline(target: Observations, references: Observations) -> Floats:
    r"""RMIA without models that saw the record: p(x) = ((1 + a) mean without + (1 - a)) / 2.

    The slope a is chosen by attacking one reference with the others; with a single reference a = 1.
    """
    _, outside = sides(references, "probability")
    return relative(target.need("probability"), offline_prior(outside.mean, slope(references)))


def relative(probability: Floats, prior: Floats) -> Floats:
    """Share of records z with ratio_x / ratio_z >= gamma, ties broken by log ratio_x within less than one step.

    The share alone has only as many values as there are records, and at low false-positive rates that is all one sees.
    """
    tiny = np.finfo(float).tiny
    log_ratio = np.log(np.maximum(probability, tiny)) - np.log(np.maximum(prior, tiny))[:, None]
    share = np.empty_like(log_ratio)
    for k, column in enumerate(log_ratio.T):
        share[:, k] = np.searchsorted(np.sort(column), column - np.log(MARGIN), side="right")
    step = 0.5 + np.arctan(log_ratio) / np.pi
    return np.asarray((share + 0.99 * step) / log_ratio.shape[0])


def offline_prior(without: Floats, a: float) -> Floats:
    """p(x) from the mean over models without x: a model with it would say more, up to 1."""
    return ((1 + a) * without + (1 - a)) / 2


def slope(references: Observations) -> float:
    """The slope that attacks the first reference best, by area under the curve; the larger one when two tie."""
    member = references.need("member").astype(bool)[:, 0]
    if references.models < 2 or member.all() or not member.any():
        return 1.0
    probability = references.need("probability")[:, :1]
    _, outside = sides(references.select(models=np.arange(1, references.models)), "probability")

    def quality(a: float) -> float:
        score = relative(probability, offline_prior(outside.mean, a))[:, 0]
        return Scores(score, member, attack="rmia", randomised=False).auc().value or 0.0

    return max(SLOPES, key=lambda a: (quality(a), a))
