"""A model that `train` made: attacked as it is, its own training audited, and both put beside its claim.

The attack's members are the records that the model was trained on, its non-members those that were held out; reference
models learn as many records, drawn at random from both together. The audit repeats the same training, on the same
records, with and without one canary. The evidence says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from ..audits.canary import maker, pair
from ..audits.demonstration import same_adjacency
from ..core import Adjacency, BadInput, Evidence, Source
from ..core.evidence import Scalar
from . import taken_model
from .assembly import assembled
from .experiment import Experiment
from .finished_parts import Finished
from .fresh_model import fresh
from .membership import NO_REFERENCES, NONE_ASKED, attack
from .models import accuracy
from .recipe import Effort, Recipe
from .run_training import RunTraining, baseline

ACCURACY, BASELINE = "test accuracy", "most frequent class"
UNREFERENCED = (
    "attacks with reference models, which find more: a fleet makes them, and cannot repeat this kind of training"
)
ONE_EACH = "one, drawn at random, of each of {} users who were trained on and {} who were not"


def bracket_released(
    training: RunTraining,
    model: nn.Module,
    evidence: Evidence,
    effort: Effort,
    attacks: Any,
    finished: Finished,
    note: Callable[[str], None] = lambda text: None,
) -> Evidence:
    """Evidence from both sides about one trained model; `evidence` is that of its training, with the claim.

    `finished` brings the randomness, and keeps reference models and the audit's runs.
    """
    records = training.records
    sides = [np.flatnonzero(side) for side in (training.inside & _usual(training), training.held_out)]
    if len(sides[1]) < 2:
        raise BadInput("No records were held out, so there is nobody to tell members from.", fix="Give `members`.")
    given = taken_model.Given.of(model, evidence, training.delta)
    claim = given.claim or training.claim
    same_adjacency(claim, Adjacency.ADD_REMOVE)
    held = records.x[sides[1]], records.y[sides[1]]
    if records.unit is not None:
        sides = [one_each(records.unit, side, finished.chance) for side in sides]
        if len(sides[1]) < 2:
            raise BadInput(
                "Records of one user only were held out, so there is nobody to tell members from.",
                fix="Hold out more users: name the records to train on by `members` in [data].",
            )
    members, others = ((records.x[rows], records.y[rows]) for rows in sides)
    rows = np.concatenate(sides)
    references = training.reference()
    count = effort.references if references is not None else 0
    note(f"{training.name}: attacking the model {f'with {count}' if count else 'without'} reference models")
    measured = attack(
        model,
        members,
        others,
        attacks=attacks,
        references=count,
        fit=references,
        groups=None if records.groups is None else records.groups[rows],
        confidence=effort.confidence,
        rng=finished.chance,
        fpr=effort.fpr,
        checkpoint=finished,
    )
    if references is None:
        lines = [UNREFERENCED if line in (NO_REFERENCES, NONE_ASKED) else line for line in measured.not_covered]
        measured = measured.with_(not_covered=tuple(lines))
    audited = _audited(training, effort, claim, finished, note)
    return assembled(
        measured,
        [audited],
        subject=evidence.subject or training.name,
        claim=given.claim,
        given=given.evidence,
        utility={ACCURACY: accuracy(model, *held), BASELINE: baseline(held[1])},
        rows=records.places(rows),
        provenance=_who(training, count, sides, effort),
    )


def _audited(
    training: RunTraining, effort: Effort, claim: Any, finished: Finished, note: Callable[[str], None]
) -> Evidence:
    """Runs of the released model's own training, with and without one canary."""
    x, y = training.data
    held, chance = training.held_out, finished.chance
    trial = Experiment(
        x, y, (training.records.x[held], training.records.y[held]), chance, training.delta, effort, note,
        finished=finished,
    )  # fmt: skip
    recipe = Recipe(
        training.name, training.make, training.optimizer, training.plan, training.again, training.in_fleets,
        f"runs, {training.code}", training.planted,
    )  # fmt: skip
    start = fresh(training.make, x, y, chance)
    game = pair(x, y, maker(effort.canary)[1], chance.generator(), Adjacency.ADD_REMOVE)
    return trial.audit(recipe, start, claim, game)


def one_each(users: Any, rows: Any, chance: Source) -> Any:
    """One of these rows for every user, drawn at random: records of one user are alike, and intervals count them as
    independent."""
    mixed = rows[chance.permutation(len(rows))]
    return np.sort(mixed[np.unique(users[mixed], return_index=True)[1]])


def _usual(training: RunTraining) -> Any:
    """Records that are no canaries."""
    canaries = training.records.canaries
    return np.ones(len(training.inside), dtype=bool) if canaries is None else ~canaries


def _who(training: RunTraining, references: int, sides: Sequence[Any], effort: Effort) -> dict[str, Scalar]:
    """What was trained on what, and attacked with what; `sides` are the attack's members and outsiders."""
    inside, held = int(training.inside.sum()), int(training.held_out.sum())
    users = None if training.users is None else len(np.unique(training.users))
    unit = "" if users is None else f" of {users} users"
    own = f"{effort.own_runs} by {training.code}"
    runs = f"{effort.runs} by a fleet, {own}" if training.in_fleets else own
    drawn = f"{references}, each trained on as many records, drawn at random from {sum(map(len, sides))} of both"
    return {
        "released_model_trained_on": f"{inside} records{unit}; {held} other records were held out",
        "reference_models": drawn if references else "none",
        **({} if users is None else {"attacked_records": ONE_EACH.format(*map(len, sides)), "users": users}),
        "audit_runs": f"{runs}: the released model's {inside} records, with or without one canary",
        "records": inside,
        "references": references,
    }
