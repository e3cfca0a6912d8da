"""The verb bracket: epsilon held from both sides, of a training or of a model that is taken as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..core.errors import BadInput
from ..core.evidence import Evidence
from ..core.files import Lasting
from ..core.manifest import WEIGHTS, WEIGHTS_FIELD, sha256
from ..core.run_folder import RunFolder, run_folder
from ..data import Records
from ..study.audit_section import FIT, TAKEN, TRAINED, AuditSection
from ..study.finished_parts import Finished
from ..study.run_file import RunFile, described_by
from .app import AGAIN, DESCRIBE, SEED, Result, note, resumable, verb
from .attacking import loaded, measured
from .auditing import audited
from .entry import Guarded, resolve
from .inputs import PROGRESS, canary, made, read_records, seeded, settings_of
from .training import LEDGER, described, evidence_of, saved, spender, trained

if TYPE_CHECKING:
    from ..study.run_training import RunTraining

MODELS = ("kind", "make", "predict", "fit")


@verb("bracket")
def bracket(
    run: Annotated[
        str, typer.Argument(metavar="run.toml|DIR", help="Data, model and claim; or a folder of train or pate.")
    ],
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where page and evidence go; else tacit-bracket or DIR-bracket.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of DIR that did not end.")] = False,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    ledger: Annotated[str | None, typer.Option(metavar="URL", help=LEDGER)] = None,
    describe: Annotated[list[str] | None, typer.Option(metavar="KEY=TEXT", help=DESCRIBE)] = None,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """Attack, audit and account for one training: epsilon held from both sides, in one report."""
    from ..reports import report
    from ..reports.engine import engine
    from ..study.sealing import KEY_FILE, sealed
    from ..study.training_files import is_pate, kept

    engine()  # a page that cannot be drawn is better refused before the work
    there = Path(run) if Path(run).is_dir() else None
    file = RunFile.read(run) if there is None else kept(there)
    file = file.with_described(described_by(describe or ()))
    taught = there if there is not None and is_pate(there) else None
    how = _model(file) if there is None else TRAINED if taught is None else FIT
    game = AuditSection.of(file.get("audit"), how)
    seed = file.get("output").get("seed") if seed is None else seed
    usual = file.get("output").get("folder", "tacit-bracket") if there is None else f"{str(there).rstrip('/')}-bracket"
    more: dict[str, Any] = {
        "settings": settings_of(file, "model", "plan", "train", "attack", "audit", "pate"),
        "resume": resume,
        "again": again,
    }
    with run_folder(out or usual, "bracket", state=PROGRESS, **more) as held, resumable(held.state, held.final):
        parts = made(held.state)
        if ledger is not None and (there is not None or _model(file) != TRAINED):
            raise BadInput(
                "A ledger is charged for a training, and nothing is trained here.", fix="Leave --ledger out."
            )
        if taught is not None:
            evidence, records = _bracket_pate(file, game, taught, seed, held.state or held.work)
        elif there is not None or _model(file) == TRAINED:
            evidence, records = _bracket_trained(file, game, there, held, seed, ledger)
        else:
            records = read_records(file)
            if records.unit is not None:
                raise BadInput(
                    "`unit` in [data] goes with [model] kind or make: nobody else's training knows whose a record is.",
                )
            evidence = _how(file)(file, game, records, seeded(seed), parts)
        evidence = evidence.with_(described={**evidence.described, **file.described})
        evidence = sealed(evidence, records.x, records.y, held.results / KEY_FILE)
        evidence.save(held.results / "evidence.json")
        report(evidence, held.results / "report.html")
        held.commit()
    page = held.final / "report.html"
    result = audited(evidence, str(held.final / "evidence.json"))
    more = {
        "bounds": [bound.to_json() for bound in evidence.bounds],
        "measurements": [measured(item) for item in evidence.measurements],
        "report": str(page),
    }
    return Result({**result.data, **more}, [*result.rows, ("report", str(page))], result.lines, result.status)


def _model(file: RunFile) -> str:
    """Which kind of [model] this is: to be trained here, the user's own training function, or a finished model."""
    how = file.one_of("model", MODELS)
    if how == "fit":
        return FIT
    return TRAINED if how in ("kind", "make") and "file" not in file.get("model") else TAKEN


