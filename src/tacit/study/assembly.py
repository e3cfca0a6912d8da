"""One piece of evidence from the attack, the audits and the claim: every bracket is put together here.

A model may be trained on a random half, taken as it is, made by `train`, or one of a fleet. In all cases its evidence
is the attack's, with what was given beside it and what each audit adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core import Claim, Control, Evidence
from ..core.evidence import Scalar
from ..core.fault import Fault
from .membership import of_audit
from .risk import by_steps, placed

UNTESTED = "the training: it was not made again and no canary's coin is known, so no audit tested the claim"
EARLIER = "one confidence for all audits: those of the evidence that was given have their own"
SEEN = "what the attacks saw"
SINGLE = "groups of records: the attack plays with single records, the claim is about one {}"


def assembled(
    measured: Evidence,
    audits: Sequence[Evidence],
    *,
    subject: str,
    claim: Claim | None,
    given: Evidence | None = None,
    utility: dict[str, float] | None = None,
    rows: NDArray[np.int64] | None = None,
    provenance: dict[str, Scalar] | None = None,
) -> Evidence:
    """The whole evidence about one model.

    `measured` is the attack's evidence and `audits` that of the games that were played. `given` is what came with the
    model, its training's evidence as a rule. `rows` are the places of the attack's records in the data, by which the
    most exposed, and the attack's scores, are named.
    """
    measured = measured if rows is None else placed(measured, rows)
    old = Evidence(subject="") if given is None else given
    shown = (*old.demonstrations, *(item for audit in audits for item in audit.demonstrations))
    parts = [item for audit in audits for item in audit.not_covered]
    lines = (*_lines(claim, old, audits), *parts, *measured.not_covered, *old.not_covered)
    return measured.with_(
        subject=subject,
        claim=claim,
        demonstrations=shown,
        budget=old.budget or by_steps(claim),
        utility={**old.utility, **(utility or {})},
        controls=(*measured.controls, *_earlier(old), *(test for audit in audits for test in of_audit(audit.controls))),
        not_covered=tuple(dict.fromkeys(lines)),
        threat=_threat(old, measured),
        caught=_caught(old, audits),
        provenance={**_sources(measured, given, audits), **(provenance or {})},
        described=old.described,
        scores=(*measured.scores, *(item for audit in audits for item in audit.scores)),
    )


def _lines(claim: Claim | None, old: Evidence, audits: Sequence[Evidence]) -> tuple[str, ...]:
    """What this way of bracketing leaves open."""
    shown = old.demonstrations or any(audit.demonstrations for audit in audits)
    lines = () if shown or claim is None else (UNTESTED,)
    if old.demonstrations and audits:
        lines = (*lines, EARLIER)
    if claim is not None and claim.bound.unit != "record":
        lines = (*lines, SINGLE.format(claim.bound.unit))
    return lines


def _threat(old: Evidence, measured: Evidence) -> dict[str, str]:
    """The claim's own threat model; what the attacks looked at stands beside it, and does not narrow the claim."""
    if not old.threat:
        return dict(measured.threat)
    seen, released = measured.threat.get("attacker sees", ""), measured.threat.get("released", "")
    return {**measured.threat, **old.threat, **({SEEN: f"{seen} ({released})"} if seen and released else {})}


def _caught(old: Evidence, audits: Sequence[Evidence]) -> tuple[Fault, ...]:
    """The panel of faults of the audits; where several audits have one, the panel with the most known chances."""
    panels = [audit.caught for audit in (*audits, old) if audit.caught]
    return max(panels, key=lambda panel: sum(fault.chance is not None for fault in panel), default=())


def _sources(measured: Evidence, given: Evidence | None, audits: Sequence[Evidence]) -> dict[str, Scalar]:
    """Provenance of all parts: `made` is when the whole was; of a training that came with the model, `trained_at`.

    `randomness` is that of the training: of a model that came without a word about it, nobody knows.
    """
    known = {key: value for key, value in measured.provenance.items() if key != "randomness"}
    source = measured.provenance.get("randomness")
    own = {} if source is None else {"randomness" if given is None else "attack_randomness": source}
    old: dict[str, Scalar] = {} if given is None else dict(given.provenance)
    games = {key: value for audit in audits for key, value in audit.provenance.items() if key != "randomness"}
    dates = {} if "made" not in known else {"made": known["made"]}
    if "made" in old:
        dates["trained_at"] = old["made"]
    return {**known, **own, **old, **games, **dates}


def _earlier(old: Evidence) -> tuple[Control, ...]:
    """Controls of the evidence that came with the model, kept where its demonstrations are."""
    return tuple(replace(test, name=f"earlier: {test.name}") for test in old.controls if old.demonstrations)
