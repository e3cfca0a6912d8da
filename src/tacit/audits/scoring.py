"""The game of many runs: a coin decides whether a run sees the canary, and the score must tell."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Scores, Source, check, source

Randomness = Source | int | np.random.Generator | None
Runner = Callable[[NDArray[np.bool_]], NDArray[np.float64]]


def play(runner: Runner, runs: int, rng: Randomness, *, attack: str = "canary") -> Scores:
    """Run `runner(coins)`, coins half true in random order, and score run k by its k-th number; NaN is a failed run.

    Caller ensures: runs are independent given their coins, and the score is made from what the run releases.
    A failed run counts against refutation (soundness rule 18): see `scored`.
    """
    runs = check.whole("runs", runs, least=2)
    coins = balanced(runs, rng)
    found = np.asarray(runner(coins), dtype=np.float64)
    if found.shape != (runs,):
        raise BadInput(f"The runner must return one score per run ({runs}), got shape {found.shape}.")
    return scored(found, coins, attack=attack)


def balanced(runs: int, rng: Randomness) -> NDArray[np.bool_]:
    """Half of the runs with the canary, in random order; one more without when the number is odd."""
    coins = np.zeros(runs, dtype=bool)
    coins[source(rng).permutation(runs)[: runs // 2]] = True
    return coins


def scored(found: NDArray[np.float64], coins: NDArray[np.bool_], *, attack: str = "canary", first: int = 0) -> Scores:
    """Scores of runs numbered from `first`; a run without a finite number is the wrong guess at every threshold.

    With A = {the run ends and scores at or above t}: the true-positive rate counts A, the false-positive rate counts A
    or failed, so every bound read from them holds for A (docs/proofs/auditing.md, Lemma 3).
    """
    score = np.where(np.isfinite(found), found, np.where(coins, -np.inf, np.inf))
    run = first + np.arange(coins.size)
    return Scores(score, coins, attack=attack, randomised=True, record=np.zeros(coins.size, np.int64), target=run)


def failures(scores: Scores) -> int:
    """How many runs failed."""
    return int(np.count_nonzero(~np.isfinite(scores.score)))


def separation(score: NDArray[np.float64], coins: NDArray[np.bool_]) -> float:
    """Difference of the means over the spread; a canary whose runs fail comes last."""
    inside, outside = score[coins & np.isfinite(score)], score[~coins & np.isfinite(score)]
    if min(inside.size, outside.size) < 1:
        return -math.inf
    spread = math.sqrt(float(inside.var() + outside.var()) / 2)
    return float(inside.mean() - outside.mean()) / max(spread, 1e-12)