def _how(file: RunFile) -> Any:
    """A training to be run, or a model to be taken: one that answers, or one whose weights are in a file."""
    table = file.get("model")
    how = file.one_of("model", MODELS)
    if how in ("predict", "kind", "make"):
        return _bracket_taken
    if "file" in table:
        raise BadInput("`file` in [model] holds the weights of what `make` returns.", fix="Leave it out beside fit.")
    if "evidence" in table or "canaries" in file.get("data"):
        raise BadInput(
            "`evidence` in [model] and `canaries` in [data] go with a model that is taken as it is.",
            fix="Give [model] predict, or make with file.",
        )
    return _bracket_fit


def _bracket_taken(file: RunFile, game: AuditSection, records: Records, chance: Any, parts: Lasting | None) -> Evidence:
    """A model that is trained already: attacked with its members and others, audited by its canaries if it has some."""
    from ..study.bracketing import bracket as hold
    from ..study.risk import placed

    members = records.members
    if members is None:
        raise BadInput(f"{file.path.name} needs `members` in [data]: which records the model was trained on.")
    thrown = np.zeros(len(members), dtype=bool) if records.canaries is None else records.canaries
    sides = [np.flatnonzero(side & ~thrown) for side in (members, ~members)]
    rows, pool = np.concatenate(sides), np.flatnonzero(thrown)
    model, digest = _taken(file)
    evidence = hold(
        model,
        (records.x[sides[0]], records.y[sides[0]]),
        nonmembers=(records.x[sides[1]], records.y[sides[1]]),
        claim=_claim_of(file, int(members.sum())),
        canaries=(records.x[pool], records.y[pool], members[pool]) if pool.size else None,
        **_asked(file.get("attack")),
        confidence=game.confidence,
        groups=None if records.groups is None else records.groups[rows],
        rng=chance,
        checkpoint=parts,
    )
    return placed(evidence, records.places(rows)).with_(subject=file.name, provenance={**evidence.provenance, **digest})


def _asked(table: dict[str, Any]) -> dict[str, Any]:
    """What [attack] says of the attack on somebody's model: all attacks that fit are tried, at the usual rates."""
    if unused := [key for key in ("attacks", "fpr") if key in table]:
        note(f"{' and '.join(unused)} in [attack] go with `tacit attack`: bracket tries all attacks that fit.")
    return {"references": table.get("references", 16), "output": table.get("output", "auto")}


def _taken(file: RunFile) -> tuple[Any, dict[str, str]]:
    """Load the model that [model] names, and the SHA-256 of its weights file if it has one."""
    table = file.get("model")
    if "predict" in table:
        return resolve(str(table["predict"])), {}
    model = loaded(Guarded(str(table["make"])), Path(str(table["file"])))
    return model, {WEIGHTS_FIELD: sha256(Path(str(table["file"])))}


def _claim_of(file: RunFile, records: int) -> Any:
    """What is claimed of a model: its evidence, or [plan]."""
    evidence, table = file.get("model").get("evidence"), file.get("plan")
    if evidence is None:
        return _claimed(table, records)
    if table:
        raise BadInput("Both [model] evidence and [plan] claim something: one of them must go.")
    return Evidence.load(str(evidence))


