"""The verb pate: teachers, noisy votes and a student, described by a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..core.errors import NotFinished
from ..core.run_folder import run_folder
from ..core.shown import small
from ..study.run_file import RunFile, described_by
from .app import AGAIN, DESCRIBE, SEED, Result, note, verb
from .entry import resolve_callable
from .inputs import one_process, read_records, require
from .training import LEDGER, spender

if TYPE_CHECKING:
    from ..core import Bound, Evidence
    from ..pate import PATE
    from ..study.budget import Spender
    from ..study.pate_run import PateRun

STUDENT = "student.safetensors"


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
    require("torch", "torch")
    one_process()
    from ..study.pate_run import PateRun

    file = RunFile.read(run).with_described(described_by(describe or ()))
    payer = spender(file, ledger)
    how = file.one_of("model", ("kind", "make", "fit"))
    make = None if how == "kind" else resolve_callable(file.need("model", how))
    seed = file.get("output").get("seed") if seed is None else seed
    made = PateRun.of(file, read_records(file), make, ledger=payer, random_state=seed)
    folder = out or file.get("output").get("folder", "tacit-pate")
    with run_folder(folder, "pate", again=again) as held:
        note(f"{made.estimator.teachers} teachers on {int(made.inside.sum())} private records")
        done = made.fit()
        accuracy = made.student_accuracy()
        found = _evidence(done, file, payer, accuracy)
        released = _released(done, file)
        found.save(held.results / "evidence.json")
        names = {"evidence": "evidence.json", "labels": "labels.npz", "model": _saved(done, made, held.results)}
        held.commit()
    written = {key: None if name is None else str(held.final / name) for key, name in names.items()}
    return _told(done, made, written, accuracy, released, payer)


def _evidence(done: PATE, file: RunFile, payer: Spender | None, accuracy: float | None) -> Evidence:
    utility = {} if accuracy is None else {"test accuracy": accuracy}
    found = done.evidence(utility=utility).with_(subject=file.name, described=file.described)
    return found if payer is None else payer.told(found)


def _released(done: PATE, file: RunFile) -> Bound | None:
    """The data-dependent epsilon, where [pate] release_epsilon pays for its release."""
    table = file.get("pate")
    if "release_epsilon" not in table:
        return None
    return done.release_bound(epsilon=table["release_epsilon"], propose=table.get("propose"))


def _saved(done: PATE, made: PateRun, folder: Path) -> str | None:
    """The released labels, and the student's weights where it is a network."""
    np.savez_compressed(folder / "labels.npz", record=made.asked, label=done.labels_, asked=np.sort(done.queries_))
    from ..pate.student import NetworkShares

    if not isinstance(done._student, NetworkShares):
        return None
    require("safetensors", "torch")
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: value.contiguous().cpu().clone() for name, value in done._student.model.state_dict().items()}
    try:
        save_file(tensors, folder / STUDENT)
    except (SafetensorError, OSError):
        raise NotFinished(f"{STUDENT} cannot be written.", fix="Make room on the disk.") from None
    return STUDENT


def _told(
    done: PATE,
    made: PateRun,
    written: dict[str, str | None],
    accuracy: float | None,
    released: Bound | None,
    payer: Spender | None,
) -> Result:
    bound, design = done.bound_, done.design_
    data: dict[str, Any] = {
        **written,
        "queries": design.queries,
        "answered": done.answered_,
        "answers": design.answers,
        "bound": bound.to_json(),
        "released_bound": None if released is None else released.to_json(),
        "teacher_accuracy": made.teacher_accuracy(),
        "student_accuracy": accuracy,
        "receipt": None if payer is None else payer.to_json(),
    }
    rows = [
        ("epsilon", f"{bound.epsilon:.6g} at delta {small(bound.delta)}, one {bound.unit}"),
        ("answered", f"{done.answered_} of {design.queries} queries, at most {design.answers}"),
        ("teachers", f"{data['teacher_accuracy']:.2%} right on average (for you alone: no noise covers this)"),
        ("student", "no public record was left to test it" if accuracy is None else f"{accuracy:.2%} right"),
        *(() if released is None else (("released", f"{released.epsilon:.6g}: the data-dependent bound, with noise"),)),
        *((name, path) for name, path in written.items() if path is not None),
    ]
    return Result(data, rows, [f"Assumes that {text}." for text in bound.assumptions])
