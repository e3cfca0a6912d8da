"""The games an audit can play on somebody's training, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Calibration, Claim, Control, Demonstration, Scores, Source
from ..core.events import Repeat
from . import controls
from .canary import AUTO, UNUSUAL, maker, pair
from .choice import Choice
from .demonstration import FEWEST, SHARE, Played, chosen, demonstrate, demonstrate_once, levelled, same_adjacency, watch
from .makers import Maker
from .portfolio import Pilot, pilot
from .runs.budget import Budget
from .runs.workers import Result
from .scoring import balanced, failures, scored
from .stage import Rehearsal, Stage, unusable
from .stepping import Steps, View
from .updates import demonstrate_updates

LEAST = 10
"""Runs of a game, so that a fifth of each side can choose."""
FIRST = 32
"""Runs that choose the threshold of a sequential game, at least; a twentieth of a long one."""
BATCH = 16
LATER, ENOUGH = 0.1, 30
"""The share of the runs that choose the threshold, once a fifth of each side would be more than enough of them."""
PILOTED = 100
"""Runs of a game that can pay for a pilot; fewer are all needed to judge."""
REHEARSED = 32
"""Runs that choose how the steps of a canary are scored, at most."""
REFERENCES = 4
"""Runs without any canary, by which each canary's own difficulty is taken out of its score."""


@dataclass(frozen=True)
class Outcome:
    """What a game gives: demonstrations, its controls, and the scores and runs they came from.

    `planned` runs of the training were to be made; `played` is what else there is to count.
    """

    shown: tuple[Demonstration, ...]
    controls: tuple[Control, ...]
    scores: Scores
    results: tuple[Result, ...]
    planned: int
    played: Mapping[str, str | int] = field(default_factory=dict)


Game = Callable[[Stage, Claim, str | Maker, int, float], Outcome]


def many_runs(stage: Stage, claim: Claim, canary: str | Maker, runs: int, confidence: float) -> Outcome:
    """Balanced runs with and without one canary; the number of runs is fixed beforehand.

    A tenth of them choose how runs are scored, and the threshold (of few runs up to a fifth); the rest judge.
    """
    if runs < LEAST:
        raise BadInput(f"A game of runs needs at least {LEAST} runs, got {runs}.")
    chance, lead = stage.budget.chance, lead_runs(stage, canary, runs)
    planned = stage.budget.affordable(runs - lead.runs, lead.times, LEAST)
    coins = balanced(planned, chance)
    results = stage.budget.patient(lead.times).run(lead.task, lead.coins(coins))
    offers = lead.scores(results, coins)
    _usable(offers[0], results, stage)
    first, rest = _parts(coins, chance)
    choice = chosen([Calibration(one.take(first)) for one in offers], claim, confidence)
    scores = next(one for one in offers if one.attack == choice.attack)
    shown = demonstrate(
        scores.take(rest),
        claim=claim,
        confidence=confidence,
        rng=chance,
        game="runs",
        canary=lead.canary,
        planned=planned,
        failed=failures(offers[0]),
        choice=choice,
    )
    return Outcome(shown, _controls(scores, stage), scores, tuple(results), planned, _told(lead, choice))


