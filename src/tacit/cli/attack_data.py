"""Members and outsiders of `tacit attack --model`, in the form that the model was trained on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..audits.foreign import Border
from ..core.errors import BadInput
from ..core.files import shown
from ..data import Records
from ..data.npz_file import read_npz
from .inputs import read_data

TABLES = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class Side:
    """Records as a frame or an array, and their labels as they are in the file."""

    x: Any
    y: Any


def sides(target: Any, members: str, nonmembers: str, label: str | None) -> list[Side] | list[Records]:
    """Read two files: as frames for an estimator that was fitted to a frame, as texts, and else as numbers.

    A regression's values (an array `y` that holds fractions) stay as they are.
    """
    paths = [Path(members), Path(nonmembers)]
    columns = getattr(target, "feature_names_in_", None)
    if label is not None and all(path.suffix in TABLES and path.is_file() for path in paths):
        if columns is not None:
            return [_frame(path, [str(name) for name in columns], label) for path in paths]
        if texts := _texts(paths, label):
            return texts
    if all(path.suffix == ".npz" and path.is_file() for path in paths):
        found = [read_npz(path, {"x", "y"}) for path in paths]
        if all({"x", "y"} <= part.keys() and part["x"].dtype.kind in "biuf" for part in found) and any(
            _fractions(part["y"]) for part in found
        ):
            return [Side(part["x"], part["y"].astype(np.float64)) for part in found]
    return _numbers(members, nonmembers, label)


def _numbers(members: str, nonmembers: str, label: str | None) -> list[Records]:
    """Read both files, and refuse them if they would number their words differently."""
    found = [read_data(path, label=label) for path in (members, nonmembers)]
    if found[0].words != found[1].words:
        raise BadInput(
            "The two files hold different words, which would be numbered differently.",
            fix="Put all records into one file with a column of members, and name it in a run.toml.",
        )
    return found


def _texts(paths: list[Path], label: str) -> list[Side]:
    """Texts, where they are all that the files hold beside the label; none where they may be words to be numbered.

    Words of a category are the same in both files. Texts differ, and numbers of them would mean nothing.
    """
    tables = [_table(path) for path in paths]
    names = {name for table in tables for name in table.columns} - {label}
    if len(names) != 1 or any(len(table.columns) != 2 for table in tables):
        return []
    (name,) = names
    found = [table[name] for table in tables]
    if any(column.dropna().map(type).ne(str).any() for column in found) or set(found[0]) == set(found[1]):
        return []
    return [
        Side(column.fillna("").to_numpy(dtype=str), table[label]) for column, table in zip(found, tables, strict=True)
    ]


def _table(path: Path) -> Any:
    import pandas

    table: Any = None
    with Border() as border:
        table = pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)
    if border.problem:
        raise BadInput(f"{shown(path)} could not be read as a table.")
    return table


def _frame(path: Path, columns: list[str], label: str) -> Side:
    """The columns that the estimator was fitted to, in its order, and the label; other columns are left out."""
    table = _table(path)
    if missing := [name for name in (*columns, label) if name not in table.columns]:
        raise BadInput(
            f"{shown(path)} has no column {shown(missing[0])!r}.",
            fix="It needs the columns that the model was fitted to, and the label.",
        )
    return Side(table[columns], table[label])


def _fractions(y: Any) -> bool:
    """Whether labels are a regression's: finite numbers, some of them with fractions."""
    return bool(y.dtype.kind == "f" and np.isfinite(y).all() and (y != np.floor(y)).any())
