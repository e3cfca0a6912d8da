"""Verbs that test claims: audit, verify."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import BadInput
from ..core.evidence import Demonstration, Evidence
from ..core.fault import chance_words
from ..core.files import Lasting
from ..core.interval import finite
from ..core.json_text import Json
from ..core.run_folder import run_folder
from ..core.shown import at_most, shortened, small
from ..study.run_file import RunFile
from .app import AGAIN, DONE, REFUTED, SEED, STATUS_OF_VERDICT, Result, assumed, note, resumable, verb
from .entry import Guarded, code_of, resolve, resolve_callable
from .inputs import canary as canary_maker
from .inputs import read_data, read_event, read_records, seeded

if TYPE_CHECKING:
    from ..audits import Verification

PAIR_HELP = "(D, D') for a mechanism, or a function that returns it."
CANARY_HELP = (
    "auto, backdoor, blank, clip-aware, contrary, duplicate, mislabelled, missing, near-duplicates, outlier, rare, "
    "unseen, or PKG:NAME."
)


@verb("audit")
def audit(
    entry: Annotated[str, typer.Argument(metavar="PKG:NAME", help="fit(x, y, rng) -> predict, or a mechanism.")],
    epsilon: Annotated[float | None, typer.Option(help="The claimed epsilon.")] = None,
    delta: Annotated[float, typer.Option(help="The claim's delta.")] = 1e-5,
    event: Annotated[
        str | None, typer.Option(metavar="FILE", help="The claimed event in JSON; - reads it from standard input.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Data set, .npz, .csv or PKG:NAME returning (x, y).")] = None,
    label: Annotated[str | None, typer.Option(help="Label column of a CSV.")] = None,
    pair: Annotated[
        str | None, typer.Option(metavar="PKG:NAME", help="(D, D') for a mechanism, or a function that returns it.")
    ] = None,
    adjacency: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    game: Annotated[str, typer.Option(help="runs, sequential, one-run or updates.")] = "runs",
    canary: Annotated[str, typer.Option(help=CANARY_HELP)] = "auto",
    runs: Annotated[int, typer.Option(help="How many runs; in a one-run game, how many canaries.")] = 1000,
    seconds: Annotated[float | None, typer.Option(help="Time budget; the number of runs is fixed to fit it.")] = None,
    confidence: Annotated[float, typer.Option(help="Of the lower bound.")] = 0.95,
    isolation: Annotated[str, typer.Option(help="Where runs are made: auto, process, fleet, ray or none.")] = "auto",
    out: Annotated[str, typer.Option(metavar="DIR", help="Where evidence.json goes.")] = "tacit-audit",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the audit that did not end in DIR.")] = False,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """Test a privacy claim about somebody's training or mechanism."""
    from ..audits import audit as audit_fit
    from ..audits import audit_mechanism
    from ..study.sealing import KEY_FILE, sealed

    if (epsilon is None) == (event is None):
        raise BadInput("Give the claim as --epsilon with --delta, or as --event FILE.")
    if (data is None) == (pair is None):
        raise BadInput("Give --data for a training function, or --pair for a mechanism.")
    with_data = (game, canary, seconds, label, resume, isolation)
    if pair is not None and with_data != ("runs", "auto", None, None, False, "auto"):
        raise BadInput("--game, --canary, --seconds, --label, --resume and --isolation go with --data.")
    if resume and seconds is not None:
        raise BadInput("An audit with a time budget cannot be resumed.", fix="Say how many runs, not seconds.")
    claim: Any = (epsilon, delta) if event is None else read_event(event)
    target = resolve_callable(entry)
    common: Json = {"claim": claim, "runs": runs, "confidence": confidence, "rng": seeded(seed)}
    state = "checkpoint.jsonl" if pair is None and seconds is None else None
    records = None if pair is not None else read_data(str(data), label=label)
    sides: Any = None if pair is None else read_pair(pair)
    with run_folder(out, "audit", state=state, settings=code_of(entry), resume=resume, again=again) as held:
        if records is None:
            found = audit_mechanism(target, sides, delta=delta, adjacency=adjacency, **common)
        else:
            note(f"auditing {entry} with {runs} {'canaries' if game == 'one-run' else 'runs'}")
            more: Json = {"game": game, "canary": canary_maker(canary), "seconds": seconds}
            more |= {"isolation": isolation, "delta": delta, "adjacency": adjacency}
            kept = None if held.state is None else Lasting(held.state)
            with resumable(held.state, held.final):
                found = audit_fit(target, (records.x, records.y), checkpoint=kept, **more, **common)
            found = sealed(found, records.x, records.y, held.results / KEY_FILE)
        found.save(held.results / "evidence.json")
        held.commit()
    result = audited(found, str(held.final / "evidence.json"), asked=runs)
    return replace(result, lines=[*result.lines, *(f"Not covered: {text}." for text in found.not_covered)])


def read_pair(entry: str) -> Any:
    """The two data sets of a mechanism's game: a value, or a function without arguments that returns them."""
    found = resolve(entry)
    return Guarded(entry)() if callable(found) else found


