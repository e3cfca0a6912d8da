"""The verb attack, and what measurements look like in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..core.errors import BadInput
from ..core.evidence import BLIND_BASELINE, Evidence, Measurement
from ..core.files import Lasting
from ..core.interval import Estimate
from ..core.json_text import Json
from ..core.run_folder import run_folder
from ..core.shown import aligned, significant
from ..data import Records
from ..study.run_file import RunFile
from .app import AGAIN, NO_ANSWER, SEED, STATUS_OF_VERDICT, Result, assumed, note, resumable, verb
from .attack_data import Side, sides
from .entry import Guarded, resolve_model
from .inputs import PROGRESS, made, read_records, require, seeded, settings_of

if TYPE_CHECKING:
    from ..study.finished_parts import Finished


@verb("attack")
def attack(
    source: Annotated[str | None, typer.Argument(metavar="run.toml|scores.csv", help="What to attack.")] = None,
    model: Annotated[str | None, typer.Option(metavar="PKG:NAME", help="predict(x), or an estimator.")] = None,
    members: Annotated[str | None, typer.Option(metavar="FILE", help="Records the model was trained on.")] = None,
    nonmembers: Annotated[str | None, typer.Option(metavar="FILE", help="Records like them that it was not.")] = None,
    label: Annotated[str | None, typer.Option(help="Label column of a CSV.")] = None,
    references: Annotated[
        int | None, typer.Option(help="Reference models to train, where the model can be retrained; 16 if absent.")
    ] = None,
    attacks: Annotated[str | None, typer.Option(metavar="A,B", help="Which attacks; all that fit if absent.")] = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="What the model answers with: probabilities, logits, labels or values."),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where evidence.json and scores.csv go.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the attack that did not end in DIR.")] = False,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    seed: Annotated[int | None, typer.Option(help=SEED)] = None,
) -> Result:
    """Measure membership inference against a model, or read it off a file of scores."""
    from ..core.scores_file import write

    names = None if attacks is None else [name.strip() for name in attacks.split(",")]
    if (source is None) == (model is None):
        raise BadInput("Give a run.toml or a scores.csv, or --model with --members and --nonmembers.")
    if source is not None and (members, nonmembers, label) != (None, None, None):
        raise BadInput("--members, --nonmembers and --label go with --model.", fix="A run.toml says them in [data].")
    file = RunFile.read(source) if source is not None and source.endswith(".toml") else None
    out = out or (None if file is None else file.get("output").get("folder")) or "tacit-attack"
    settings = {} if file is None else settings_of(file, "model", "attack")
    settings |= {"--attacks": names, "--references": references, "--output": output}
    more: dict[str, Any] = {"settings": settings, "resume": resume, "again": again}
    state = None if file is None and model is None else PROGRESS
    with run_folder(out, "attack", state=state, **more) as held, resumable(held.state, held.final):
        parts = made(held.state)
        if file is not None:
            evidence = _attack_run(file, names, references, output, seed, parts)
        elif source is not None:
            if (names, references, output) != (None, None, None):
                raise BadInput(
                    "A file of scores has its attacks already: --attacks, --references and --output go with a model."
                )
            evidence = _attack_scores(source)
        else:
            if members is None or nonmembers is None:
                raise BadInput("--model needs --members and --nonmembers.")
            target, count = resolve_model(str(model)), 16 if references is None else references
            inside, outside = sides(target, members, nonmembers, label)
            finished = _noting(parts, inside, outside, seed)
            told = {"checkpoint": finished, "output": output}
            evidence = _attacked(target, inside, outside, names, count, finished.chance, **told)
        evidence.save(held.results / "evidence.json")
        write(evidence.scores, held.results / "scores.csv")
        held.commit()
    return _found(evidence, str(held.final / "evidence.json"), str(held.final / "scores.csv"))


def _noting(parts: Lasting | None, inside: Records | Side, outside: Records | Side, seed: int | None) -> Finished:
    """The store of finished parts of an attack on the given records; it shows progress as parts are added."""
    from ..study.finished_parts import Finished
    from ..study.records import features

    data = [part for side in (inside, outside) for part in (features(side.x), np.asarray(side.y))]
    finished = Finished.of(parts, {}, data, seeded(seed))
    finished.note = note
    return finished


def _attack_run(
    file: RunFile,
    names: list[str] | None,
    references: int | None,
    output: str | None,
    seed: int | None,
    parts: Lasting | None,
) -> Evidence:
    from ..study.finished_parts import Finished
    from ..study.risk import placed

    records, table = read_records(file), file.get("attack")
    if records.members is None:
        raise BadInput(f"{file.path.name} needs `members` in [data]: which records the model was trained on.")
    how = file.one_of("model", ("predict", "make", "fit"))
    if how != "make" and "file" in file.get("model"):
        raise BadInput("`file` in [model] holds the weights of what `make` returns.", fix=f"Leave it out beside {how}.")
    if "evidence" in file.get("model"):
        raise BadInput("`evidence` in [model] goes with bracket: an attack tests no claim.")
    found = resolve_model(file.need("model", how)) if how == "predict" else Guarded(file.need("model", how))
    inside = records.members
    if inside.all() or not inside.any():
        raise BadInput("An attack needs members and non-members: `members` must hold both 0 and 1.")
    pair = [Records(records.x[rows], records.y[rows]) for rows in (inside, ~inside)]
    seed = file.get("output").get("seed") if seed is None else seed
    fit, finished = None, Finished.of(parts, {}, (records.x, records.y, inside), seeded(seed))
    finished.note = note
    if how == "fit":
        note("training the target on the members")
        own = np.random.default_rng(seed) if seed is not None else finished.chance.generator()
        fit, found = found, found(pair[0].x, pair[0].y, own)
    elif how == "make":
        found = loaded(found, Path(str(file.need("model", "file"))))
    groups = None if records.groups is None else np.concatenate([records.groups[rows] for rows in (inside, ~inside)])
    more: dict[str, Any] = {"fit": fit, "fpr": table.get("fpr"), "groups": groups, "checkpoint": finished}
    more["output"] = table.get("output") if output is None else output
    count = table.get("references", 16) if references is None else references
    evidence = _attacked(found, pair[0], pair[1], names or table.get("attacks"), count, finished.chance, **more)
    rows = np.concatenate((np.flatnonzero(inside), np.flatnonzero(~inside)))
    return placed(evidence, records.places(rows))


def loaded(make: Any, path: Path) -> Any:
    """A torch model with its weights, from safetensors only."""
    require("safetensors", "torch")
    from ..train.weights import filled, read_weights

    if path.suffix != ".safetensors":
        raise BadInput("[model] file must be .safetensors.", fix="Pickles can run code; save with safetensors.")
    tensors, _ = read_weights(path)
    return filled(make(), path, tensors)


def _attacked(
    target: Any,
    inside: Records | Side,
    outside: Records | Side,
    names: Any,
    references: int,
    chance: Any,
    **more: Any,
) -> Evidence:
    from ..study import attack as measure

    return measure(
        target,
        (inside.x, inside.y),
        (outside.x, outside.y),
        attacks="auto" if names is None else names,
        references=references,
        rng=chance,
        **{key: value for key, value in more.items() if value is not None},
    )


def _attack_scores(path: str) -> Evidence:
    from ..study.membership import read_scores

    return read_scores(path)


def _found(evidence: Evidence, path: str, scores: str) -> Result:
    from ..core.sentence import strongest

    tried = evidence.attacks or evidence.measurements
    blind = next((item for item in evidence.measurements if item.attack == BLIND_BASELINE), None)
    best = strongest(evidence)
    data = {
        "attacks": [measured(item) for item in tried],
        "best": None if best is None else best[0].attack,
        "blind_baseline": None if blind is None else blind.auc.to_json(),
        "controls": [vars(control) for control in evidence.controls],
        "members": tried[0].members,
        "nonmembers": tried[0].nonmembers,
        "verdict": evidence.verdict.value,
        "not_covered": list(evidence.not_covered),
        "evidence": path,
        "scores": scores,
    }
    rows = [(f"control {item.name}", "passed" if item.passed else "FAILED") for item in evidence.controls]
    status = NO_ANSWER if evidence.verdict == "uninformative" else STATUS_OF_VERDICT[evidence.verdict.value]
    lines = [evidence.sentence, *assumed(() if evidence.upper is None else evidence.upper.assumptions)]
    lines += [f"Not covered: {text}." for text in evidence.not_covered]
    return Result(data, [*rows, ("evidence", path)], lines, status, _table(evidence.measurements))


def measured(item: Measurement) -> Json:
    rates = [{"fpr": fpr, **estimate.to_json()} for fpr, estimate in item.tpr_at_fpr]
    return {"name": item.attack, "auc": item.auc.to_json(), "tpr_at_fpr": rates}


def _table(items: Sequence[Measurement]) -> list[str]:
    """A line for every attack: its area and its rates, each with its interval; attacks may have other rates."""
    at = dict.fromkeys(fpr for item in items for fpr, _ in item.tpr_at_fpr)
    rows = []
    for item in items:
        found = dict(item.tpr_at_fpr)
        rates = (_rate(found[fpr]) if fpr in found else "-" for fpr in at)
        rows.append((item.attack, f"{item.auc.value:.3f}", *rates))
    return aligned(["attack", "AUC", *(f"TPR at {significant(100 * fpr)}% FPR" for fpr in at)], rows)


def _rate(found: Estimate) -> str:
    return found.note if found.value is None else f"{found.value:.2%} [{found.lower:.2%}, {found.upper:.2%}]"
