"""The verb pate: teachers, noisy votes and a student, described by a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from ..core import BadInput
from ..core.files import unwritten
from ..core.json_text import Json
from ..core.manifest import WEIGHTS, WEIGHTS_FIELD, sha256
from ..core.run_folder import run_folder
from ..core.shown import small
from ..study.audit_section import FIT, AuditSection
from ..study.run_file import RunFile, described_by
from .app import AGAIN, DESCRIBE, SEED, Result, assumed, note, verb
from .entry import resolve_callable
from .inputs import asking, one_process, read_records, require, seeded
from .training import LEDGER, OWN_FACTS, OWN_WORDS, READABLE, spender

if TYPE_CHECKING:
    from ..core import Bound, Evidence
    from ..pate import PATE
    from ..study.budget import Spender
    from ..study.pate_run import PateRun

LABELS = "labels.npz"
OWN_PUBLIC = (
    "the records that no teacher learnt from, about one in ten: they were asked about or tested the student, so they "
    "count as public"
)
OWN_SIZE = "the number of private records: that of the data is taken as public"


@verb("pate")
def pate(
    run: Annotated[str, typer.Argument(metavar="run.toml", help="Data, teacher, [plan] delta and [pate].")],
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where labels, student and evidence go; tacit-pate if absent.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    ledger: Annotated[str | None, typer.Option(metavar="URL", help=LEDGER)] = None,
    describe: Annotated[list[str] | None, typer.Option(metavar="KEY=TEXT", help=DESCRIBE)] = None,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """Train teachers on disjoint shards, answer public queries by noisy votes, and teach a student."""
    file = RunFile.read(run).with_described(described_by(describe or ()))
    AuditSection.of(file.get("audit"), FIT)  # for `bracket` later: a mistake is better told before the run
    payer = spender(file, ledger)
    seed = file.get("output").get("seed") if seed is None else seed
    made = described_run(file, ledger=payer, random_state=seeded(seed))
    if asked := _release(file):
        made.estimator.check_release(len(made.asked), **asked)
    folder = out or file.get("output").get("folder", "tacit-pate")
    with run_folder(folder, "pate", again=again) as held:
        note(f"{made.estimator.teachers} teachers on {int(made.inside.sum())} private records")
        if made.records.members is None:
            note("No `members` in [data]: the other records, about one in ten, are taken as public inputs.")
        done = made.fit()
        released, accuracy = _released(done, file), made.student_accuracy()
        names = {"evidence": "evidence.json", "labels": LABELS, "model": _saved(done, made, file, held.results)}
        found = _evidence(done, made, file, payer, accuracy)
        _kept(done, made, file, found, held.results)
        held.commit()
    written = {key: None if name is None else str(held.final / name) for key, name in names.items()}
    return _told(done, made, file, written, accuracy, released, payer)


def described_run(file: RunFile, folder: Path | None = None, **more: object) -> PateRun:
    """The PATE run that a run file describes, with its data; with `folder`, the run whose results lie there."""
    require("torch", "torch")
    one_process()
    from ..study.pate_run import PateRun
    from ..study.training_files import trained_on

    how = file.one_of("model", ("kind", "make", "fit"))
    make = None if how == "kind" else resolve_callable(file.need("model", how))
    records = read_records(file)
    return PateRun.of(file, records, make, None if folder is None else trained_on(folder, records), **more)


def _evidence(done: PATE, made: PateRun, file: RunFile, payer: Spender | None, accuracy: float | None) -> Evidence:
    from ..data.frames import named
    from ..study.released import ACCURACY, BASELINE

    rates = {} if accuracy is None else {ACCURACY: accuracy, BASELINE: made.baseline()}
    found = done.evidence(utility={key: rate for key, rate in rates.items() if rate is not None})
    text = OWN_WORDS if made.records.schema is None else OWN_FACTS
    words = (text.format(named(made.records.derived)),) if made.records.derived else ()
    public = () if made.records.members is not None else (OWN_PUBLIC,)
    told = file.described
    found = found.with_(
        subject=file.name,
        described=told,
        not_covered=(*found.not_covered, OWN_SIZE, *public, *words, READABLE),
        threat={**found.threat, **{key: told[key] for key in ("tuning", "access", "earlier releases") if key in told}},
    )
    return found if payer is None else payer.told(found)


def _kept(done: PATE, made: PateRun, file: RunFile, found: Evidence, folder: Path) -> None:
    """Write evidence that names weights and data by their hashes, and what `bracket` needs to find the run again."""
    from ..pate.student import NetworkShares
    from ..study.sealing import KEY_FILE, sealed
    from ..study.training_files import keep
    from ..train.loop import FINGERPRINT, fingerprint

    if isinstance(done._student, NetworkShares):
        marks = {WEIGHTS_FIELD: sha256(folder / WEIGHTS), FINGERPRINT: fingerprint(done._student.model)}
        found = found.with_(provenance={**found.provenance, **marks})
    keep(made, file, folder)
    sealed(found, made.records.x, made.records.y, folder / KEY_FILE).save(folder / "evidence.json")


def _released(done: PATE, file: RunFile) -> Bound | None:
    """The data-dependent epsilon, where [pate] release_epsilon pays for its release."""
    asked = _release(file)
    return done.release_bound(**asked) if asked else None


def _release(file: RunFile) -> Json:
    """The arguments of that release; none where [pate] asks for none."""
    table = file.get("pate")
    if "release_epsilon" in table:
        return {"epsilon": table["release_epsilon"], "propose": table.get("propose")}
    if "propose" in table:
        raise BadInput("`propose` in [pate] needs `release_epsilon`: what the release may cost.")
    return {}


def _saved(done: PATE, made: PateRun, file: RunFile, folder: Path) -> str | None:
    """The released labels, and the student's weights where it is a network."""
    path = folder / LABELS
    with unwritten(path):
        np.savez_compressed(path, record=made.asked, label=done.labels_, asked=np.sort(done.queries_))
    from ..pate.student import NetworkShares

    if not isinstance(done._student, NetworkShares):
        return None
    from ..train.weights import write_weights

    write_weights(done._student.model, folder / WEIGHTS, made.form(file))
    return WEIGHTS


