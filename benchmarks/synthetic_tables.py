"""Tables for benchmarks/synthetic.py as codes: numbers cut at round edges, words by their place among all words.

The settings of `synthesize` were chosen on Adult. The other tables were read for the first time when all was settled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

AGES = [17, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 91]
GAINS = [0, 1, 2000, 4000, 6000, 8000, 10000, 20000, 100001]
LOSSES = [0, 1, 1000, 1500, 1800, 2000, 2500, 5000]
ADULT = {
    "age": AGES,
    "capital_gain": GAINS,
    "capital_loss": LOSSES,
    "hours_per_week": [1, 10, 20, 30, 39, 41, 45, 50, 60, 80, 100],
}
CENSUS = {
    "age": [0, 10, *AGES],
    "capital_gains": GAINS,
    "capital_losses": LOSSES,
    "weeks_worked_in_year": [0, 1, 13, 26, 39, 52, 53],
}
CENSUS_WORDS = [
    "class_of_worker",
    "education",
    "marital_stat",
    "major_industry_code",
    "major_occupation_code",
    "race",
    "sex",
    "full_or_part_time_employment_stat",
    "tax_filer_stat",
    "income_50k",
]
MONTHS = range(1, 7)
CREDIT = {
    "LIMIT_BAL": [0, 50_000, 100_000, 150_000, 200_000, 300_000, 500_000, 1_000_001],
    "AGE": [20, 25, 30, 35, 40, 45, 50, 60, 80],
    **{f"PAY_{k}": [-2, -1, 0, 1, 2, 3, 4, 9] for k in MONTHS},
    **{f"BILL_AMT{k}": [-1e7, 1, 1000, 5000, 20_000, 50_000, 100_000, 200_000, 1e7] for k in MONTHS},
    **{f"PAY_AMT{k}": [0, 1, 1000, 2000, 5000, 10_000, 50_000, 1e7] for k in MONTHS},
}


@dataclass(frozen=True)
class Data:
    """Codes of all columns, the label last; how many values each has; rows for testing; columns of words."""

    codes: NDArray[np.int64]
    sizes: list[int]
    test: NDArray[np.bool_]
    words: list[int]

    @property
    def train(self) -> NDArray[np.int64]:
        return self.codes[~self.test]


def adult(folder: Path) -> Data:
    frame = pd.read_csv(folder / "adult.csv.gz").drop(columns=["fnlwgt", "education_num"])
    return _coded(frame, ADULT, (frame.pop("split") == "test").to_numpy())


def census(folder: Path) -> Data:
    """The census-income table (KDD), 14 columns, with its own split."""
    frame = pd.read_csv(folder / "census_income_kdd.csv.xz")
    return _coded(frame[[*CENSUS, *CENSUS_WORDS]], CENSUS, (frame["split"] == "test").to_numpy())


def credit(folder: Path) -> Data:
    """Defaults on credit cards in Taiwan, all 24 columns; one row in three is for testing."""
    frame = pd.read_csv(folder / "credit_default_taiwan.csv.gz").drop(columns="ID")
    return _coded(frame, CREDIT, np.random.default_rng(0).random(len(frame)) < 1 / 3)


def _coded(frame: pd.DataFrame, edges: dict[str, list[float]], test: NDArray[np.bool_]) -> Data:
    columns, sizes = [], []
    for name in frame:
        if name in edges:
            found = np.searchsorted(edges[name], frame[name], side="right") - 1
            columns.append(np.clip(found, 0, len(edges[name]) - 2))
            sizes.append(len(edges[name]) - 1)
        else:
            columns.append(pd.factorize(frame[name].astype(str), sort=True)[0])
            sizes.append(int(columns[-1].max()) + 1)
    words = [k for k, name in enumerate(frame) if name not in edges][:-1]
    return Data(np.stack(columns, axis=1).astype(np.int64), sizes, test, words)


TABLES: dict[str, Callable[[Path], Data]] = {"adult": adult, "credit": credit, "census": census}
