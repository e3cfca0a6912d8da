"""Tables of the benchmark of private estimators: ranges are round public numbers, words those of the tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from tacit import Column, Schema
from tacit.data.csv_file import read_csv
from tacit.data.frames import Table, table
from tacit.data.loaders import folder
from tacit.data.values import Values
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
    held = table(frame).columns
    words = {name: tuple(sorted(texts_of(values))) for name, values in held.items() if name not in ranges}
    columns = [Column(name, range=ends) for name, ends in ranges.items()]
    columns += [Column(name, kind="category", words=found) for name, found in words.items()]
    return Schema(tuple(columns), label=label)


def texts_of(values: Values) -> set[str]:
    """The words of a column that some record has."""
    codes, texts = values.as_words()
    return {texts[code] for code in np.unique(codes) if code >= 0}


def read(name: str, drop: tuple[str, ...], missing: tuple[str, ...] = ()) -> Table:
    """A file of the data folder without some columns; the texts `missing` stand for no value. Needs no pandas."""
    found = read_csv(folder() / name)
    columns = {label: without(values, missing) for label, values in found.columns.items() if label not in drop}
    return Table(columns, found.rows, name)


def without(values: Values, missing: tuple[str, ...]) -> Values:
    if values.codes is None:
        return values
    gone = np.array([*(text.strip() in missing for text in values.texts), True])
    return Values(codes=np.where(gone[values.codes], -1, values.codes), texts=values.texts)


def of_split(frame: Table, schema_of: Callable[[Table], Schema]) -> Data:
    """A table whose column `split` says which records are for training."""
    codes, texts = frame["split"].as_words()
    rest = Table({name: held for name, held in frame.columns.items() if name != "split"}, frame.rows, frame.name)
    return tabular(rest, schema_of(rest), codes == texts.index("train"))


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
    found = read("adult.csv.gz", ("fnlwgt",), missing=("?",))
    frame = Table({name.replace("-", "_"): held for name, held in found.columns.items()}, found.rows, found.name)
    return of_split(frame, lambda rest: numbered(rest, "income", ADULT))


def credit() -> Data:
    frame = read("credit_default_taiwan.csv.gz", ("ID",))
    money = {name: (-1_000_000, 1_000_000) for name in frame.columns if name.startswith(("BILL", "PAY_AMT"))}
    ranges = {"LIMIT_BAL": (0, 1_000_000), "AGE": (0, 100), **money}
    return tabular(frame, numbered(frame, "default.payment.next.month", ranges), fifth(frame.rows))


def cancer() -> Data:
    x, y = load_breast_cancer(return_X_y=True)
    return Data(x / CANCER, y, fifth(len(y)), float(np.sqrt(30.0)), bounds=(0.0, 1.0))


def census() -> Data:
    """The published split; `instance_weight` dropped."""
    frame = read("census_income_kdd.csv.xz", ("instance_weight",), missing=("NA",))
    return of_split(frame, lambda rest: numbered(rest, "income_50k", CENSUS))


def kdd() -> Data:
    """An attack or not; rates lie in [0, 1], counts of connections below 512, bytes and seconds in wide ranges."""
    frame = read("kddcup99_10percent.csv.xz", ())
    codes, texts = frame["label"].as_words()
    attacks = np.array([0 if text.startswith("normal") else 1 for text in texts])
    label = Values(codes=attacks[codes], texts=("normal", "attack"))
    frame = Table({**frame.columns, "label": label}, frame.rows, frame.name)
    numbers = [name for name in frame.columns if name not in (*WORDS, "label")]
    ranges = {name: (0, 1) if name.endswith("rate") else (0, 512) for name in numbers}
    ranges |= dict.fromkeys(COUNTS, (0, 1_000_000))
    return tabular(frame, numbered(frame, "label", ranges), fifth(frame.rows))


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
