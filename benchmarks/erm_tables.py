"""Tables of the benchmark of private estimators: ranges are round public numbers, words those of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tacit import Column, Schema
from tacit.data.loaders import folder
from tacit.erm.linear import USUAL
from tacit.erm.tables import row_norm

ADULT = {
    "age": (0, 100), "education_num": (1, 16), "capital_gain": (0, 100_000), "capital_loss": (0, 5_000),
    "hours_per_week": (0, 100),
}  # fmt: skip
CANCER = (
    30, 40, 200, 2600, 0.2, 0.4, 0.5, 0.3, 0.4, 0.1, 3, 5, 22, 550, 0.04, 0.2, 0.4, 0.06, 0.08, 0.03,
    40, 50, 260, 4300, 0.3, 1.1, 1.3, 0.3, 0.7, 0.3,
)  # fmt: skip
CENSUS = {
    "age": (0, 100), "wage_per_hour": (0, 10_000), "capital_gains": (0, 100_000), "capital_losses": (0, 5_000),
    "dividends_from_stocks": (0, 100_000), "num_persons_worked_for_employer": (0, 6), "weeks_worked_in_year": (0, 52),
}  # fmt: skip
COUNTS = ("duration", "src_bytes", "dst_bytes")
WORDS = ("protocol_type", "service", "flag", "land", "logged_in", "is_host_login", "is_guest_login")


@dataclass(frozen=True, eq=False)
class Data:
    """Encoded rows x with labels y, which of them are for training, the norm that bounds rows, and the table itself."""

    x: Any
    y: Any
    train: Any
    norm: float
    frame: Any = None
    schema: Schema | None = None
    bounds: tuple[float, float] | None = None

    @property
    def classes(self) -> list[int]:
        return list(range(int(self.y.max()) + 1))


def numbered(frame: Any, label: str, ranges: dict[str, tuple[float, float]]) -> Schema:
    """A schema: public ranges for numbers, the words of the table for the rest."""
    words = {name: tuple(sorted(map(str, frame[name].dropna().unique()))) for name in frame if name not in ranges}
    columns = [Column(name, range=ends) for name, ends in ranges.items()]
    columns += [Column(name, kind="category", words=found) for name, found in words.items()]
    return Schema(tuple(columns), label=label)


def fifth(count: int) -> Any:
    """Four in five for training, always the same."""
    train = np.zeros(count, dtype=bool)
    train[train_test_split(np.arange(count), test_size=0.2, random_state=0)[0]] = True
    return train


def tabular(frame: Any, schema: Schema, train: Any) -> Data:
    x, y = schema.encode(frame)
    return Data(np.asarray(x, dtype=np.float64), y, train, USUAL * row_norm(schema), frame, schema)


def adult() -> Data:
    """The published split; `fnlwgt` dropped."""
    frame = pd.read_csv(folder() / "adult.csv.gz", na_values=["?"]).rename(columns=lambda name: name.replace("-", "_"))
    train = frame["split"].eq("train").to_numpy()
    frame = frame.drop(columns=["split", "fnlwgt"])
    return tabular(frame, numbered(frame, "income", ADULT), train)


def credit() -> Data:
    frame = pd.read_csv(folder() / "credit_default_taiwan.csv.gz").drop(columns="ID")
    money = {name: (-1_000_000, 1_000_000) for name in frame if name.startswith(("BILL", "PAY_AMT"))}
    ranges = {"LIMIT_BAL": (0, 1_000_000), "AGE": (0, 100), **money}
    return tabular(frame, numbered(frame, "default.payment.next.month", ranges), fifth(len(frame)))


def cancer() -> Data:
    x, y = load_breast_cancer(return_X_y=True)
    return Data(x / CANCER, y, fifth(len(y)), float(np.sqrt(30.0)), bounds=(0.0, 1.0))


def census() -> Data:
    """The published split; `instance_weight` dropped."""
    frame = pd.read_csv(folder() / "census_income_kdd.csv.xz").drop(columns="instance_weight")
    train = frame["split"].eq("train").to_numpy()
    frame = frame.drop(columns="split")
    return tabular(frame, numbered(frame, "income_50k", CENSUS), train)


def kdd() -> Data:
    """An attack or not; rates lie in [0, 1], counts of connections below 512, bytes and seconds in wide ranges."""
    frame = pd.read_csv(folder() / "kddcup99_10percent.csv.xz")
    frame["label"] = np.where(frame["label"].astype(str).str.startswith("normal"), "normal", "attack")
    numbers = [name for name in frame if name not in (*WORDS, "label")]
    ranges = {name: (0, 1) if name.endswith("rate") else (0, 512) for name in numbers}
    ranges |= dict.fromkeys(COUNTS, (0, 1_000_000))
    return tabular(frame, numbered(frame, "label", ranges), fifth(len(frame)))


def mnist() -> Data:
    """Pixels between 0 and 1; the norm of a picture is at most 28, of most below 12."""
    with np.load(folder() / "mnist.npz") as held:
        x = np.concatenate([held["x_train"], held["x_test"]]).reshape(-1, 784) / 255.0
        y = np.concatenate([held["y_train"], held["y_test"]]).astype(np.int64)
        train = np.arange(len(y)) < len(held["y_train"])
    return Data(x, y, train, 10.0)


TABLES: dict[str, Callable[[], Data]] = {
    "adult": adult,
    "credit": credit,
    "cancer": cancer,
    "census": census,
    "kdd": kdd,
    "mnist": mnist,
}