def _told(
    done: PATE,
    made: PateRun,
    file: RunFile,
    written: dict[str, str | None],
    accuracy: float | None,
    released: Bound | None,
    payer: Spender | None,
) -> Result:
    from ..pate.student import Constant, NotTaught

    bound, design, baseline = done.bound_, done.design_, made.baseline()
    data: Json = {
        **written,
        "queries": design.queries,
        "answered": done.answered_,
        "answers": design.answers,
        "bound": bound.to_json(),
        "released_bound": None if released is None else released.to_json(),
        "teacher_accuracy": made.teacher_accuracy(),
        "student_accuracy": accuracy,
        "baseline": baseline,
        "receipt": None if payer is None else payer.to_json(),
    }
    rows = [
        ("epsilon", f"{bound.shown(6)} at delta {small(bound.delta)}, one {bound.unit}"),
        ("answered", f"{done.answered_} of {design.queries} queries; the claim pays for {design.answers} answers"),
        ("teachers", f"{data['teacher_accuracy']:.2%} right on average (for you alone: no noise covers this)"),
        ("student", _student(accuracy, baseline)),
        *(() if released is None else (("released", f"{released.shown(6)}: the data-dependent bound, with noise"),)),
        *((name, path) for name, path in written.items() if path is not None),
    ]
    lines = assumed(dict.fromkeys((*bound.assumptions, *(() if released is None else released.assumptions))))
    if done.advice_ is not None:
        lines.append(done.advice_)
    if isinstance(done._student, NotTaught):
        lines.append(f"{done._student.told} No model is written.")
    if isinstance(done._student, Constant):
        lines.append("No two answers differ, so the student says the same of everybody, and no model is written.")
    if written["model"] is not None:
        folder = shlex.quote(str(Path(written["model"]).parent))
        lines.append(f"Next: tacit bracket {folder} attacks this student, audits its run, and writes a page.")
        lines.append(asking(str(Path(written["model"]).parent), made.form(file).kind, file))
    return Result(data, rows, lines)


def _student(accuracy: float | None, baseline: float | None) -> str:
    """How often the student is right, beside whoever answers with the most frequent class for everybody."""
    if accuracy is None or baseline is None:
        return "was not tested"
    if accuracy <= baseline:
        note("The student is no better than answering with the most frequent class for everybody.")
    return f"{accuracy:.2%} right; the most frequent class has {baseline:.2%}"
