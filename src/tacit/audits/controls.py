"""Tests of an audit itself, on its own scores, at confidence 0.999."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from ..core import Adjacency, Control, Scores, Source, source
from .bounds.one_run import OneRun, guessed
from .choice import choose, lower_bound
from .scoring import scored

CONFIDENCE = 0.999
MOST = 20_000
"""Runs, at most, with which it is tried out how many are needed."""
RARELY = 1e-6
"""The chance that failures which fall on both sides alike are taken for a sign."""
Randomness = Source | int | np.random.Generator | None
Procedure = Callable[[Scores, Source], float]


def null(scores: Scores, rng: Randomness, procedure: Procedure | None = None) -> Control:
    """With the coins reshuffled the same procedure must find nothing: epsilon 0."""
    chance = source(rng)
    coins = scores.member[chance.permutation(len(scores))]
    found = (procedure or by_halves)(scored(scores.score, coins, attack=scores.attack), chance)
    return Control("null", "coins reshuffled: epsilon is at least 0", f"at least {found:.3g}", found == 0.0)


def planted_leak(scores: Scores, rng: Randomness, procedure: Procedure | None = None) -> Control:
    """With every run that saw the canary raised above all others, the same procedure must find it."""
    finite = scores.score[np.isfinite(scores.score)]
    lift = 1.0 + float(np.ptp(finite)) if finite.size else 1.0
    leaking = scored(scores.score + lift * scores.member, scores.member, attack=scores.attack)
    found = (procedure or by_halves)(leaking, source(rng))
    few = "" if found > 0.0 else f": {len(scores)} of them cannot show it, {_needed(leaking, procedure or by_halves)}"
    return Control("planted leak", "scores shifted: epsilon is above 0", f"at least {found:.3g}{few}", found > 0.0)


def _needed(leaking: Scores, procedure: Procedure) -> str:
    """How many runs (or canaries) like these would show a leak: the first doubling that does."""
    for times in 2 ** np.arange(1, 8):
        if times * len(leaking) > MOST:
            break
        more = scored(np.tile(leaking.score, times), np.tile(leaking.member, times), attack=leaking.attack)
        if procedure(more, source(0)) > 0.0:
            return f"more runs or canaries are needed: about {times * len(leaking)}"
    return "nor could many more: too many of them fail"


def failing(scores: Scores, *, refuted: bool) -> tuple[Control, ...]:
    """A control that fails if one data set makes far more runs fail than the other; nothing if it does not.

    A run that fails counts against refutation, so an error that tells of a record would stay unseen. Where the claim is
    refuted all the same, nothing needs to be added. The exact test of both rates has a level of `RARELY`.
    """
    lost = [np.count_nonzero(~np.isfinite(side)) for side in (scores.members, scores.nonmembers)]
    sizes = scores.members.size, scores.nonmembers.size
    table = [[count, size - count] for count, size in zip(lost, sizes, strict=True)]
    if refuted or not sum(lost) or stats.fisher_exact(np.array(table)).pvalue > RARELY:
        return ()
    told = f"{lost[0]:,} of {sizes[0]:,} runs with the record failed, {lost[1]:,} of {sizes[1]:,} without it"
    fix = "an error that one record makes more likely tells of it: catch it, and release as if it had not been"
    return (Control("failed runs", "as many with the record as without it", f"{told}; {fix}", passed=False),)


def by_guesses(scores: Scores, chance: Source) -> float:
    """The procedure of one run: guess, bound."""
    return OneRun(0.0).read(guessed(scores, ties=chance), CONFIDENCE)


def by_halves(scores: Scores, chance: Source) -> float:
    """The procedure of many runs, without a family: split, choose, bound."""
    first, second = scores.split(chance)
    choice = choose(first, delta=0.0, adjacency=Adjacency.ADD_REMOVE, confidence=CONFIDENCE)
    return lower_bound(second, choice, delta=0.0, adjacency=Adjacency.ADD_REMOVE, confidence=CONFIDENCE).epsilon
