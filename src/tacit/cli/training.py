"""The verb train: a private run described by a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import MissingExtra, NotFinished
from ..core.evidence import Evidence
from ..core.files import Lasting
from ..core.json_text import Json
from ..core.manifest import WEIGHTS, WEIGHTS_FIELD
from ..core.run_folder import RunFolder, run_folder
from ..core.shown import at_most, remains, small
from ..data import Records
from ..study.audit_section import TRAINED, AuditSection
from ..study.run_file import RunFile, described_by
from .app import AGAIN, DESCRIBE, SEED, Result, assumed, note, resumable, terminal, verb
from .entry import resolve_callable
from .inputs import asking, one_process, read_records, require, seeded

if TYPE_CHECKING:
    from ..study.budget import Spender
    from ..study.run_training import RunTraining
    from ..train import Trained

LEDGER = "The ledger that is charged before the first step: a file, or postgresql://user@host/name."
OWN_SIZE = "the number of records: the plan gave no public_size, so that of the data was used"
OWN_WORDS = "the words of {}: they were read off the data; [data] categories would make them public"
OWN_FACTS = "kind, range or words of {}: they were read off the data; the schema marks them public = false"
HELD_OUT = "the accuracy on held-out records, who are people of the same data: it has no noise"
READABLE = (
    "messages to whoever runs the training, which say whether the data could be read and whether every label is one of "
    "the model's classes"
)


@verb("train")
def train(
    run: Annotated[str, typer.Argument(metavar="run.toml", help="Data, model and plan: what tacit init writes.")],
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where model and evidence go; tacit-train if absent.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of DIR that did not end.")] = False,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    ledger: Annotated[str | None, typer.Option(metavar="URL", help=LEDGER)] = None,
    describe: Annotated[list[str] | None, typer.Option(metavar="KEY=TEXT", help=DESCRIBE)] = None,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """Train a model with differential privacy and write its weights, its evidence and a plot for the operator."""
    file = RunFile.read(run).with_described(described_by(describe or ()))
    AuditSection.of(file.get("audit"), TRAINED)  # for `bracket` later: a mistake is better told before the training
    payer = spender(file, ledger)
    training = described(file)
    wanted = out or file.get("output").get("folder", "tacit-train")
    seed = file.get("output").get("seed") if seed is None else seed
    # all other settings are among those that the checkpoint itself compares
    settings = {"train.schedule": file.get("train").get("schedule", "constant"), "plan.delta": training.delta}
    settings |= {} if training.resumes_exactly else file.settings("plan")
    with run_folder(wanted, "train", state="checkpoint.secret", settings=settings, resume=resume, again=again) as held:
        done = trained(training, held, held.state, seed, payer)
        saved(training, done, evidence_of(training, done, file, payer), file, held.results)
        plot = _plot(done.history, training.plan, training.delta, held.results / "training.svg")
        held.commit()
    names = {"model": WEIGHTS, "evidence": "evidence.json", "plot": None if plot is None else plot.name}
    written = {key: None if name is None else held.final / name for key, name in names.items()}
    return _told(held.final, file, written, training, accuracies(training, done.model), payer)


def described(file: RunFile, folder: Path | None = None) -> RunTraining:
    """The training that a run file describes, with its data; with `folder`, the training whose results lie there."""
    require("torch", "torch")
    require("safetensors", "torch")
    one_process()
    from ..study.run_training import RunTraining
    from ..study.training_files import trained_on

    how = file.one_of("model", ("kind", "make"))
    make = resolve_callable(file.need("model", how)) if how == "make" else None
    records = read_records(file)
    return RunTraining.of(file, records, make, None if folder is None else trained_on(folder, records))


def spender(file: RunFile, url: str | None) -> Spender | None:
    """Who pays for the run: the ledger of the option, or of [ledger]."""
    if url is None and "ledger" not in file.sections:
        return None
    require("sqlalchemy", "ledger")
    from ..study.budget import Spender

    return Spender.of(file, url)


def trained(
    training: RunTraining, held: RunFolder, checkpoint: Path | None, seed: int | None, payer: Spender | None = None
) -> Trained:
    """Run it; what is needed to resume it is kept in `checkpoint`, beside the folder."""
    from ..train import Progress

    plan = training.plan
    bound = plan.bound(training.delta)
    note(f"{plan.summary}: epsilon {bound.shown(4)}")
    more: dict[str, Any] = {} if checkpoint is None else {"checkpoint": Lasting(checkpoint)}
    if payer is None:
        whole = f"epsilon {bound.shown(4)} at delta {small(training.delta)}"
        note(f"No ledger is charged. With --ledger, this run is charged before its first step: {whole}.")
    else:
        more["ledger"] = payer
    with resumable(held.state, held.final):
        return training.train(seeded(seed), progress=Progress(training.delta, terminal()), **more)


def accuracies(training: RunTraining, model: Any) -> dict[str, float | None]:
    """Accuracy on the training records and on the held-out ones, and the share of the latter's most frequent class."""
    from ..study.run_training import baseline
    from ..train.validation import accuracy

    held = training.held_out
    x, y = training.records.x[held], training.records.y[held]
    return {
        "train": accuracy(model, training.data),
        "validation": accuracy(model, (x, y)) if len(y) else None,
        "baseline": baseline(y) if len(y) else None,
    }


