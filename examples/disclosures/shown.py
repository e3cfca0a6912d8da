"""What all examples of attacks share: what they show, and the census table that some of them attack."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit import disclosure
from tacit.disclosure import Bar

EPSILON = 1.0


@dataclass(frozen=True)
class Shown:
    """What an attack found, in a sentence and as a picture; `limit`: the most that the private release allows."""

    title: str
    sentence: str
    bars: tuple[Bar, ...]
    limit: float | None = None

    @property
    def picture(self) -> str:
        return disclosure.picture(self.title, self.bars, limit=self.limit)


def adult(folder: Path):
    import pandas

    return pandas.read_csv(folder / "adult.csv.gz")


def incomes(folder: Path, people: int) -> np.ndarray:
    """Whether so many people earn much; half of them do."""
    table = adult(folder)
    rows = np.r_[tuple(table.index[table.income == kind][: people // 2] for kind in (">50K", "<=50K"))]
    return (table.income[np.random.default_rng(0).permutation(rows)] == ">50K").to_numpy()
