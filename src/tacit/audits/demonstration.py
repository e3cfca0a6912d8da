"""From scores to demonstrations: split, choose, and read every estimator from one pair of limits."""

from __future__ import annotations

import numpy as np

from ..core import Adjacency, Claim, Counts, Demonstration, Evaluation, Event, Mismatch, Scores, Source
from ..core.events import Compose, Poisson, Repeat
from .choice import Choice, bound, choose, counts
from .estimators import ClopperPearson, Curve, Estimator

Randomness = Source | int | np.random.Generator | None
SHARE = 0.2
"""The share of the runs that choose: a threshold needs fewer than a bound (benchmarks/audit.py)."""


def amplified(event: Event) -> bool:
    """Whether the event counts on a sample that nobody knows."""
    if isinstance(event, Poisson):
        return event.rate < 1 or amplified(event.event)
    parts = event.events if isinstance(event, Compose) else (event.event,) if isinstance(event, Repeat) else ()
    return any(amplified(part) for part in parts)


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
    shared_order: bool = False,
) -> tuple[Demonstration, ...]:
    """Lower bounds from the scores of one game: assumption-free, and in the claimed event's family where there is one.

    A fifth of the runs chooses the threshold and the others judge; with a `choice` fixed beforehand all of them judge.
    Both bounds are read at one threshold from one pair of limits, so together they err at most 1 - confidence.
    `adjacency` is the game's, and must be the claim's (soundness rule 17); None says that it is. With `shared_order`
    all runs saw one batch order, so no claim that counts on sampling can be tested with them (soundness rule 16).
    """
    if shared_order and claim.event is not None and amplified(claim.event):
        raise Mismatch("The runs share one batch order, and the claim counts on a secret sample.")
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
