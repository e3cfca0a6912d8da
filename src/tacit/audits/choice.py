"""Choosing on some scores, judging by others: the only way to a lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import Adjacency, BadInput, Bound, Calibration, Counts, Evaluation, Event, Mismatch, Scores, Side, check
from .bounds.estimators import ClopperPearson, Estimator, Limits, LimitsEstimator, both_limits, ratio_epsilon
from .bounds.families import Curve

Floats = NDArray[np.float64]
CANDIDATES, FEW = 160, 40
BANDWIDTH = 0.6
"""Of the smoothing, in normal quantiles of the rank; by trial on Gaussian mechanisms, shifts of 0.3 to 4 deviations."""
TINY = 1e-6
DELTA, CONFIDENCE = 1e-5, 0.95
"""Where nothing else is said, as in `audit`; the adjacency is then add-remove."""


@dataclass(frozen=True)
class Choice:
    """An attack and a threshold (guess "member" at or above it), and what it was chosen on.

    `fingerprints` name the (record, target) rows seen while choosing; none for a choice fixed beforehand. `levels` are
    further levels at which scores are counted, for a test that reads several.
    """

    attack: str
    threshold: float
    fingerprints: frozenset[bytes] = frozenset()
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise BadInput("A threshold must be a finite number.")
        if not np.isfinite(self.levels).all() or any(np.diff(self.levels) < 0):
            raise BadInput("Levels must be finite numbers that do not fall.")


def choose(
    calibration: Calibration | Sequence[Calibration],
    *,
    delta: float = DELTA,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    confidence: float = CONFIDENCE,
    event: Event | None = None,
) -> Choice:
    """The attack and threshold with the largest lower bound on the calibration scores, to be judged by others.

    Any rule is valid here, as the scores that judge are others; this one aims at the bound that will be made: with
    the claimed `event` at the trade-off curve's, without at Clopper and Pearson's.
    """
    parts = list(calibration) if isinstance(calibration, Sequence) else [calibration]
    if not parts or not all(isinstance(part, Calibration) for part in parts):
        raise BadInput("choose takes Calibration scores.", fix="Use scores.split(rng) and give it the first part.")
    use = estimator_for(delta, Adjacency.of(adjacency), event)
    offers = [(*_best(part.scores, use, confidence), part.scores.attack) for part in parts]
    promising = (lambda offer: _promise(use, *offer[:2])) if len(offers) > 1 else None
    _, _, threshold, name = max(offers, key=promising) if promising else offers[0]
    seen = frozenset().union(*(part.scores.fingerprints() for part in parts))
    return Choice(name, threshold, seen)


def lower_bound(
    evaluation: Evaluation,
    choice: Choice,
    *,
    delta: float = DELTA,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    confidence: float = CONFIDENCE,
    event: Event | None = None,
) -> Bound:
    """Lower bound on epsilon from the scores of a game, with the stated confidence.

    Guarantee: for independent runs, the bound exceeds the true epsilon with probability at most 1 - confidence;
    with `event`, for mechanisms of its family alone (docs/proofs/auditing.md, Theorems 1 and 2).
    Caller ensures: the game was played under `adjacency`.
    """
    use = estimator_for(delta, Adjacency.of(adjacency), event)
    return bound(use, counts(evaluation, choice), confidence, Adjacency.of(adjacency))


def bound(
    use: Estimator,
    counted: Counts,
    confidence: float,
    adjacency: Adjacency,
    unit: str = "record",
    assumptions: tuple[str, ...] = (),
) -> Bound:
    """A Bound from counts at a threshold fixed beforehand; further `assumptions` are printed with it."""
    return Bound(
        use.read(counted, confidence),
        use.delta,
        Side.LOWER,
        confidence,
        use.method,
        adjacency,
        unit,
        assumes=use.assumes,
        assumptions=use.assumptions + assumptions,
    )


def counts(evaluation: Evaluation, choice: Choice) -> Counts:
    """Guesses at the chosen threshold; refused when choosing saw one of these rows, or another attack's."""
    if not isinstance(evaluation, Evaluation) or not isinstance(choice, Choice):
        raise BadInput(
            "A bound takes an Evaluation and a Choice.", fix="Use scores.split(rng), then choose on the first."
        )
    scores = evaluation.scores
    if not scores.randomised:
        raise BadInput(
            "A lower bound needs scores whose membership was decided by coins (randomised=True).",
            fix="Observed members and non-members give measurements, never a statement about differential privacy.",
        )
    if scores.attack != choice.attack:
        raise Mismatch(f"The choice is for the attack {choice.attack}, the scores are of {scores.attack}.")
    if choice.fingerprints & scores.fingerprints():
        raise Mismatch("Some (record, target) rows were used for choosing and for judging; they must be disjoint.")
    return count(scores, choice.threshold, choice.levels)


