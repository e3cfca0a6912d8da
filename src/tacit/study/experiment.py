"""One description of a training, bracketed in fleets: attacked with reference models, audited with a canary game."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..attacks import ATTACKS, blind_baseline
from ..audits import controls as audit_controls
from ..audits import demonstrate, play, stated
from ..audits.canary import Pair, maker, pair
from ..audits.demonstration import same_adjacency
from ..audits.panel import unknown
from ..audits.runs.budget import Budget
from ..audits.runs.journal import Journal
from ..audits.runs.tasks import Run
from ..audits.scoring import Runner, failures
from ..audits.stage import unusable
from ..core import (
    Adjacency,
    Claim,
    Demonstration,
    Evidence,
    Observations,
    Scores,
    Source,
    check,
)
from ..core.evidence import Scalar
from ..core.fault import FAULTS, Fault
from ..fleet import Fleet
from ..loss import Plan
from ..train import Trained, fit
from .assembly import assembled
from .faults import LEAST_OWN, in_fleet, would_catch
from .finished_parts import Finished
from .fleets import attacked, runner
from .fresh_model import crafted, fresh
from .membership import NOT_COVERED, controls, measured
from .minimiser import Minimiser
from .models import Predict, predictor
from .provenance import provenance
from .recipe import FLEET, OWN, Effort, Recipe
from .risk import groups, records
from .subsets import halves

THREAT = {
    "released": "final model",
    "attacker sees": "outputs on chosen records",
    "trust": "whoever trains holds the records and is trusted with them",
    "composition": "this one training run; other releases on the same records are not counted",
}
PART = 10
"""Runs of train.fit between two looks at the clock."""
OWN_SHARE = 0.2
"""Of the audit's error that the game of train.fit may use; the other is the fleet's."""
SHARED_ORDER = "secrecy of the batch order: the audit's runs share one, and its lower bound holds for who knows it"
Array = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A pool of records, a random half of it members of each model, and records that no model sees.

    `groups` names every pool record's group, whose risks are then compared; `numbers` are the pool's rows in the data,
    by which the most exposed records are named. `finished` keeps the audit's runs, if they shall survive an
    interruption.
    """

    x: Array
    y: Labels
    test: tuple[Array, Labels]
    chance: Source
    delta: float = 1e-5
    effort: Effort = field(default_factory=Effort)
    note: Callable[[str], None] = lambda text: None
    groups: NDArray[Any] | None = None
    numbers: NDArray[np.int64] | None = None
    finished: Finished | None = None

    def bracket(self, recipe: Recipe) -> tuple[Evidence, Trained | None]:
        """Evidence from both sides; a private recipe also gives the model that would be released.

        The reference models share one batch order, which no claim is made about. In the audit of a plan the canary's
        inclusion is drawn per (model, step), and all models start from the same, public, parameters; plain training,
        which claims nothing, starts every run anew.
        """
        check.whole("references", self.effort.references, least=3)
        claim = self._claim(recipe)
        same_adjacency(claim, Adjacency.ADD_REMOVE)
        member = halves(len(self.x), self.effort.references, self.chance)
        start = fresh(recipe.make, self.x, self.y, self.chance)
        released = self._release(recipe, copy.deepcopy(start), member[:, 0])
        seen, accuracy = self._references(recipe, released, member)
        measured = self._attack(recipe, seen)
        make = maker(self.effort.canary)[1]
        game = pair(self.x[member[:, 0]], self.y[member[:, 0]], make, self.chance.generator(), Adjacency.ADD_REMOVE)
        audited = self.audit(recipe, start, claim, game)
        evidence = assembled(
            measured,
            [audited],
            subject=recipe.name,
            claim=None if released is None else claim,
            given=None if released is None else released.evidence,
            utility={"test accuracy": accuracy},
            provenance=self._counted(released is not None),
        )
        return evidence, released

    def _claim(self, recipe: Recipe) -> Claim:
        """A plan's own bound; plain training claims nothing, which is an infinite epsilon."""
        plan = recipe.schedule
        return stated(plan if isinstance(plan, Plan) else (math.inf, self.delta), delta=self.delta)

    def _release(self, recipe: Recipe, model: nn.Module, member: NDArray[np.bool_]) -> Trained | None:
        plan = recipe.schedule
        if not isinstance(plan, Plan):
            return None
        self.note(f"{recipe.name}: training with noise multiplier {plan.noise_multiplier:.3f}")
        optimizer = recipe.optimizer(list(model.parameters()))
        data = (torch.as_tensor(self.x[member]), torch.as_tensor(self.y[member]))
        return fit(model, data, plan, optimizer=optimizer, rng=self.chance, delta=self.delta)

    def _references(
        self, recipe: Recipe, released: Trained | None, member: NDArray[np.bool_]
    ) -> tuple[Observations, float]:
        """What all models say of the pool, the released one first, and the test accuracy."""
        mine = 0 if released is None else 1
        self.note(f"{recipe.name}: training {member.shape[1] - mine} models")
        fleet = Fleet(recipe.make, recipe.optimizer)
        assert not isinstance(recipe.schedule, Minimiser)
        models = fleet.train(self.x, self.y, member[:, mine:], recipe.schedule, rng=self.chance)
        logits = models.logits(self.x)
        accuracy = float(models.accuracy(*self.test)[: self.effort.targets].mean())
        if released is not None:
            answer = predictor(released.model)
            logits = np.concatenate((answer(self.x)[:, None], logits), axis=1)
            accuracy = float((answer(self.test[0]).argmax(1) == self.test[1]).mean())
        named = None if self.groups is None else np.asarray(self.groups).astype(str)
        return Observations.from_logits(logits, self.y, member=member, group=named, record=self.numbers), accuracy

    def _attack(self, recipe: Recipe, seen: Observations) -> Evidence:
        effort = self.effort
        self.note(f"{recipe.name}: attacking {effort.targets} models, each with the others as references")
        found = measured(attacked(seen, effort.attacks, effort.targets), effort.confidence, effort.fpr)
        first, others = seen.select(models=[0]), seen.select(models=np.arange(1, seen.models))
        side = first.need("member")[:, 0]
        baseline, blind = blind_baseline(self.x, side, self.chance, label=self.y, confidence=effort.confidence)
        return Evidence(
            subject=recipe.name,
            measurements=(*found, baseline),
            controls=(*controls(ATTACKS["lira"], first, others, self.chance), blind),
            not_covered=NOT_COVERED,
            threat=THREAT,
            provenance=provenance(self.chance),
            groups=groups(seen, effort.attacks[-1], effort.confidence, self.chance),
            **records(seen, self.chance),
        )

    def audit(self, recipe: Recipe, start: nn.Module, claim: Claim, game: Pair) -> Evidence:
        """The first model's own records with and without one canary, in a fleet and, for a plan, by `train.fit`."""
        effort, plan = self.effort, recipe.schedule
        start = crafted(start, *self.test) if effort.start == "crafted" else start
        error = 1 - effort.audit_confidence
        if not recipe.in_fleets:
            own = self._play_own(recipe, start, game)
            shown = self._shown(own, claim, 1 - error, recipe.code, game)
            found = self._judged(recipe, own, shown)
            return found.with_(caught=self._own_faults(recipe, start, claim, game, shown[0]))
        if not isinstance(plan, Plan):
            scores = self._play_fleet(Fleet(recipe.make, recipe.optimizer), recipe, game)
            return self._judged(recipe, scores, self._shown(scores, claim, 1 - error, "runs", game), (SHARED_ORDER,))
        fleet = Fleet(start, recipe.optimizer)
        scores, own = self._play_fleet(fleet, recipe, game), self._play_own(recipe, start, game)
        shown = (
            *self._shown(scores, claim, 1 - (1 - OWN_SHARE) * error, FLEET, game),
            *self._shown(own, claim, 1 - OWN_SHARE * error, OWN, game),
        )
        both = f"one of two games of this audit, which hold together with confidence {effort.audit_confidence:.10g}"
        found = self._judged(recipe, scores, tuple(_assuming(item, both) for item in shown), (codes(shown),))
        self.note(f"{recipe.name}: planting usual faults, to say what this audit would have caught")
        planted = in_fleet(fleet, game, plan, self.chance)
        return found.with_(caught=would_catch(planted, claim, shown[0], effort.fault_runs, self.chance))

    def _own_faults(
        self, recipe: Recipe, start: nn.Module, claim: Claim, game: Pair, shown: Demonstration
    ) -> tuple[Fault, ...]:
        """The panel of runs that no fleet makes, where the training offers faults: in others it would take too long."""
        offered = recipe.planted
        if offered is None:
            return unknown()

        def planted(fault: str) -> Runner | None:
            again = offered(fault)
            if again is None:
                return None
            wrong = replace(recipe, again=again)
            return self._own(wrong, start, game, f"fault-{FAULTS.index(fault)}")

        self.note(f"{recipe.name}: planting usual faults, to say what this audit would have caught")
        return would_catch(planted, claim, shown, self.effort.fault_runs, self.chance, LEAST_OWN)

    def _play_fleet(self, fleet: Fleet, recipe: Recipe, game: Pair) -> Scores:
        self.note(f"{recipe.name}: auditing with {self.effort.runs} models")
        told = TimeLeft(recipe.name, self.note)
        assert not isinstance(recipe.schedule, Minimiser)
        run = self._kept(runner(fleet, game, recipe.schedule, self.chance, told))
        return play(run, self.effort.runs, self.chance)

    def _play_own(self, recipe: Recipe, start: nn.Module, game: Pair) -> Scores:
        code = recipe.code.removeprefix("runs, ")
        self.note(f"{recipe.name}: auditing {code} itself with {self.effort.own_runs} models")
        return play(self._own(recipe, start, game), self.effort.own_runs, self.chance)

    def _judged(
        self, recipe: Recipe, scores: Scores, shown: tuple[Demonstration, ...], open_: tuple[str, ...] = ()
    ) -> Evidence:
        """The evidence of an audit, with its controls on the scores of its larger game."""
        tests = (audit_controls.null(scores, self.chance), audit_controls.planted_leak(scores, self.chance))
        return Evidence(subject=recipe.name, demonstrations=shown, controls=tests, not_covered=open_, scores=(scores,))

    def _kept(self, run: Runner) -> Runner:
        """Runs in a fleet, which are not made again where they were finished before an interruption."""
        if self.finished is None:
            return run
        finished = self.finished
        return lambda coins: finished.part(f"fleet-{coins.size}", lambda: run(coins))

    def _journal(self, game: Pair, runs: int, name: str) -> Journal | None:
        """Where the runs of train.fit are noted."""
        place = None if self.finished is None else self.finished.journal(name)
        if place is None:
            return None
        return Journal.open(place, {"runs": runs, "canary": self.effort.canary}, (game.x, game.y), self.chance)

    def _own(self, recipe: Recipe, start: nn.Module, game: Pair, name: str = "own-runs") -> Runner:
        """Runs of the very code that trains the released model, from the same public start, each in a process."""

        def train(x: Array, y: Labels, rng: np.random.Generator) -> Predict:
            if recipe.again is not None:
                return recipe.again(start, x, y, rng)
            plan, model = recipe.schedule, copy.deepcopy(start)
            assert isinstance(plan, Plan)
            optimizer = recipe.optimizer(list(model.parameters()))
            data = (torch.as_tensor(x), torch.as_tensor(y))
            return predictor(fit(model, data, plan, optimizer=optimizer, rng=rng, delta=self.delta).model)

        def run(coins: NDArray[np.bool_]) -> NDArray[np.float64]:
            results, told = [], TimeLeft(recipe.name, self.note)
            budget = Budget.of("process", None, self.chance, self._journal(game, coins.size, name))
            for part in np.array_split(coins, max(1, coins.size // PART)):
                results += budget.run(Run(train, game), part.tolist())
                told(len(results), coins.size)
            if all(result.problem for result in results):
                raise unusable(results)
            return np.array([result.score for result in results])

        return run

    def _shown(
        self, scores: Scores, claim: Claim, confidence: float, name: str, game: Pair
    ) -> tuple[Demonstration, ...]:
        return demonstrate(
            scores,
            claim=claim,
            confidence=confidence,
            rng=self.chance,
            game=name,
            canary=maker(self.effort.canary)[0] + ", crafted start" * (self.effort.start == "crafted"),
            planned=len(scores),
            failed=failures(scores),
            adjacency=game.adjacency,
        )

    def _counted(self, private: bool) -> dict[str, Scalar]:
        """How many models were trained for what, and the audit's by which code."""
        effort = self.effort
        own: dict[str, Scalar] = {"runs_of_train.fit": effort.own_runs} if private else {}
        return {"references": effort.references, "runs_of_the_fleet": effort.runs, **own}


class TimeLeft:
    """For the person who waits: how many runs are done and how long the others will take, every ten seconds."""

    def __init__(self, name: str, note: Callable[[str], None], every: float = 10.0) -> None:
        self.name, self.note, self.every = name, note, every
        self.started = self.told = time.monotonic()

    def __call__(self, done: int, count: int) -> None:
        now = time.monotonic()
        if done >= count or now - self.told < self.every:
            return
        self.told = now
        left = (now - self.started) / done * (count - done)
        self.note(f"{self.name}: {done:,} of {count:,} runs, about {left:.0f} s left")


def codes(shown: tuple[Demonstration, ...]) -> str:
    """What the audit says of the code that trained the released model."""
    fleet, own = shown[0], shown[-1]
    return (
        f"small faults of the code that trained the released model: {fleet.planned} runs of the audit are a fleet's, "
        f"tested to take the same steps; {own.planned} are train.fit's own, and can show epsilon {own.attainable:.3g} "
        "at most"
    )


def _assuming(item: Demonstration, words: str) -> Demonstration:
    return replace(item, bound=replace(item.bound, assumptions=(*item.bound.assumptions, words)))
