"""Data sets by name: inside scikit-learn, or in the folder that the environment variable TACIT_DATA names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import Array
from ..core.errors import BadInput, MissingExtra
from .csv_file import ENDINGS
from .files import read_table
from .npz_file import read_npz
from .schema import Schema

ENVIRONMENT = "TACIT_DATA"


@dataclass(frozen=True, eq=False)
class Records:
    """Features `x` and labels `y` (0 .. classes - 1), optionally membership, group and unit (whose record) of each row.

    `words` are those that a file's columns held, in the order of their numbers; two files with other words cannot be
    compared. `derived` names the columns whose words were read off the data itself. Of `canaries` a fair coin decided
    whether they are members. `rows` are the records' places in the file, where some of it were left out.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    members: NDArray[np.bool_] | None = None
    groups: Array | None = None
    unit: Array | None = None
    canaries: NDArray[np.bool_] | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    derived: tuple[str, ...] = ()
    name: str = ""
    schema: Schema | None = None
    rows: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        columns = [
            column for column in (self.y, self.members, self.groups, self.unit, self.canaries) if column is not None
        ]
        if self.x.ndim < 2 or not len(self.x) or any(column.shape != (len(self.x),) for column in columns):
            raise BadInput(
                "The data needs x of shape (records, ...), not empty, and one entry per record in all other columns."
            )
        if not np.isfinite(self.x).all():
            where = np.argwhere(~np.isfinite(self.x))[0]
            raise BadInput(
                f"Features must be finite numbers: record {where[0] + 1}, feature {where[1] + 1} is not.",
                fix="Fill or drop missing values first.",
            )
        if self.y.min() < 0:
            raise BadInput("Labels must be whole numbers from 0, one per record.")

    @property
    def classes(self) -> int:
        """How many there are: by the schema, or by the largest label."""
        return int(self.y.max()) + 1 if self.schema is None else len(self.schema.classes)

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places in the file of some of these records: records without a known label were left out of them."""
        return rows if self.rows is None else self.rows[rows]


def load(
    source: str,
    *,
    categories: Mapping[str, Sequence[str]] | None = None,
    schema: str | None = None,
    **columns: str | None,
) -> Records:
    """A data set by name, or an .npz, .csv or .parquet file.

    `columns` names label, members, groups, unit and canaries of a table; `categories` the public words of its columns;
    `schema` is the file of a schema, which says all this but members and canaries.
    """
    if source.endswith((".npz", ".parquet", *ENDINGS)):
        return Records(**read_table(Path(source), categories, schema, **columns), name=Path(source).name)
    if source not in NAMES:
        known = ", ".join(NAMES)
        raise BadInput(
            f"Data source {source!r} is not known.",
            fix=f"Use a file .npz, .csv or .parquet, package:function, or: {known}.",
        )
    if given := [key for key, value in {**columns, "categories": categories, "schema": schema}.items() if value]:
        raise BadInput(f"The data set {source} has no columns to name: {', '.join(given)} must go.")
    return NAMES[source]()


def folder() -> Path:
    """Where downloaded data sets lie: TACIT_DATA, else the user's cache."""
    return Path(os.environ.get(ENVIRONMENT) or Path.home() / ".cache" / "tacit")


BREAST_CANCER_RANGES = (
    *(30, 40, 200, 3000, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1),
    *(3, 5, 25, 600, 0.04, 0.15, 0.4, 0.06, 0.08, 0.03),
    *(40, 50, 300, 5000, 0.25, 1.2, 1.3, 0.3, 0.7, 0.25),
)
"""Round numbers at or above the largest value that the data set's description prints for each feature."""


def _sklearn(name: str, ranges: float | tuple[float, ...]) -> Records:
    """Features over fixed public ranges: nothing is computed from the records (soundness: public normalisation)."""
    try:
        from sklearn import datasets
    except ImportError:
        raise MissingExtra("erm") from None
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    x = x / np.asarray(ranges)
    return Records(x.astype(np.float32), y.astype(np.int64), name=name.replace("_", "-"))


def _images(name: str) -> Records:
    path = folder() / f"{name}.npz"
    if not path.is_file():
        fix = f"Put it there, or name the folder that has it in {ENVIRONMENT}."
        raise BadInput(f"The data set {name} is not in the data folder.", fix=fix)
    arrays = read_npz(path, ("x_train", "x_test", "y_train", "y_test"))
    try:
        x = np.concatenate((arrays["x_train"], arrays["x_test"]))
        y = np.concatenate((arrays["y_train"], arrays["y_test"]))
    except (KeyError, ValueError):
        raise BadInput(f"{path.name} does not hold the data set {name}.", fix="Fetch it again.") from None
    return Records((x[:, None] / 255).astype(np.float32), y.astype(np.int64), name=name.replace("_", "-"))


NAMES: dict[str, Callable[[], Records]] = {
    "digits": lambda: _sklearn("digits", 16.0),
    "breast-cancer": lambda: _sklearn("breast_cancer", BREAST_CANCER_RANGES),
    "mnist": lambda: _images("mnist"),
    "fashion-mnist": lambda: _images("fashion_mnist"),
}
