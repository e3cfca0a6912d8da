"""All updates seen: every step of a few runs is a game of its own, and the steps compose (Nasr et al. 2023)."""

from __future__ import annotations

import numpy as np

from ..core import BadInput, Claim, Demonstration, Evaluation, Mismatch, Scores, Source
from ..core.events import Repeat
from .bounds.updates import UpdatesCurve
from .choice import Choice, bound, counts
from .demonstration import SHARE, Played, chosen, same_adjacency

Randomness = Source | int | np.random.Generator | None
ASSUMES = (
    "each step's release, given the steps before, is dominated by the claimed event's step",
    "the rates of the steps are as good as equal",
)
ALIKE = "without the canary a step is scored alike in every run, whatever the steps before have shown"
"""What must be believed where a coin is thrown per run; with a coin per step the runs' histories are alike anyway."""


def demonstrate_updates(
    scores: Scores, *, claim: Claim, confidence: float, rng: Randomness, played: Played, choice: Choice | None = None
) -> tuple[Demonstration, ...]:
    """A lower bound from one score per (run, step), such as the canary's inner product with the noisy update.

    The claim must be an event repeated over the steps. A fifth of the steps chooses the threshold.
    Caller ensures: a score is made from its own step's release; rows are (record = step, target = run). A coin per
    (run, step) is the safe design. With a coin per run, whatever else a step releases must be taken out of its score:
    it depends on the steps before, which know the coin, and a true claim would be refuted (docs/proofs/auditing.md).
    """
    if claim.event is None or not isinstance(claim.event, Repeat):
        raise BadInput("A game of updates tests an event that is repeated step by step (Repeat).")
    same_adjacency(claim, None)
    coins_per_run = _checked(scores, claim.event.steps)
    step = Claim(claim.bound, claim.event.event)
    if choice is None:
        first, evaluation = scores.split(rng, share=SHARE)
        choice = chosen(first, step, confidence)
    else:
        evaluation = Evaluation(scores)
    counted = counts(evaluation, choice)
    stated = claim.bound
    use = UpdatesCurve(claim.event, stated.adjacency, stated.delta)
    believed = (*ASSUMES, ALIKE) if coins_per_run else ASSUMES
    found = bound(use, counted, confidence, stated.adjacency, stated.unit, believed)
    most = use.attainable(counted, confidence)
    return (
        Demonstration(
            found, counted, most, choice.threshold, played.game, played.canary, played.planned, played.failed
        ),
    )


def _checked(scores: Scores, steps: int) -> bool:
    """Whether some run has one coin for all of its steps; no run may have more of them than the claim counts."""
    _, run, length = np.unique(scores.target, return_inverse=True, return_counts=True)
    if length.max(initial=0) > steps:
        raise Mismatch(
            f"A run has {int(length.max())} steps and the claim counts {steps}: what was claimed is not what was run."
        )
    inside = np.bincount(run, scores.member)
    return bool(((inside == 0) | (inside == length)).any())
