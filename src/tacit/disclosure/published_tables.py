"""Records from published tables: every count is a linear equation about how many people there are of each kind.

Small blocks have few people and many tables, so often one solution only. A kind is determined when the least and the
largest number of people it can have, over all whole-number solutions, are the same.
Reference: Garfinkel, Abowd and Martindale 2019 (reconstruction of census blocks).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check

Kind = tuple[str, ...]
MOST = 5000


@dataclass(frozen=True)
class Published:
    """A table: the columns it is about, and a count for each combination of their values that it shows."""

    columns: tuple[str, ...]
    counts: Mapping[Kind, int] | Mapping[str, int]


@dataclass(frozen=True)
class Records:
    """How many people of each kind there are at least and at most; one solution that fits every table."""

    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    solution: NDArray[np.int64]

    @property
    def determined(self) -> float:
        """The share of people whose whole record follows from the tables."""
        certain = np.where(self.least == self.most, self.least, 0).sum()
        return float(certain / max(self.solution.sum(), 1))


def records_from_tables(domain: Mapping[str, Sequence[str]], tables: Sequence[Published]) -> Records:
    """Bound how many people of each kind there are; counts that no table can have are refused."""
    names = tuple(domain)
    kinds = tuple(itertools.product(*domain.values()))
    if not tables or not 1 <= len(kinds) <= MOST:
        raise BadInput(f"There must be a table, and between 1 and {MOST:,} kinds of people, got {len(kinds):,}.")
    rows, counts = _equations(names, kinds, tables)
    bounds = [(_extreme(rows, counts, k, 1), _extreme(rows, counts, k, -1)) for k in range(len(kinds))]
    least, most = (np.array([pair[end][k] for k, pair in enumerate(bounds)], dtype=np.int64) for end in (0, 1))
    return Records(names, kinds, least, most, bounds[0][0])


def _equations(
    names: tuple[str, ...], kinds: tuple[Kind, ...], tables: Sequence[Published]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows, counts = [], []
    for table in tables:
        if odd := next((name for name in table.columns if name not in names), None):
            raise BadInput(f"A table is about {odd!r}, which is not in the domain.")
        places = [names.index(name) for name in table.columns]
        for values, count in table.counts.items():
            cell = (values,) if isinstance(values, str) else tuple(values)
            if len(cell) != len(places):
                raise BadInput(f"Each cell of a table of {len(places)} columns is named by as many values.")
            rows.append([float(tuple(kind[k] for k in places) == cell) for kind in kinds])
            counts.append(check.nonnegative("A count", count))
    found = np.array(rows).reshape(-1, len(kinds))
    if not found.any(axis=0).all():
        raise BadInput(
            "The tables do not say how many people there are of every kind.",
            fix="Give every cell of a table, those with 0 people too.",
        )
    return found, np.array(counts)


def _extreme(rows: NDArray[np.float64], counts: NDArray[np.float64], kind: int, sign: int) -> NDArray[np.int64]:
    """The whole-number solution with the least (or largest) number of one kind."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    goal = np.zeros(rows.shape[1])
    goal[kind] = sign
    found = milp(
        goal,
        constraints=LinearConstraint(rows, counts, counts),
        integrality=np.ones(rows.shape[1], dtype=np.int64),
        bounds=Bounds(0, counts.max(initial=0.0)),
    )
    if found.x is None:
        raise BadInput("No people have these tables: the counts contradict each other.")
    return np.rint(found.x).astype(np.int64)
