"""The verb train: a private run described by a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..core.errors import BadInput, MissingExtra, NotFinished
from ..core.evidence import Evidence
from ..core.files import Lasting
from ..core.manifest import WEIGHTS, WEIGHTS_FIELD, sha256
from ..core.run_folder import RunFolder, run_folder
from ..data import Records
from ..study.run_file import RunFile
from .app import AGAIN, Result, note, terminal, verb
from .entry import resolve_callable
from .inputs import one_process, read_records, require, seeded

OWN_SIZE = "the number of records: the plan gave no public_size, so that of the data was used"
OWN_WORDS = "the words of {}: they were read off the data; [data] categories would make them public"
READABLE = "whether the data could be read, with labels the model has outputs for: told to the operator, of every value"
RECORDS_PER_USER = 8


@verb("train")
def train(
    run: Annotated[str, typer.Argument(metavar="run.toml", help="Data, model and plan.")],
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where model and evidence go.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of DIR that did not end.")] = False,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    seed: Annotated[int | None, typer.Option(help="For a repeatable experiment.")] = None,
) -> Result:
    """Train a model with differential privacy and write its weights, its evidence and a plot for the operator."""
    file = RunFile.read(run)
    require("torch", "torch")
    require("safetensors", "torch")
    one_process()
    from ..audits import stated
    from ..study.training import planned, trained
    from ..train import Progress
    from ..train.validation import accuracy

    make = resolve_callable(file.need("model", "make"))
    records = read_records(file)
    inside = _training_rows(records)
    table = file.get("plan")
    users = None if records.unit is None else records.unit[inside]
    plan, delta = planned(table, int(inside.sum()) if users is None else len(np.unique(users)))
    more: dict[str, Any] = {}
    if users is not None:
        plan = replace(plan, unit="user")
        more = {"users": users, "records_per_user": table.get("records_per_user", RECORDS_PER_USER)}
    elif "records_per_user" in table:
        raise BadInput("records_per_user goes with `unit` in [data]: whose record each one is.")
    seed = file.get("output").get("seed") if seed is None else seed
    wanted = out or file.get("output").get("folder", "tacit-train")
    with run_folder(wanted, state="checkpoint.secret", resume=resume, again=again) as held:
        bound = plan.bound(delta)
        note(f"{plan.steps} steps, noise multiplier {plan.noise_multiplier:.4g}: epsilon {bound.epsilon:.4g}")
        data = (records.x[inside], records.y[inside])
        more |= {"checkpoint": Lasting(held.work / "checkpoint.secret"), "delta": delta}
        more["progress"] = Progress(delta, terminal())
        done = trained(make, data, plan, file.get("train"), seeded(seed), **more)
        judged = ~inside if records.canaries is None else ~inside & ~records.canaries  # they are made to be misjudged
        held_out = (records.x[judged], records.y[judged])
        rates: dict[str, Any] = {"train": accuracy(done.model, data)}
        rates["validation"] = accuracy(done.model, held_out) if len(held_out[0]) else None
        evidence = done.evidence.with_(
            subject=file.path.stem,
            claim=stated(plan, delta=delta),
            utility={} if rates["validation"] is None else {"test accuracy": rates["validation"]},
            not_covered=(*done.evidence.not_covered, *_own(records, table)),
        )
        written = _write(held, done, evidence, plan, delta)
        held.commit("train")
    return _told(held.final, written, plan, bound, rates)


def _write(held: RunFolder, done: Any, evidence: Evidence, plan: Any, delta: float) -> dict[str, Path | None]:
    """Weights, evidence that names them by their hash, and a plot: their names once they are in place."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    weights, told = held.results / WEIGHTS, held.results / "evidence.json"
    # tied parameters are written once for each of their names
    tensors = {name: tensor.contiguous().clone() for name, tensor in done.model.state_dict().items()}
    try:
        save_file(tensors, weights)
    except (SafetensorError, OSError):
        raise NotFinished(f"{WEIGHTS} cannot be written.", fix="Make room on the disk, then use --resume.") from None
    evidence.with_(provenance={**evidence.provenance, WEIGHTS_FIELD: sha256(weights)}).save(told)
    plot = _plot(done.history, plan, delta, held.results / "training.svg")
    files = {"model": weights, "evidence": told, "plot": plot}
    return {name: None if path is None else held.final / path.name for name, path in files.items()}


def _plot(history: Any, plan: Any, delta: float, path: Path) -> Path | None:
    """For the operator alone: losses have no noise. Nothing where pictures cannot be drawn."""
    from .curves import training

    try:
        training(history, plan, delta, path)
    except MissingExtra as error:
        note(f"No plot was drawn. {error}")
        return None
    return path


def _training_rows(records: Records) -> Any:
    """The members, or all but every tenth record; all records of every tenth user where there are users."""
    if records.members is not None:
        if not records.members.any():
            raise BadInput("`members` names no record to train on.")
        return records.members
    number = np.arange(len(records.x)) if records.unit is None else np.unique(records.unit, return_inverse=True)[1]
    return number % 10 != 0


def _own(records: Records, plan: dict[str, Any]) -> tuple[str, ...]:
    """What was taken from the data itself before training, which the proof does not cover."""
    size = () if "public_size" in plan else (OWN_SIZE,)
    words = (OWN_WORDS.format(", ".join(records.derived)),) if records.derived else ()
    return (*size, *words, READABLE)


def _told(folder: Path, written: dict[str, Path | None], plan: Any, bound: Any, rates: dict[str, Any]) -> Result:
    from ..loss import privacy_loss

    held = rates["validation"]
    interval = privacy_loss(plan.event, plan.adjacency).epsilon(bound.delta)
    data = {
        "out": str(folder),
        **{name: None if path is None else str(path) for name, path in written.items()},
        "steps": plan.steps,
        "epsilon": interval.to_json(),
        "delta": bound.delta,
        "assumptions": list(bound.assumptions),
        "accuracy": rates,
    }
    rows = [
        ("epsilon", f"{interval.upper:.6g} at delta {bound.delta:g}"),
        ("accuracy", "no record was held out" if held is None else f"{held:.2%} on held-out records"),
        *((name, str(path)) for name, path in written.items() if path is not None),
    ]
    return Result(data, rows, [f"Assumes that {text}." for text in bound.assumptions])
