"""What an attack found, as numbers with intervals: never one label, never the area alone."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Measurement, Roc, Scores, fewer_limits

POINTS = 200


def measure(scores: Scores, fpr: Sequence[float] = (0.01, 0.001, 0.0001), confidence: float = 0.95) -> Measurement:
    """Rates at the given false-positive rates, the area, and a thinned ROC curve with its pointwise band.

    Rates and area as in `core.roc`; the band is Clopper and Pearson's for each kept threshold by itself.
    """
    if not len(scores):
        raise BadInput("There are no scores to measure.")
    roc = scores.roc()
    return Measurement(
        attack=scores.attack,
        auc=scores.auc(confidence),
        tpr_at_fpr=tuple((float(rate), scores.tpr(rate, confidence)) for rate in fpr),
        members=roc.members,
        nonmembers=roc.nonmembers,
        targets=scores.clusters.targets,
        roc=band(roc, confidence, worth=worth(scores)),
    )


def worth(scores: Scores) -> float:
    """By how many fewer rows the members count, as one record may be there for several targets: the most of five."""
    if scores.clusters.alone:
        return 1.0
    member, own = scores.member, scores.members

    def influence(level: float) -> NDArray[np.float64]:
        hit = own >= level
        return np.asarray(hit - hit.mean())

    levels = np.quantile(own, (0.1, 0.3, 0.5, 0.7, 0.9))
    return max(scores.clusters.effect(functools.partial(influence, level), member) for level in levels)


def band(
    roc: Roc, confidence: float, points: int = POINTS, worth: float = 1.0
) -> tuple[tuple[float, float, float, float], ...]:
    """(fpr, tpr, lower, upper) at no more than `points` thresholds, members counting `worth` times fewer."""
    kept = thinned(roc, points)
    hits = np.rint(roc.tpr[kept] * roc.members)  # shares of a whole number
    lower, upper = fewer_limits(hits, hits, roc.members, worth, (1 + confidence) / 2)
    rows = zip(roc.fpr[kept], roc.tpr[kept], lower, upper, strict=True)
    return tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in rows)


def thinned(roc: Roc, points: int) -> NDArray[np.intp]:
    """Corners of the curve, evenly spread over log(fpr), so that the low rates keep their points; both ends stay."""
    last = np.flatnonzero(np.diff(roc.fpr, append=2.0) > 0)  # the highest point over each false-positive rate
    corners = last if last.size and last[0] == 0 else np.concatenate(([0], last))
    if corners.size <= points:
        return corners
    height = np.log(np.maximum(roc.fpr[corners], 0.5 / roc.nonmembers))
    wanted = np.linspace(height[0], height[-1], points - 2)
    nearest = np.minimum(np.searchsorted(height, wanted), corners.size - 1)
    return np.unique(np.concatenate(([corners[0], corners[1]], corners[nearest])))