def count(scores: Scores, threshold: float, levels: tuple[float, ...] = ()) -> Counts:
    """Guesses "member" at or above a threshold, and at or above further levels."""
    members, nonmembers = scores.members, scores.nonmembers
    if not members.size or not nonmembers.size:
        raise BadInput("A lower bound needs runs with and runs without the record.")
    sides = [_at_or_above(side, np.array([threshold, *levels])).tolist() for side in (members, nonmembers)]
    (hits, alarms), *further = zip(*sides, strict=True)
    return Counts(hits, alarms, members.size, nonmembers.size, tuple(further))


def estimator_for(delta: float, adjacency: Adjacency, event: Event | None) -> LimitsEstimator:
    """The trade-off curve where an event is claimed, Clopper and Pearson otherwise."""
    delta = check.delta(delta)
    return ClopperPearson(delta) if event is None else Curve(event, adjacency, delta)


def _best(scores: Scores, use: LimitsEstimator, confidence: float) -> tuple[Limits, float, float]:
    """Limits at one attack's most promising threshold, their distance in normal quantiles, and the threshold.

    For a family of mechanisms, thresholds are ranked by the distance of the limits' normal quantiles, smoothed over
    neighbouring thresholds, as the curves of composed mechanisms are nearly Gaussian. Without a family they are ranked
    by the limits' ratio.
    """
    thresholds, place = _thresholds(scores)
    hits, alarms = (_at_or_above(side, thresholds) for side in (scores.members, scores.nonmembers))
    tpr, fpr = both_limits(hits, alarms, scores.members.size, scores.nonmembers.size, confidence)
    low, high = special.ndtri(np.maximum(tpr, TINY)), special.ndtri(np.minimum(fpr, 1 - TINY))
    ratio, normal = ratio_epsilon(tpr, fpr, use.delta), _smoothed(low - high, place)
    best = int(np.argmax(ratio if use.assumes is None and ratio.max() > 0 else normal))
    return Limits(float(tpr[best]), float(fpr[best])), float(normal[best]), float(thresholds[best])


def _promise(use: LimitsEstimator, limits: Limits, normal: float) -> float:
    """The epsilon that limits show; below 0 while they show nothing yet."""
    epsilon = use.epsilon(limits)
    return epsilon if epsilon > 0 else min(normal, 0.0)


def _thresholds(scores: Scores) -> tuple[Floats, Floats | None]:
    """Between distinct finite scores, halfway: a gap is cut where it leaves most room on both sides.

    Many of them are thinned evenly in the normal quantile of their rank, which is returned. Failed runs (infinite
    scores) offer no threshold.
    """
    finite = np.unique(scores.score[np.isfinite(scores.score)])
    if not finite.size or not scores.members.size or not scores.nonmembers.size:
        raise BadInput("Choosing needs finite scores of runs with and of runs without the record.")
    finite[1:] = finite[:-1] / 2 + finite[1:] / 2
    if finite.size <= FEW:
        return finite, None
    end = float(special.ndtri(0.5 / finite.size))
    place = np.linspace(end, -end, CANDIDATES)
    return np.asarray(finite[(special.ndtr(place) * finite.size).astype(int)]), place


def _smoothed(values: Floats, place: Floats | None) -> Floats:
    """A kernel mean over neighbouring thresholds: one lucky threshold is not a better one."""
    if place is None:
        return values
    weight = np.exp(-0.5 * ((place[:, None] - place) / BANDWIDTH) ** 2)
    return np.asarray(weight @ values / weight.sum(axis=1))


def _at_or_above(values: Floats, thresholds: Floats) -> NDArray[np.int64]:
    return np.asarray(values.size - np.searchsorted(np.sort(values), thresholds, side="left"))
