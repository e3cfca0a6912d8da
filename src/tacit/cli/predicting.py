"""The verb predict: what a privately trained model predicts for new records."""

from __future__ import annotations

import csv
import functools
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..audits.foreign import Border
from ..core.errors import BadInput, TacitError
from ..core.files import shown, written
from ..core.manifest import WEIGHTS
from ..data.files import columns_of
from ..data.inference import misfit
from ..data.npz_file import read_npz
from .app import Result, note, verb
from .entry import Guarded
from .inputs import check_out, require

if TYPE_CHECKING:
    from ..train import Trained

ANSWER = "prediction"
BLOCK = 2**13
"""Records that are asked about at once."""
SHOWN = 20
"""Classes whose answers are counted on a terminal."""


@verb("predict")
def predict(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="A folder that tacit train, tacit pate or Trained.save wrote.")
    ],
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="New records, CSV or Parquet, with or without the label; or an .npz.")
    ],
    out: Annotated[str, typer.Option(metavar="FILE", help="Where the answers go, a CSV file.")] = "predictions.csv",
    keep: Annotated[
        str | None, typer.Option(metavar="COL,..", help="Columns of TABLE to write beside each answer, such as an id.")
    ] = None,
    shares: Annotated[bool, typer.Option("--shares", help="Also write the probability of every class.")] = False,
    make: Annotated[
        str | None,
        typer.Option(metavar="PKG:NAME", help="The function that makes a model of your own."),
    ] = None,
) -> Result:
    """Predict for new records with a trained model: one row per record, in the order of TABLE."""
    require("torch", "torch")
    require("safetensors", "torch")
    source, target = Path(table), Path(out)
    check_out(target, source, (".csv",))
    trained = _trained(Path(folder), make)
    kept = [] if keep is None else keep.split(",")
    beside, x = _records(source, trained, kept)
    places, chances = _asked(trained, x, shares=shares)
    classes = list(map(str, range(chances.shape[1]))) if trained.schema is None else trained.schema.classes
    told = np.asarray(classes, dtype=object)[places]
    columns = [*kept, ANSWER, *(f"share of {name}" for name in classes if shares)]
    if len(set(columns)) < len(columns):
        raise BadInput("Two columns of the answer would have one name.", fix="Leave one of them out of --keep.")
    written(target, _text(columns, [*beside, told, *(chances.T if shares else ())]))
    counts = dict(zip(classes, np.bincount(places, minlength=len(classes)).tolist(), strict=True))
    most = sorted(counts, key=counts.__getitem__, reverse=True)[:SHOWN]
    rows = [("answers", str(target)), ("records", f"{len(told):,}")]
    rows += [(f"  {name}", f"{count:,}") for name, count in counts.items() if name in most]
    more = [f"and {len(counts) - SHOWN:,} other classes, none of them more often"] if len(counts) > SHOWN else []
    return Result({"out": str(target), "records": len(told), "counts": counts}, rows, more)


def _asked(trained: Trained, x: Any, *, shares: bool) -> tuple[Any, Any]:
    """The place of every record's class, and the probabilities; without `shares`, those of the last records alone."""
    places: list[Any] = []
    kept: list[Any] = []
    for start in range(0, len(x), BLOCK):
        found = _answers(trained, x[start : start + BLOCK])
        places.append(found.argmax(axis=1))
        kept = [*(kept if shares else ()), found]
    return np.concatenate(places), np.concatenate(kept)


def _answers(trained: Trained, x: Any) -> Any:
    found: Any = None
    told: TacitError | None = None
    with Border() as border:
        try:
            found = trained.predict_proba(x)
        except TacitError as error:
            told = error
    if told is not None:
        raise told
    if border.problem:
        raise BadInput(
            f"The model {border.problem}{border.place}.", fix="Are these records like those of its training?"
        )
    return found


def _trained(folder: Path, make: str | None) -> Trained:
    """The model of the folder: built by its name, or by its owner's function."""
    from ..study.run_training import takes_two
    from ..train import Trained
    from ..train.saved import check_folder
    from ..train.weights import read_weights

    check_folder(folder)
    _, form = read_weights(folder / WEIGHTS)
    if form is not None and form.build() is not None:
        if make is not None:
            raise BadInput(f"{shown(folder / WEIGHTS)} says itself how the model is built.", fix="Leave --make out.")
        return Trained.load(folder)
    if make is None:  # never the one that a run file in DIR names: whoever sends a folder would choose what runs here
        raise BadInput(
            f"{shown(folder / WEIGHTS)} holds the weights of a model of your own.",
            fix="Name the function that makes it, as [model] make does in the run file: --make PKG:NAME.",
        )
    own: Any = Guarded(make)
    if form is not None and takes_two(own):
        own = functools.partial(own, form.features, form.classes)
    return Trained.load(folder, own)


def _records(source: Path, trained: Trained, keep: list[str]) -> tuple[list[Any], Any]:
    """The texts of the columns that are kept, and the records."""
    if source.suffix == ".npz":
        if keep:
            raise BadInput("--keep names columns of a table, and an .npz file has none.", fix="Leave it out.")
        if trained.schema is not None:
            raise BadInput("The model was trained on a table.", fix="Give a CSV or Parquet file with its columns.")
        return [], _numbers(source)
    from ..train.tables import features

    if trained.schema is None:
        raise BadInput(
            "The model was trained without a schema, so nothing says how columns become its numbers.",
            fix="Give an .npz file with x; or train with the schema that tacit init writes.",
        )
    found = columns_of(source)
    for column in trained.schema.features:
        if said := misfit(found[column.name], column):  # a column that is not there is refused
            note(said)
    beside = [np.array([*found[name].texts, ""], dtype=object)[found[name].codes] for name in keep]
    return beside, features(found, trained.schema)


def _numbers(source: Path) -> Any:
    found = read_npz(source, ("x",)).get("x")
    if found is None or found.dtype.kind not in "biuf" or found.ndim < 2 or not len(found):
        raise BadInput(f"{shown(source)} must hold x, an array of numbers with one row per record.")
    if bad := int((~np.isfinite(found.reshape(len(found), -1))).any(axis=1).sum()):
        raise BadInput(f"{shown(source)}: {bad} of {len(found)} records hold a number that is not finite.")
    return found


def _text(header: list[str], columns: list[Any]) -> str:
    """The answers as CSV; shares are written with six decimals."""
    held = io.StringIO(newline="")
    writer = csv.writer(held, lineterminator="\r\n")  # so that a value with either of them is quoted
    writer.writerow(header)
    writer.writerows([f"{one:.6f}" if isinstance(one, float) else one for one in row]
                     for row in zip(*columns, strict=True))  # fmt: skip
    return held.getvalue()
