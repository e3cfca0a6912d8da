"""Choosing on some scores, judging by others: the only way to a lower bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..core import Adjacency, BadInput, Bound, Calibration, Counts, Evaluation, Event, Mismatch, Scores, Side, check
from .estimators import ClopperPearson, Curve, Estimator, Limits, both_limits, ratio_epsilon

Floats = NDArray[np.float64]
CANDIDATES = 2000
ASSUMPTIONS = ("runs are independent of each other", "the threshold was fixed before these runs were looked at")


@dataclass(frozen=True)
class Choice:
    """An attack and a threshold (guess "member" at or above it), and what it was chosen on.

    `fingerprints` name the (record, target) rows seen while choosing; none for a choice fixed beforehand.
    """

    attack: str
    threshold: float
    fingerprints: frozenset[bytes] = frozenset()

    def __post_init__(self) -> None:
        if not np.isfinite(self.threshold):
            raise BadInput("A threshold must be a finite number.")


def choose(
    calibration: Calibration | Sequence[Calibration],
    *,
    delta: float,
    adjacency: Adjacency | str,
    confidence: float,
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
    offers = [(offer, part.scores) for part in parts for offer in _offers(part.scores, use, confidence)]
    (_, threshold), best = max(offers, key=lambda pair: pair[0][0])
    seen = frozenset().union(*(part.scores.fingerprints() for part in parts))
    return Choice(best.attack, threshold, seen)


def lower_bound(
    evaluation: Evaluation,
    choice: Choice,
    *,
    delta: float,
    adjacency: Adjacency | str,
    confidence: float,
    event: Event | None = None,
) -> Bound:
    """Epsilon is at least this, with the stated confidence.

    Guarantee: for independent runs, the bound exceeds the true epsilon with probability at most 1 - confidence;
    with `event`, for mechanisms of its family alone (docs/proofs/auditing.md, Theorems 1 and 2).
    Caller ensures: the game was played under `adjacency`.
    """
    use = estimator_for(delta, Adjacency.of(adjacency), event)
    return bound(use, counts(evaluation, choice), confidence, Adjacency.of(adjacency))


def bound(use: Estimator, counted: Counts, confidence: float, adjacency: Adjacency) -> Bound:
    """A Bound from counts at a threshold fixed beforehand."""
    return Bound(
        use.read(counted, confidence),
        use.delta,
        Side.LOWER,
        confidence,
        use.method,
        adjacency,
        assumes=use.assumes,
        assumptions=ASSUMPTIONS,
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
    return count(scores, choice.threshold)


def count(scores: Scores, threshold: float) -> Counts:
    """Guesses "member" at or above a threshold."""
    members, nonmembers = scores.members, scores.nonmembers
    if not members.size or not nonmembers.size:
        raise BadInput("A lower bound needs runs with and runs without the record.")
    hits, alarms = (int(np.count_nonzero(side >= threshold)) for side in (members, nonmembers))
    return Counts(hits, alarms, members.size, nonmembers.size)


def estimator_for(delta: float, adjacency: Adjacency, event: Event | None) -> Estimator:
    """The trade-off curve where an event is claimed, Clopper and Pearson otherwise."""
    delta = check.delta(delta)
    return ClopperPearson(delta) if event is None else Curve(event, adjacency, delta)


def _offers(scores: Scores, use: Estimator, confidence: float) -> list[tuple[float, float]]:
    """(epsilon, threshold) of the most promising thresholds of one attack.

    Two rulers pick them: the ratio of the limits and the distance of their normal quantiles. The estimator decides.
    A threshold that shows nothing yet is ranked below 0 by the second ruler.
    """
    thresholds = _thresholds(scores)
    hits, alarms = (_at_or_above(side, thresholds) for side in (scores.members, scores.nonmembers))
    tpr, fpr = both_limits(hits, alarms, scores.members.size, scores.nonmembers.size, confidence)
    ratio, normal = ratio_epsilon(tpr, fpr, use.delta), special.ndtri(tpr) - special.ndtri(fpr)
    picked = {int(np.argmax(ratio)), int(np.argmax(np.where(np.isfinite(normal), normal, -np.inf)))}
    offers = []
    for k in sorted(picked):
        epsilon = use.epsilon(Limits(float(tpr[k]), float(fpr[k])))
        offers.append((epsilon if epsilon > 0 else min(float(normal[k]), 0.0), float(thresholds[k])))
    return offers


def _thresholds(scores: Scores) -> Floats:
    """Distinct finite scores, thinned evenly in rank; failed runs (infinite scores) offer none."""
    both = (scores.members.size, scores.nonmembers.size)
    finite = np.unique(scores.score[np.isfinite(scores.score)])
    if not finite.size or not all(both):
        raise BadInput("Choosing needs finite scores of runs with and of runs without the record.")
    if finite.size <= CANDIDATES:
        return finite
    return np.asarray(finite[np.linspace(0, finite.size - 1, CANDIDATES).astype(int)])


def _at_or_above(values: Floats, thresholds: Floats) -> NDArray[np.int64]:
    return np.asarray(values.size - np.searchsorted(np.sort(values), thresholds, side="left"))
