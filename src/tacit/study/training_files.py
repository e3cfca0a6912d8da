"""What `train` and `pate` leave beside the weights, so that `bracket` finds the same training again."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from ..core.files import shown
from ..core.manifest import FACTS, WEIGHTS
from ..data import Records
from ..data.npz_file import read_npz
from .run_file import RunFile

if TYPE_CHECKING:
    from .pate_run import PateRun
    from .run_training import RunTraining

RUN, RECORDS = "run.toml", "records.npz"


def keep(training: RunTraining | PateRun, file: RunFile, folder: Path) -> None:
    """Write the run file, the schema, and which records were trained on. That is membership itself: only the owner may
    read it."""
    if training.records.schema is not None:
        training.records.schema.save(folder / FACTS)
    if file.path.resolve() != (folder / RUN).resolve():
        shutil.copyfile(file.path, folder / RUN)
    path = folder / RECORDS
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        np.savez_compressed(out, trained_on=training.inside, held_out=training.held_out)


def is_pate(folder: Path) -> bool:
    """Whether a folder is one of `tacit pate`: its run file has a section [pate]."""
    return (folder / RUN).is_file() and "pate" in RunFile.read(folder / RUN).sections


def kept(folder: Path) -> RunFile:
    """The run file of a folder that `train` or `pate` has written."""
    missing = [name for name in (RUN, RECORDS, WEIGHTS, "evidence.json") if not (folder / name).is_file()]
    if missing == [WEIGHTS] and is_pate(folder):
        raise BadInput(
            f"{shown(folder)} holds no weights: only a student that is a network can be bracketed from its folder.",
            fix="Choose a network as student ([pate] student), or use tacit.bracket with PATE.training in Python.",
        )
    if missing:
        raise BadInput(
            f"{shown(folder)} is no folder of tacit train or tacit pate: it has no {' and no '.join(missing)}.",
            fix="Run tacit train or tacit pate first, or give the run file.",
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
