"""Data sets by name: inside scikit-learn, or in the folder that the environment variable TACIT_DATA names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import BadInput, MissingExtra
from .files import read_table

ENVIRONMENT = "TACIT_DATA"


@dataclass(frozen=True, eq=False)
class Records:
    """Features `x` and labels `y` (0 .. classes - 1), optionally membership and group of each row.

    `words` are those that a file's columns held, in the order of their numbers; two files with other words cannot be
    compared.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    members: NDArray[np.bool_] | None = None
    groups: NDArray[Any] | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    name: str = ""

    def __post_init__(self) -> None:
        columns = [column for column in (self.y, self.members, self.groups) if column is not None]
        if self.x.ndim < 2 or not len(self.x) or any(column.shape != (len(self.x),) for column in columns):
            raise BadInput(
                "The data needs x of shape (records, ...), not empty, and one entry per record in y, members, groups."
            )
        if not np.isfinite(self.x).all():
            raise BadInput("Features must be finite numbers.", fix="Fill or drop missing values first.")
        if self.y.min() < 0:
            raise BadInput("Labels must be whole numbers from 0, one per record.")

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1


def load(source: str, **columns: str | None) -> Records:
    """A data set by name, or an .npz or .csv file; `columns` names label, members and groups of a table."""
    if source in NAMES:
        return NAMES[source]()
    if source.endswith((".npz", ".csv", ".csv.gz")):
        return Records(**read_table(Path(source), **columns), name=Path(source).name)
    known = ", ".join(NAMES)
    raise BadInput(
        f"Data source {source!r} is not known.", fix=f"Use a file .npz or .csv, package:function, or: {known}."
    )


def folder() -> Path:
    """Where downloaded data sets lie: TACIT_DATA, else the user's cache."""
    return Path(os.environ.get(ENVIRONMENT) or Path.home() / ".cache" / "tacit")


def _sklearn(name: str, scale: float | None) -> Records:
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingExtra("erm") from None
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    x = x / scale if scale else (x - x.mean(0)) / x.std(0)
    return Records(x.astype(np.float32), y.astype(np.int64), name=name.replace("_", "-"))


def _images(name: str) -> Records:
    path = folder() / f"{name}.npz"
    if not path.is_file():
        fix = f"Put it there, or name the folder that has it in {ENVIRONMENT}."
        raise BadInput(f"The data set {name} is not in the data folder.", fix=fix)
    with np.load(path) as arrays:
        x = np.concatenate((arrays["x_train"], arrays["x_test"]))
        y = np.concatenate((arrays["y_train"], arrays["y_test"]))
    return Records((x[:, None] / 255).astype(np.float32), y.astype(np.int64), name=name.replace("_", "-"))


NAMES: dict[str, Callable[[], Records]] = {
    "digits": lambda: _sklearn("digits", 16.0),
    "breast-cancer": lambda: _sklearn("breast_cancer", None),
    "mnist": lambda: _images("mnist"),
    "fashion-mnist": lambda: _images("fashion_mnist"),
}
