"""From scores to demonstrations: split, choose, and read every estimator from one pair of limits."""

from __future__ import annotations

import numpy as np

from ..core import Adjacency, Claim, Counts, Demonstration, Evaluation, Mismatch, Scores, Source
from .choice import Choice, bound, choose, counts
from .estimators import ClopperPearson, Curve, Estimator

Randomness = Source | int | np.random.Generator | None
SHARE = 0.2
"""The share of the runs that choose: a threshold needs fewer than a bound (benchmarks/audit.py)."""


def demonstrate(
    scores: Scores,
    *,
    claim: Claim,
    confidence: float,
    rng: Randomness,
    game: str,
    canary: str,
    planned: int,
    failed: int,
    choice: Choice | None = None,
    adjacency: Adjacency | str | None = None,
) -> tuple[Demonstration, ...]:
    """Lower bounds from the scores of one game: assumption-free, and in the claimed event's family where there is one.

    A fifth of the runs chooses the threshold and the others judge; with a `choice` fixed beforehand all of them judge.
    Both bounds are read at one threshold from one pair of limits, so together they err at most 1 - confidence.
    `adjacency` is the game's, and must be the claim's (soundness rule 17); None says that it is.
    """
    played = claim.bound.adjacency if adjacency is None else Adjacency.of(adjacency)
    if played is not claim.bound.adjacency:
        raise Mismatch(
            f"The game was played under {played} adjacency and the claim is under {claim.bound.adjacency}; "
            "a bound from one says nothing about the other."
        )
    delta = claim.bound.delta
    if choice is None:
        first, evaluation = scores.split(rng, share=SHARE)
        choice = choose(first, delta=delta, adjacency=played, confidence=confidence, event=claim.event)
    else:
        evaluation = Evaluation(scores)
    counted = counts(evaluation, choice)
    readers: list[Estimator] = [ClopperPearson(delta)]
    if claim.event is not None:
        readers.append(Curve(claim.event, played, delta))

    def shown(use: Estimator, counted: Counts) -> Demonstration:
        return Demonstration(
            bound(use, counted, confidence, played),
            counted,
            use.attainable(counted, confidence),
            choice.threshold,
            game,
            canary,
            planned,
            failed,
        )

    return tuple(shown(use, counted) for use in readers)