def audited(evidence: Evidence, path: str, asked: int | None = None) -> Result:
    """The fields of the contract, and a small table; `asked` is how many runs were wanted."""
    shown, upper = evidence.lower, evidence.upper
    data = {
        "verdict": evidence.verdict.value,
        "sentence": evidence.sentence,
        "claim": None if upper is None else upper.to_json(),
        "lower": None if shown is None else shown.bound.to_json(),
        "attainable": evidence.to_json()["attainable"],
        "counts": None if shown is None else shown.counts.to_json(),
        "runs": None if shown is None else _runs(shown, evidence),
        "stopped": None if shown is None else _stopped(shown, evidence, asked),
        "controls": [vars(control) for control in evidence.controls],
        "reason": evidence.reason,
        "caught": [fault.to_json() for fault in evidence.caught],
        "not_covered": list(evidence.not_covered),
        "evidence": path,
    }
    rows = [("verdict", evidence.verdict.value)]
    if upper is not None:
        rows.append(("claim", f"epsilon <= {upper.shown(4)} at delta {small(upper.delta)} ({upper.adjacency})"))
    for item in evidence.demonstrations:
        bound = item.bound
        family = f", within {shortened(bound.assumes)}" if bound.assumes else ", whatever the mechanism"
        sure = f"with confidence {bound.confidence:.10g} ({bound.method}{family})"
        rows.append((f"shown ({item.game})", f"epsilon >= {bound.shown(4)} {sure}"))
        rows.append(("attainable", at_most(item.attainable, 4)))
    rows += [(f"would catch: {fault.name}", chance_words(fault)) for fault in evidence.caught if fault.chance]
    rows += [(f"control {item.name}", "passed" if item.passed else "FAILED") for item in evidence.controls]
    for title, names in _chosen(evidence).items():
        rows.append((title, ", ".join(names)))
    rows.append(("evidence", path))
    lines = [evidence.sentence, *assumed(() if upper is None else upper.assumptions)]
    return Result(data, rows, lines, STATUS_OF_VERDICT[evidence.verdict.value])


@verb("verify")
def verify(
    evidence: Annotated[str, typer.Argument(metavar="EVIDENCE", help="An evidence JSON file.")],
    data: Annotated[
        str | None, typer.Option(help="The data, or the run file that names them: is the evidence about them?")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of a CSV.")] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="data.key, written beside the evidence.")] = None,
) -> Result:
    """Recompute what follows from an evidence file's events and counts; needs no data."""
    from ..audits import verify as recompute

    if (data is None) != (key is None):
        raise BadInput("--data and --key go together.", fix="The key is data.key, written beside the evidence.")
    found, told = recompute(evidence), Evidence.load(evidence)
    bounds = [asdict(row) for row in found.bounds]
    rows = [(row["method"], _compared(**row)) for row in bounds]
    wrong = [row for row in found.statements if not row.equal]
    rows += [(row.about, f"stored {row.stored!r}, recomputed {row.recomputed!r}, DIFFERENT") for row in wrong]
    lines = _findings(found)
    same = None if data is None else _about(told, data, label, str(key))
    if same is not None:
        lines.append(f"The evidence is about {'these' if same else 'OTHER'} data.")
    if found.unchecked:
        lines.append(f"Not recomputed, as only the data could: {', '.join(found.unchecked)}.")
    checked = {"ok": found.ok and same is not False, "bounds": [{**row, **_finite(row)} for row in bounds]}
    checked |= {"statements": [asdict(row) for row in found.statements]}
    checked |= {"unchecked": list(found.unchecked), "same_data": same, "same_words": found.same_words}
    return Result(checked, rows, lines, DONE if checked["ok"] else REFUTED)


def _findings(found: Verification) -> list[str]:
    """Whether bounds follow, whether all else that must follow does, and whether the wording is this version's."""
    bounds = all(row.equal for row in found.bounds)
    lines = ["Every bound follows from the evidence." if bounds else "Some bounds do not follow from the evidence."]
    if bounds and not found.ok:
        lines.append("Something else that the file says does not follow from the evidence.")
    if not found.same_words:
        lines.append("The words differ from what this version would write: read the recomputed ones.")
    return lines


def _about(evidence: Evidence, data: str, label: str | None, key: str) -> bool:
    from ..study.sealing import same_data

    if data.endswith(".toml") and label is not None:
        raise BadInput("--label goes with a table: a run file names its label itself.")
    records = read_records(RunFile.read(data)) if data.endswith(".toml") else read_data(data, label=label)
    return same_data(evidence, records.x, records.y, key)


def _chosen(evidence: Evidence) -> dict[str, dict[str, None]]:
    """Which canaries were played, or which features of a release were judged, as the audit has chosen them."""
    found: dict[str, dict[str, None]] = {}
    for item in evidence.demonstrations:
        found.setdefault("feature" if item.game == "mechanism" else "canary", {})[item.canary] = None
    return found


def _runs(shown: Demonstration, evidence: Evidence) -> Json:
    """How many runs were made, as the evidence says: a game may end early, or play many canaries in a few runs."""
    told, planned = evidence.provenance, shown.planned
    usual = {"done": planned - shown.failed, "planned": planned, "failed": shown.failed}
    return {key: told.get(f"runs_{key}", value) for key, value in usual.items()}


def _stopped(shown: Demonstration, evidence: Evidence, asked: int | None) -> str:
    runs = _runs(shown, evidence)
    if runs["done"] + runs["failed"] < runs["planned"]:
        return "the claim was refuted" if evidence.verdict == "refuted" else "the time was up"
    paid = evidence.provenance.get("pilot_runs") or 0
    fewer = asked is not None and shown.planned + int(paid) < asked
    return "as many runs as the time allowed" if fewer else "all runs done"


def _compared(stored: float, recomputed: float | None, equal: bool, **_: str) -> str:
    if recomputed is None:
        return f"stored {stored:.9g}, a statement with nothing to recompute it from"
    return f"stored {stored:.9g}, recomputed {recomputed:.9g}, {'equal' if equal else 'DIFFERENT'}"


def _finite(row: Json) -> dict[str, float | None]:
    return {key: finite(row[key]) for key in ("stored", "recomputed") if row[key] is not None}