def sequential(stage: Stage, claim: Claim, canary: str | Maker, runs: int, confidence: float) -> Outcome:
    """Play in small batches and test after each; stops when the claim is refuted or the runs are used up."""
    if runs < FIRST + 2 * FEWEST:
        raise BadInput(f"A sequential game needs at least {FIRST + 2 * FEWEST} runs, got {runs}.")
    lead = lead_runs(stage, canary, min(runs, 800))
    most = runs - lead.runs
    turns = _Turns(lead, stage.budget.patient(lead.times), most)
    first = turns.play(max(FIRST, most // 20))
    choice = chosen([Calibration(one) for one in first], claim, confidence)
    choice = levelled(choice, next(one for one in first if one.attack == choice.attack))
    played = Played("sequential", lead.canary, most)
    shown = watch(turns.rest(choice.attack), claim=claim, confidence=confidence, played=played, choice=choice)
    scores = turns.scores(choice.attack)
    lost = failures(scores)
    shown = tuple(replace(item, failed=lost) for item in shown)
    return Outcome(shown, _controls(scores, stage), scores, tuple(turns.results), most, _told(lead, choice))


def lead_runs(stage: Stage, canary: str | Maker, runs: int, among: Sequence[str] = ()) -> Pilot | Rehearsal:
    """Runs that do not count: a pilot, where the canary is to be chosen and the runs can pay for it."""
    asked = canary == "auto" or canary in UNUSUAL
    return pilot(stage, canary, runs, among) if asked and runs >= PILOTED else stage.rehearse(canary, runs)


def _told(lead: Pilot | Rehearsal, choice: Choice) -> dict[str, str | int]:
    """For the evidence: what the pilot tried, and how runs were scored."""
    return {**lead.told, "seen_by": choice.attack} if isinstance(lead, Pilot) else {}


class _Turns:
    """The batches of a sequential game."""

    def __init__(self, lead: Pilot | Rehearsal, budget: Budget, most: int) -> None:
        self.lead, self.budget, self.most = lead, budget, most
        self.results: list[Result] = []
        self.coins: list[bool] = []

    def play(self, count: int) -> list[Scores]:
        """Scores of the next batch under every statistic on offer."""
        coins, done = balanced(count, self.budget.chance), len(self.results)
        found = self.budget.run(self.lead.task, self.lead.coins(coins))
        self.results += found
        self.coins += coins.tolist()
        return self.lead.scores(found, coins, done)

    def rest(self, statistic: str) -> Iterator[Scores]:
        """The other batches under one statistic, until the runs or the time are used up.

        A batch has as many runs with as without the canary, so a single run that is left over is not played.
        """
        while (left := self.most - len(self.results)) >= 2 and not self.budget.over:
            offers = self.play(min(max(2, self.budget.batch(BATCH)), left) // 2 * 2)
            yield next(one for one in offers if one.attack == statistic)

    def scores(self, statistic: str) -> Scores:
        """All runs under one statistic."""
        return next(one for one in self.lead.scores(self.results, np.array(self.coins)) if one.attack == statistic)


def one_run(stage: Stage, claim: Claim, canary: str | Maker, runs: int, confidence: float) -> Outcome:
    """One run with many canaries, each put in by its own fair coin; `runs` says how many canaries."""
    same_adjacency(claim, "add-remove")
    chance = stage.budget.chance
    name, task = stage.many(canary, runs)
    coins = chance.coins(runs)
    results = stage.budget.unhurried().run(task, [coins] + [np.zeros(runs, dtype=bool)] * REFERENCES)
    if results[0].problem:
        raise unusable(results[:1], stage.budget.fleet)
    usual = [result.score for result in results[1:] if not result.problem]
    scores = scored(results[0].score - (np.mean(usual, axis=0) if usual else 0.0), coins)
    played = Played("one-run", name, runs)
    shown = demonstrate_once(scores, claim=claim, confidence=confidence, played=played, ties=chance)
    tests = _controls(scores, stage, controls.by_guesses)
    return Outcome(shown, tests, scores, tuple(results), 1 + REFERENCES, {"canaries": runs})


def all_updates(stage: Stage, claim: Claim, canary: str | Maker, runs: int, confidence: float) -> Outcome:
    """A few runs, every step of which is a game with a coin of its own; `fit` is a generator (see `stepping`)."""
    if not isinstance(claim.event, Repeat):
        raise BadInput(
            "A game of updates tests an event that is repeated step by step.",
            fix="Claim a plan, or Repeat(event, steps), not a pair (epsilon, delta).",
        )
    chance, steps = stage.budget.chance, claim.event.steps
    name, task, view, times = _step_rehearsal(stage, canary, steps, max(runs // 8, 400 // steps))
    planned = stage.budget.affordable(runs, times)
    coins = chance.coins(planned * steps).reshape(planned, steps)
    results = stage.budget.patient(times).run(task, list(coins))
    ended = [place for place, result in enumerate(results) if not result.problem]
    if not ended:
        raise unusable(results)
    scores = _step_scores(view(_changes(results, view.centre.shape)), coins)
    played = Played("updates", name, planned, planned - len(ended))
    # whole runs choose, as the steps of one run know of each other; all that failed are judged
    first = np.isin(scores.target, ended[: max(1, planned // 5)])
    one = Claim(claim.bound, claim.event.event)
    choice = chosen(Calibration(scores.take(np.flatnonzero(first))), one, confidence)
    judged = scores.take(np.flatnonzero(~first))
    shown = demonstrate_updates(judged, claim=claim, confidence=confidence, rng=chance, played=played, choice=choice)
    return Outcome(shown, _controls(judged, stage), judged, tuple(results), planned, {"steps_per_run": steps})


def _step_rehearsal(
    stage: Stage, canary: str | Maker, steps: int, count: int
) -> tuple[str, Steps, View, tuple[float, ...]]:
    """Runs that do not count: the canary to play, how its steps are scored, and how long a run takes."""
    count = max(2, min(count, REHEARSED))
    offers, results = [], []
    for item in AUTO if canary == "auto" else [canary]:
        name, make = maker(item)
        task = Steps(stage.fit, pair(stage.x, stage.y, make, stage.budget.chance.generator(), stage.adjacency))
        coins = stage.budget.chance.coins(count * steps).reshape(count, steps)
        found = stage.budget.run(task, list(coins))
        results += found
        good = [place for place, result in enumerate(found) if not result.problem]
        if good:
            view, quality = View.fitted(np.stack([found[place].score for place in good]), coins[good])
            offers.append((quality, name, task, view))
    if not offers:
        raise unusable(results)
    _, name, task, view = max(offers, key=lambda offer: offer[0])
    return name, task, view, tuple(result.seconds for result in results if not result.problem)


def _changes(results: Sequence[Result], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """(runs x steps x margins); a failed run is all NaN."""
    return np.stack([np.broadcast_to(np.asarray(result.score, dtype=np.float64), shape) for result in results])


def _step_scores(score: NDArray[np.float64], coins: NDArray[np.bool_]) -> Scores:
    run, step = (part.ravel() for part in np.indices(coins.shape))
    made = scored(score.ravel(), coins.ravel())
    return Scores(made.score, made.member, attack=made.attack, randomised=True, record=step, target=run)


GAMES: dict[str, Game] = {"one-run": one_run, "runs": many_runs, "sequential": sequential, "updates": all_updates}


def _controls(scores: Scores, stage: Stage, procedure: controls.Procedure | None = None) -> tuple[Control, ...]:
    chance = stage.budget.chance
    return controls.null(scores, chance, procedure), controls.planted_leak(scores, chance, procedure)


def _usable(scores: Scores, results: Sequence[Result], stage: Stage) -> Scores:
    """The scores, if some run of each side gave one."""
    if not (np.isfinite(scores.members).any() and np.isfinite(scores.nonmembers).any()):
        raise unusable(results, stage.budget.fleet)
    return scores


def _parts(coins: NDArray[np.bool_], chance: Source) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Runs that choose and runs that judge, both sides in the same proportion."""
    order = chance.permutation(coins.size)
    sides = [order[coins[order]], order[~coins[order]]]
    cuts = [max(1, round(max(LATER * side.size, min(SHARE * side.size, ENOUGH)))) for side in sides]
    first = np.concatenate([side[:cut] for side, cut in zip(sides, cuts, strict=True)])
    return first, np.setdiff1d(order, first)