def _bracket_fit(file: RunFile, game: AuditSection, records: Records, chance: Any, parts: Lasting | None) -> Evidence:
    """Somebody's fit(x, y, rng), run after run on halves of the members; [plan] holds the claim."""
    from ..study.bracketing import bracket as hold
    from ..study.risk import placed

    table = file.get("plan")
    pool = np.ones(len(records.x), dtype=bool) if records.members is None else records.members
    evidence = hold(
        Guarded(file.need("model", "fit")),
        (records.x[pool], records.y[pool]),
        claim=_claimed(table, int(pool.sum()) // 2),
        **_asked(file.get("attack")),
        runs=game.runs or 500,
        confidence=game.confidence,
        canary=canary(game.canary),
        seconds=game.seconds,
        isolation=game.isolation,
        groups=None if records.groups is None else records.groups[pool],
        rng=chance,
        checkpoint=parts,
    )
    return placed(evidence, records.places(np.flatnonzero(pool)))


def _claimed(table: dict[str, Any], records: int) -> Any:
    """What [plan] claims of somebody's fit: a plan where it says rate and steps, else a bare pair, else nothing."""
    from ..audits import stated
    from ..study.planning import planned

    if not table:
        return None
    if {"rate", "steps", "noise_multiplier"} & table.keys():
        plan, delta = planned(table, records)
        return stated(plan, delta=delta)
    if "epsilon" not in table:
        raise BadInput("[plan] needs epsilon, or rate, steps and noise_multiplier.")
    delta = table.get("delta", 1e-5)
    return stated((table["epsilon"], delta), delta=delta, adjacency=table.get("adjacency"))


def _bracket_trained(
    file: RunFile, game: AuditSection, there: Path | None, held: RunFolder, seed: int | None, ledger: str | None
) -> tuple[Evidence, Records]:
    """A torch model by a plan of ours: the one in the folder, or one that is trained now and kept beside the page."""
    from ..study.membership import listed
    from ..study.released import bracket_released
    from ..study.training import effort as efforts

    if "evidence" in file.get("model") or "canaries" in file.get("data"):
        raise BadInput(
            "`evidence` in [model] and `canaries` in [data] go with a model that is taken as it is.",
            fix="Give [model] predict, or make with file.",
        )
    if "output" in file.get("attack"):
        note("output in [attack] goes with somebody's model: a model that is trained here answers with logits.")
    attacks = file.get("attack").get("attacks", "auto")
    listed(attacks)
    training = described(file, there)
    effort = efforts(file.get("attack"), game, in_fleets=training.in_fleets, cost=training.cost, own=training.own_runs)
    if effort.start == "crafted" and training.code != "train.fit":
        raise BadInput("[audit] start goes with a descent: a minimiser has no start.", fix="Leave it out.")
    state = held.state or held.work
    records = training.records
    weights = {} if there is None else {"weights": sha256(there / WEIGHTS)}
    finished = Finished.of(Lasting(state / "parts"), weights, (records.x, records.y), seeded(seed))
    if there is None:
        payer = spender(file, ledger)
        done = trained(training, held, state / "training.secret", seed, payer)
        told = evidence_of(training, done, file, payer)
        model, evidence = done.model, saved(training, done, told, file, held.results)
    else:
        model, evidence = _kept_model(training, there)
    return bracket_released(training, model, evidence, effort, attacks, finished, note), training.records


def _bracket_pate(
    file: RunFile, game: AuditSection, folder: Path, seed: int | None, state: Path
) -> tuple[Evidence, Records]:
    """The student in a folder of `tacit pate`: it is attacked, and its run is repeated with and without a canary."""
    from ..study.membership import listed
    from ..study.pate_bracket import bracket_student
    from .pate import described_run

    attacks = file.get("attack")
    listed(attacks.get("attacks", "auto"))
    made = described_run(file, folder)
    records = made.records
    evidence = _kept_evidence(folder, records)
    student = loaded(made.student_module, folder / WEIGHTS)
    weights = {"weights": sha256(folder / WEIGHTS)}
    finished = Finished.of(Lasting(state / "parts"), weights, (records.x, records.y), seeded(seed))
    return bracket_student(made, student, evidence, game, attacks, finished, note), records


def _kept_evidence(folder: Path, records: Records) -> Evidence:
    """The evidence of an earlier run, if the data are still those it is about."""
    from ..study.sealing import KEY_FILE, same_data

    evidence = Evidence.load(folder / "evidence.json")
    if not same_data(evidence, records.x, records.y, folder / KEY_FILE):
        raise BadInput(
            "The data have changed since the training: the records are not those the model was trained on.",
            fix="Train again, or bring back the data and the schema of the training.",
        )
    return evidence


def _kept_model(training: RunTraining, folder: Path) -> tuple[Any, Evidence]:
    """The model of an earlier training and its evidence, if the data and the weights are still those it is about."""
    from ..study.taken_model import about

    evidence = _kept_evidence(folder, training.records)
    model = loaded(training.make, folder / WEIGHTS)
    if about(evidence, model) is False:
        raise BadInput("model.safetensors does not hold the model that evidence.json is about.", fix="Train it again.")
    return model, evidence
