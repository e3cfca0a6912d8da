"""What a PATE run says about itself: the claim, who sees what, and what no proof covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..audits.claims import with_frontier
from ..core import Bound, Claim, Evidence
from .release import CHOSEN, INSTANCE, ONCE

if TYPE_CHECKING:
    from .estimator import PATE

VOTES = "the votes and the teachers: whoever sees them sees private data without noise"
TEACHER_ACCURACY = "the teachers' accuracy: it is computed without noise, for the operator alone"
TUNED = "settings (noise, threshold, teachers) that were chosen by looking at the private data"
DEPENDENT = "a data-dependent epsilon: it is private, and this claim is not made of it"
SEEDED = "anybody who knows the seed that shards and noise were drawn from, or sees another release drawn from it"
ALONE = "other releases: no ledger was given"


def evidence(run: PATE, utility: Mapping[str, float]) -> Evidence:
    """Evidence of a fitted run."""
    design, given = run.design_, run._given
    derived = () if given.schema is None else given.schema.derived
    facts = (f"ranges or words read off the data: {', '.join(derived)}",) if derived else ()
    seeded = (SEEDED,) if run._seeded else ()
    won = vars(run).get("searched_")
    tuned = (TUNED,) if won is None else ()
    alone = (ALONE,) if run.receipt_ is None else ()
    return Evidence(
        subject="student taught by PATE",
        claim=with_frontier(Claim(run.bound_, run.event_)),
        utility=dict(utility),
        not_covered=(
            VOTES,
            TEACHER_ACCURACY,
            *tuned,
            DEPENDENT,
            *facts,
            *seeded,
            *alone,
            *(() if won is None else won.not_covered),
        ),
        threat=threat(run),
        provenance={
            "method": "PATE",
            "aggregation": repr(run.aggregator),
            "teachers": int(run.teachers),
            "queries": design.queries,
            "answers at most": design.answers,
            "answers given": run.answered_,
            "randomness": run._randomness,
            **_released(run.released_),
            **({} if won is None else {"settings": won.provenance["settings"]}),
        },
    )


def _released(bounds: Sequence[Bound | None]) -> dict[str, str | float]:
    """What was released about the run's own cost; the claim counts these releases, whatever they said."""
    found: dict[str, str | float] = {}
    for number, bound in enumerate(bounds, start=1):
        name = f"data-dependent epsilon{'' if number == 1 else f' {number}'}"
        if bound is None:
            found[name] = "a proposed bound was tested and not confirmed"
            continue
        found[name] = bound.epsilon
        found[f"{name}, meaning"] = (
            f"{bound.method}; true with probability {bound.confidence:g}; {INSTANCE}; {CHOSEN}; {ONCE}"
        )
    return found


def threat(run: PATE) -> dict[str, str]:
    """Who sees the votes, the labels and the student."""
    unit = run.design_.unit
    return {
        "released": "the labels of the answered queries, which queries were answered, and the student"
        + (", and a data-dependent epsilon or that a proposed one failed" if run.released_ else ""),
        "attacker sees": "every released label and the whole student; knows all public inputs and settings",
        "who sees the votes": "the operator who runs the teachers, and nobody else",
        "who sees the labels": "the student's teacher and anybody it is shown to: they are released",
        "who sees the student": "anybody: it is made of released labels and public inputs alone",
        "trust": f"whoever trains the teachers holds the records; one {unit} belongs to one teacher",
        "composition": "this run alone, unless a ledger was charged",
    }