def evidence_of(training: RunTraining, done: Trained, file: RunFile, payer: Spender | None = None) -> Evidence:
    """What the training proves, what it does not cover, and what its owner says of it."""
    from ..study.released import ACCURACY, BASELINE

    rates = accuracies(training, done.model)
    found = {ACCURACY: rates["validation"], BASELINE: rates["baseline"]}
    told = file.described
    threat = {key: value for key, value in done.evidence.threat.items() if key != "tuning"}
    made = done.evidence.with_(
        subject=file.name,
        claim=training.claim,
        utility={key: value for key, value in found.items() if value is not None},
        not_covered=(*done.evidence.not_covered, *_own(training.records, file.get("plan")), *_scored(rates)),
        threat={**threat, **{key: told[key] for key in ("tuning", "access", "earlier releases") if key in told}},
        described=told,
    )
    return made if payer is None else payer.told(made)


def saved(training: RunTraining, done: Trained, evidence: Evidence, file: RunFile, folder: Path) -> Evidence:
    """Write weights, which records were used, and the run file, so that `bracket` finds the model; and evidence that
    names weights and data by their hashes."""
    from ..study.sealing import KEY_FILE, sealed
    from ..study.training_files import keep
    from ..train.weights import write_weights

    marked = write_weights(done.model, folder / WEIGHTS, training.form(file))
    keep(training, file, folder)
    evidence = evidence.with_(provenance={**evidence.provenance, WEIGHTS_FIELD: marked})
    evidence = sealed(evidence, training.records.x, training.records.y, folder / KEY_FILE)
    evidence.save(folder / "evidence.json")
    return evidence


def _plot(history: Any, plan: Any, delta: float, path: Path) -> Path | None:
    """For the operator alone: losses have no noise. Nothing where there are no steps, or pictures cannot be drawn."""
    from .curves import training

    if not history:
        return None

    try:
        training(history, plan, delta, path)
    except (MissingExtra, NotFinished) as error:
        note(f"No plot was drawn. {error}")
        return None
    return path


def _scored(rates: dict[str, float | None]) -> tuple[str, ...]:
    """The note that held-out accuracy was computed without noise, where there is one."""
    return () if rates["validation"] is None else (HELD_OUT,)


def _own(records: Records, plan: dict[str, object]) -> tuple[str, ...]:
    """What was taken from the data itself before training, which the proof does not cover."""
    from ..data.frames import named

    size = () if "public_size" in plan else (OWN_SIZE,)
    text = OWN_WORDS if records.schema is None else OWN_FACTS
    words = (text.format(named(records.derived)),) if records.derived else ()
    return (*size, *words, READABLE)


def _told(
    folder: Path, file: RunFile, written: Json, training: RunTraining, rates: Json, payer: Spender | None
) -> Result:
    from ..loss import privacy_loss

    held, plan = rates["validation"], training.plan
    interval, bound = privacy_loss(plan.event, plan.adjacency).epsilon(training.delta), plan.bound(training.delta)
    data = {
        "out": str(folder),
        **{name: None if path is None else str(path) for name, path in written.items()},
        "steps": plan.steps,
        "epsilon": interval.to_json(),
        "delta": training.delta,
        "accuracy": rates,
        "assumptions": list(bound.assumptions),
        "receipt": None if payer is None else payer.to_json(),
    }
    shown = "no record was held out"
    if held is not None:
        shown = f"{held:.2%} on held-out records; the most frequent class has {rates['baseline']:.2%}"
        if held <= rates["baseline"]:
            note("The model is no better than answering with the most frequent class for everybody.")
            note("docs/howto/accuracy.md says what helps, and from how many people on.")
    rows = [
        ("epsilon", f"{at_most(interval.upper, 6)} at delta {small(training.delta)}"),
        ("accuracy", shown),
        *(() if payer is None or payer.receipt is None else (("remaining", remains(payer.receipt.remaining, 6)),)),
        *((name, str(path)) for name, path in written.items() if path is not None),
    ]
    lines = assumed(bound.assumptions)
    return Result(
        data,
        rows,
        [
            *lines,
            f"Next: tacit bracket {shlex.quote(str(folder))} attacks and audits this model, and writes a page.",
            asking(str(folder), training.form(file).kind, file),
        ],
    )
