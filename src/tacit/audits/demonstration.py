"""From scores to demonstrations. All estimators read the same error event of a game, so one confidence covers them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core import (
    Adjacency,
    Calibration,
    Claim,
    Counts,
    Demonstration,
    Evaluation,
    Event,
    Mismatch,
    NotFinished,
    Scores,
    Source,
)
from ..core.events import Compose, Poisson, Repeat
from .bounds import betting
from .bounds.anytime import Anytime, AnytimeCurve
from .bounds.bayes import credible
from .bounds.estimators import ClopperPearson, Estimator
from .bounds.exact import Exact, ExactCurve
from .bounds.one_run import SHARE as GUESSED
from .bounds.one_run import OneRun, OneRunCurve, guessed
from .choice import Choice, bound, choose, counts

Randomness = Source | int | np.random.Generator | None
SHARE = 0.2
"""The share of the runs that choose: a threshold needs fewer than a bound (benchmarks/audit.py)."""
FEWEST = 24
"""Pairs of runs that are judged before the first look: fewer could not pass the planted-leak control."""


@dataclass(frozen=True)
class Played:
    """What was played: the name of the game, its canary, how many runs (or canaries) were planned, how many failed."""

    game: str
    canary: str
    planned: int
    failed: int = 0


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
    """Lower bounds from the scores of many runs: assumption-free, and in the claimed event's family if it has one.

    A fifth of the runs chooses the threshold and the others judge; with a `choice` fixed beforehand all of them judge.
    A bare (epsilon, delta) is judged by Clopper and Pearson's limits. An event is judged by the exact test of its
    curve, which rules out whatever the assumption-free reading beside it does, so that one error covers both.
    `adjacency` is the game's, and must be the claim's (soundness rule 17); None says that it is. With `shared_order`
    all runs saw one batch order, so no claim that counts on sampling can be tested with them (soundness rule 16).
    """
    if shared_order and claim.event is not None and amplified(claim.event):
        raise Mismatch("The runs share one batch order, and the claim counts on a secret sample.")
    same_adjacency(claim, adjacency)
    if choice is None:
        first, evaluation = scores.split(rng, share=SHARE)
        choice = chosen(first, claim, confidence)
    else:
        evaluation = Evaluation(scores)
    played = Played(game, canary, planned, failed)
    free = ClopperPearson if claim.event is None else Exact
    return _shown(free, ExactCurve, counts(evaluation, choice), claim, confidence, choice.threshold, played)


def demonstrate_once(
    scores: Scores,
    *,
    claim: Claim,
    confidence: float,
    played: Played,
    share: float = GUESSED,
    ties: Source | None = None,
) -> tuple[Demonstration, ...]:
    """A lower bound from one run with many canaries, each put in by a coin of its own; `share` of them is guessed.

    Which of equal scores are guessed is drawn from `ties`; without it ties count as wrong guesses.

    A bare (epsilon, delta) is judged by the bound for any mechanism, an event by its curve: one test, one error.
    Caller ensures: coins are independent and fair, and every canary that was played has a row (soundness rule 19).
    """
    same_adjacency(claim, Adjacency.ADD_REMOVE)
    shown = _shown(OneRun, OneRunCurve, guessed(scores, share, ties), claim, confidence, math.inf, played)
    return shown[-1:]


def watch(
    batches: Iterable[Scores], *, claim: Claim, confidence: float, played: Played, choice: Choice | None = None
) -> tuple[Demonstration, ...]:
    """Lower bounds from runs that come in batches; no further batch is asked for once the claim is refuted.

    The first batch chooses the threshold and the levels at which scores are read, unless a `choice` was fixed
    beforehand, and is not judged. Levels are read only while there are as many runs with as without the canary.
    Guarantee: a true claim is ever refuted with probability at most 1 - confidence, however often one looks.
    """
    seen = Counts(0, 0, 0, 0)
    for batch in batches:
        if choice is None:
            choice = levelled(chosen(Calibration(batch), claim, confidence), batch)
            continue
        seen = _sum(seen, counts(Evaluation(batch), choice))
        if min(seen.n_in, seen.n_out) >= FEWEST and _refuted(seen, claim, confidence):
            break
    if choice is None or not (seen.n_in and seen.n_out):
        raise NotFinished("Watching needs one batch to choose on and one to judge by.")
    return _shown(Anytime, AnytimeCurve, seen, claim, confidence, choice.threshold, played)


def amplified(event: Event) -> bool:
    """Whether the event counts on a sample that nobody knows."""
    if isinstance(event, Poisson):
        return event.rate < 1 or amplified(event.event)
    parts = event.events if isinstance(event, Compose) else (event.event,) if isinstance(event, Repeat) else ()
    return any(amplified(part) for part in parts)


def same_adjacency(claim: Claim, adjacency: Adjacency | str | None) -> None:
    """Refuse a game played under another adjacency than the claim's (soundness rule 17)."""
    claimed = claim.bound.adjacency
    if adjacency is not None and Adjacency.of(adjacency) is not claimed:
        raise Mismatch(
            f"The game was played under {Adjacency.of(adjacency)} adjacency and the claim is under {claimed}; "
            "a bound from one says nothing about the other."
        )


Free = type[ClopperPearson] | type[Exact] | type[OneRun] | type[Anytime]
Within = type[ExactCurve] | type[OneRunCurve] | type[AnytimeCurve]


def _shown(
    free: Free, within: Within, counted: Counts, claim: Claim, confidence: float, threshold: float, played: Played
) -> tuple[Demonstration, ...]:
    """One demonstration per reader: any mechanism, and the claimed event's family."""
    stated = claim.bound
    readers: list[Estimator] = [free(stated.delta)]
    if claim.event is not None:
        readers.append(within(claim.event, stated.adjacency, stated.delta))
    return tuple(
        Demonstration(
            bound(use, counted, confidence, stated.adjacency, stated.unit),
            counted,
            use.attainable(counted, confidence),
            threshold,
            played.game,
            played.canary,
            played.planned,
            played.failed,
            credible(counted, stated.delta, confidence) if isinstance(use, ClopperPearson | Exact) else None,
        )
        for use in readers
    )


def chosen(calibration: Calibration | Sequence[Calibration], claim: Claim, confidence: float) -> Choice:
    """Any rule may choose; at a confidence that few runs can reach the limits would be poor rulers."""
    stated, confidence = claim.bound, min(confidence, 0.95)
    return choose(calibration, delta=stated.delta, adjacency=stated.adjacency, confidence=confidence, event=claim.event)


def levelled(choice: Choice, calibration: Scores) -> Choice:
    """The choice with levels of the score, by the runs without the canary that chose."""
    return replace(choice, levels=betting.levels(calibration.nonmembers))


def _refuted(seen: Counts, claim: Claim, confidence: float) -> bool:
    stated = claim.bound
    if Anytime(stated.delta).ruled_out(stated.epsilon, seen, confidence):
        return True
    return claim.event is not None and AnytimeCurve(claim.event, stated.adjacency, stated.delta).ruled_out(
        1.0, seen, confidence
    )


def _sum(one: Counts, other: Counts) -> Counts:
    before = one.levels or ((0, 0),) * len(other.levels)
    return Counts(
        one.true_positives + other.true_positives,
        one.false_positives + other.false_positives,
        one.n_in + other.n_in,
        one.n_out + other.n_out,
        tuple((a + c, b + d) for (a, b), (c, d) in zip(before, other.levels, strict=True)),
    )
