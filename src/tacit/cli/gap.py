"""The verb gap: leakage against the generalisation gap, as rows and one picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.errors import BadInput
from ..core.json_text import Json
from ..core.run_folder import run_folder
from ..core.shown import aligned
from ..study.run_file import RunFile
from .app import AGAIN, Result, note, verb
from .entry import Guarded
from .inputs import read_records, require, seeded

if TYPE_CHECKING:
    from ..study.gap import Setting

FEWEST = 64
"""Records below which a quarter of half of them could not be attacked."""


@verb("gap")
def gap(
    source: Annotated[str, typer.Argument(metavar="run.toml", help="The data, and perhaps [model] fit.")],
    references: Annotated[int, typer.Option(help="Reference models of every setting.")] = 4,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where gap.svg and gap.json go.")] = None,
    again: Annotated[bool, typer.Option("--again", help=AGAIN)] = False,
    seed: Annotated[int | None, typer.Option(help="For a repeatable experiment.")] = None,
) -> Result:
    """Train on half of the data at several settings, and attack each: does leakage follow the generalisation gap?

    Without [model] fit the settings are networks of several sizes, epochs and weight decays, and several training-set
    sizes; a fit(x, y, rng) is trained on several training-set sizes.
    """
    from ..core.files import written
    from ..study.gap import picture
    from ..study.gap_settings import agreement, sweep

    file = RunFile.read(source)
    records, given = read_records(file), file.get("model").get("fit")
    if len(records.y) < FEWEST:
        raise BadInput(f"{file.path.name}: the gap needs at least {FEWEST} records.")
    if given is None:
        require("torch", "torch")
    seed = file.get("output").get("seed") if seed is None else seed
    with run_folder(out or "tacit-gap", "gap", again=again) as held:
        fit = None if given is None else Guarded(given)
        output = file.get("attack").get("output", "auto")
        rows = sweep(fit, records.x, records.y, references=references, rng=seeded(seed), output=output, note=note)
        data: Json = {"settings": [_row(row) for row in rows], "rank_correlation": agreement(rows)}
        picture(rows, held.results / "gap.svg")
        written(held.results / "gap.json", json.dumps(data, indent=1, allow_nan=False) + "\n")
        held.commit()
    path = str(held.final / "gap.svg")
    return Result(
        {**data, "picture": path}, [("picture", path)], [_sentence(rows, data["rank_correlation"])], table=_table(rows)
    )


def _row(row: Setting) -> Json:
    return {
        "name": row.name,
        "members": row.members,
        "train_accuracy": row.train_accuracy,
        "test_accuracy": row.test_accuracy,
        "gap": row.gap,
        "auc": row.area.to_json(),
        "tpr_at_fpr": [{"fpr": 0.01, **row.rate.to_json()}],
    }


def _table(rows: list[Setting]) -> list[str]:
    """A line for every setting: accuracies, their gap, and the area under the strongest attack's curve."""
    cells = [
        (row.name, f"{row.train_accuracy:.1%}", f"{row.test_accuracy:.1%}", f"{row.gap:.1%}",
         f"{row.area.value:.3f} [{row.area.lower:.3f}, {row.area.upper:.3f}]")
        for row in rows
    ]  # fmt: skip
    return aligned(("setting", "train", "test", "gap", "AUC of the attack"), cells, right=(1, 2, 3))


def _sentence(rows: list[Setting], rank: float | None) -> str:
    least, most = (choose(rows, key=lambda row: row.gap) for choose in (min, max))
    said = (
        f"Over {len(rows)} settings the gap goes from {least.gap:.1%} ({least.name}) to {most.gap:.1%} ({most.name}), "
        f"and the area of the strongest attack from {least.area.value:.3f} to {most.area.value:.3f}"
    )
    return said + ("." if rank is None else f" there; the rank correlation of both over all settings is {rank:.2f}.")
