"""A student of PATE held from both sides: attacked as it is, and the whole run that made it audited.

The attack's members are the private records, which only the teachers saw; its non-members are public records that were
neither asked about nor learned from. Reference models and the audit's runs repeat the whole run: shards, teachers,
noisy votes and student. The audit sees the student alone; the labels are released as well, and may tell more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..audits import audit, stated
from ..core import BadInput, Evidence
from ..core.evidence import Scalar
from . import taken_model
from .assembly import assembled
from .audit_section import AuditSection
from .finished_parts import Finished
from .membership import attack
from .models import accuracy
from .pate_run import PateRun
from .released import ACCURACY, BASELINE, one_each
from .run_training import baseline

RUNS, REFERENCES = 200, 16
LABELS = "what the released labels tell beside the student: the audit's score is what the student says of its canary"


def bracket_student(
    made: PateRun,
    student: Any,
    evidence: Evidence,
    game: AuditSection,
    attacks: dict[str, Any],
    finished: Finished,
    note: Callable[[str], None] = lambda text: None,
) -> Evidence:
    """Evidence from both sides about a student; `evidence` is that of its run, `attacks` the section [attack]."""
    records, chance = made.records, finished.chance
    sides = [np.flatnonzero(made.inside), made.held_out]
    if len(sides[1]) < 2:
        raise BadInput(
            "All public records were asked about, so nobody is left to tell the private ones from.",
            fix="Ask about fewer: `queries` in [pate].",
        )
    given = taken_model.Given.of(student, evidence, made.estimator.delta)
    claim = given.claim or stated((float("inf"), made.estimator.delta), delta=made.estimator.delta)
    if records.unit is not None:
        sides = [one_each(records.unit, side, chance) for side in sides]
    members, others = ((records.x[rows], records.y[rows]) for rows in sides)
    references, fit, runs = attacks.get("references", REFERENCES), made.again(), game.runs or RUNS
    note(f"attacking the student with {references} reference runs of {made.estimator.teachers} teachers each")
    rates: dict[str, Any] = {"fpr": tuple(attacks["fpr"])} if "fpr" in attacks else {}
    measured = attack(
        student, members, others, attacks=attacks.get("attacks", "auto"), references=references, fit=fit,
        groups=None if records.groups is None else records.groups[np.concatenate(sides)], confidence=game.confidence,
        rng=chance, checkpoint=finished, **rates,
    )  # fmt: skip
    note(f"auditing the run: {runs if game.seconds is None else 'some'} runs with and without one canary")
    audited = audit(
        fit, made.private, claim=claim, runs=runs, confidence=game.confidence, rng=chance, isolation=game.isolation,
        canary=game.canary, seconds=game.seconds,
        checkpoint=finished.journal("audit") if game.seconds is None else None,
    )  # fmt: skip
    held, rows = (records.x[made.held_out], records.y[made.held_out]), np.concatenate(sides)
    return assembled(
        measured,
        [audited.with_(not_covered=(*audited.not_covered, LABELS))],
        subject=evidence.subject,
        claim=given.claim,
        given=given.evidence,
        utility={ACCURACY: accuracy(student, *held), BASELINE: baseline(held[1])},
        rows=records.places(rows),
        provenance=_who(made, references, runs),
    )


def _who(made: PateRun, references: int, runs: int) -> dict[str, Scalar]:
    """What was trained on what."""
    inside, asked, held = int(made.inside.sum()), len(made.asked), len(made.held_out)
    drawn = f"{references}, each a whole run on records drawn at random from both" if references else "none"
    return {
        "released_model_trained_on": f"labels of {asked} public records, by teachers of {inside} private ones; {held} "
        "other public records were held out",
        "reference_models": drawn,
        "audit_runs": f"{runs} whole runs: the {inside} private records, with or without one canary",
        "records": inside,
        "references": references,
    }
