r"""One training run, m canaries: each is in or out by a fair coin of its own, and some coins are guessed.

Counts here are guesses: `true_positives` right and `false_positives` wrong ones of `n_in` = `n_out` = m canaries.
How many are guessed is fixed before the coins are read (soundness rule 19).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from ...core import BadInput, Counts, Scores, Source, check
from .estimators import Estimator
from .families import Family
from .frontier import Frontier, of_event
from .search import Search

SHARE = 0.2
"""Of the canaries that is guessed, half as in and half as out: fixed before the coins are read."""


def guessed(scores: Scores, share: float = SHARE, ties: Source | None = None) -> Counts:
    """Guess "in" for the highest scores and "out" for the lowest, `share` of all canaries together.

    Failed canaries have infinite scores on the wrong side and are guessed wrong. The order of the rows says nothing
    (soundness rule 27): where equal scores lie on both sides of a cut, the guesses among them are taken to be wrong as
    far as they can be. With a source of randomness for `ties` they are drawn instead. A draw that knows nothing of the
    coins is part of how guesses are made, and right at least as often, so both ways keep every bound true.
    """
    if not scores.randomised:
        raise BadInput("A one-run bound needs canaries that were put in by coins (randomised=True).")
    half = max(1, int(check.probability("share", share, zero=False) * len(scores) / 2))
    if 2 * half > len(scores):
        raise BadInput("A one-run bound needs at least two canaries.")
    score = scores.score if ties is None else ranks(scores.score, ties)
    right = fewest_right(score, scores.member, half) + fewest_right(-score, ~scores.member, half)
    return Counts(right, 2 * half - right, len(scores), len(scores))


def fewest_right(score: NDArray[np.float64], told: NDArray[np.bool_], half: int) -> int:
    """How many of the `half` highest scores are `told`, if ties at the cut are broken as badly as can be."""
    cut = np.partition(score, score.size - half)[score.size - half]
    above, tied = score > cut, score == cut
    places = half - int(above.sum())
    return int(told[above].sum()) + max(0, places - int((~told)[tied].sum()))


def ranks(score: NDArray[np.float64], ties: Source) -> NDArray[np.float64]:
    """Places in the order of the scores, equal ones in an order that is drawn."""
    found = np.empty(score.size)
    found[np.lexsort((ties.permutation(score.size), score))] = np.arange(score.size)
    return found


class OneRunEstimator(Estimator):
    """What is attainable here: every guess right."""

    assumptions = (
        "every canary was put in by a fair coin of its own",
        "how many canaries are guessed was fixed before the coins were looked at",
    )

    def attainable(self, counts: Counts, confidence: float) -> float:
        guesses = counts.true_positives + counts.false_positives
        return self.read(Counts(guesses, 0, counts.n_in, counts.n_out), confidence)


@dataclass(frozen=True)
class OneRun(OneRunEstimator):
    r"""(epsilon, delta) of any mechanism: v right of r guesses among m canaries happens with probability at most

    beta + 2 m delta alpha, beta = P[B >= v], alpha = max_i P[v > B >= v - i] / i, B ~ Bin(r, 1/(1 + e^-epsilon)).

    Reference: Steinke, Nasr and Jagielski 2023, Theorem 5.2 (with abstentions).
    """

    delta: float
    method = "one run"

    def read(self, counts: Counts, confidence: float) -> float:
        error = 1 - check.probability("confidence", confidence, zero=False, one=False)
        if self.chance(counts, 0.0) > error:
            return 0.0
        high = 1.0
        while self.chance(counts, high) <= error:
            high *= 2
        root = optimize.brentq(lambda epsilon: self.chance(counts, epsilon) - error, 0.0, high, xtol=1e-9)
        return max(float(root) - 1e-8, 0.0)

    def chance(self, counts: Counts, epsilon: float) -> float:
        """The largest probability of so many right guesses under (epsilon, delta)-DP."""
        right, guesses = counts.true_positives, counts.true_positives + counts.false_positives
        if right == 0:
            return 1.0
        q = 1 / (1 + math.exp(-epsilon))
        beta = float(stats.binom.sf(right - 1, guesses, q))
        if self.delta == 0:
            return beta
        i = np.arange(1, right + 1)
        near = stats.binom.cdf(right - 1, guesses, q) - stats.binom.cdf(right - 1 - i, guesses, q)
        return beta + 2 * counts.n_in * self.delta * float((near / i).max())


@dataclass(frozen=True)
class OneRunCurve(OneRunEstimator, Family):
    """One run against a claimed trade-off curve: v right guesses are too many for a member of the event's family.

    Reference: Mahloujifar, Melis and Chaudhuri 2024 (arXiv 2410.22235), the theorem for a bounded number of guesses
    and its recursion, with two choices per canary.
    """

    method = "one run, trade-off curve"

    def read(self, counts: Counts, confidence: float) -> float:
        error = 1 - check.probability("confidence", confidence, zero=False, one=False)
        if 2 * counts.true_positives <= counts.true_positives + counts.false_positives:
            return 0.0
        return self.reading(lambda s: too_many(of_event(self.event, s, self.adjacency), counts, error), Search())


def too_many(frontier: Frontier, counts: Counts, error: float) -> bool:
    r"""Whether so many right guesses have probability at most `error` under a trade-off curve.

    Suppose they had probability p = error. Write r_i, h_i for the mass of right and wrong guesses in outcomes with at
    least i right ones. From r_v = p v/m, h_v = p (g - v)/m (v right of g guesses, m canaries) the curve forces h_i >=
    T^-1(r_{i+1}) and r_i = r_{i+1} + i/(g - i) (h_i - h_{i+1}) downwards; more than g/m in all is impossible.
    """
    right, guesses, canaries = counts.true_positives, counts.true_positives + counts.false_positives, counts.n_in
    r, h = error * right / canaries, error * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        next_h = max(h, float(frontier.inverse(r)))
        r, h = r + i / (guesses - i) * (next_h - h), next_h
        if r + h > guesses / canaries:
            return True
    return False
