"""What `train` leaves beside the weights, so that `bracket` finds the same training again."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..data import Records
from ..data.npz_file import read_npz
from .run_file import RunFile

if TYPE_CHECKING:
    from .run_training import RunTraining

RUN, RECORDS = "run.toml", "records.npz"


def keep(training: RunTraining, file: RunFile, folder: Path) -> None:
    """Write the run file and which records were trained on. That is membership itself: only the owner may read it."""
    if file.path.resolve() != (folder / RUN).resolve():
        shutil.copyfile(file.path, folder / RUN)
    path = folder / RECORDS
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        np.savez_compressed(out, trained_on=training.inside, held_out=training.held_out)


def kept(folder: Path) -> RunFile:
    """The run file of a folder that `train` has written."""
    missing = [name for name in (RUN, RECORDS, "model.safetensors", "evidence.json") if not (folder / name).is_file()]
    if missing:
        raise BadInput(
            f"{folder} is no folder of tacit train: it has no {' and no '.join(missing)}.",
            fix="Run tacit train first, or give the run file.",
        )
    return replace(RunFile.read(folder / RUN), name=folder.resolve().name)


def trained_on(folder: Path, records: Records) -> NDArray[np.bool_]:
    """Which of the records the model in this folder was trained on."""
    try:
        inside = read_npz(folder / RECORDS, ("trained_on",))["trained_on"]
    except (BadInput, KeyError):
        raise BadInput(f"{RECORDS} is damaged.", fix="Train the model again.") from None
    if inside.shape != (len(records.x),) or inside.dtype != bool:
        raise BadInput("The data have changed since the training: there are more or fewer records.")
    return np.asarray(inside)
