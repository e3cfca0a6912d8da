"""How few facts single a person out, and why hiding in a group of k is not enough.

A combination of quasi-identifiers (ZIP, birth date, sex) that only one row has names that row's person to anybody who
knows the facts. k-anonymity asks that every combination has k rows or more; it fails where all k share the secret.
Reference: Sweeney 2002; Machanavajjhala et al. 2007 (homogeneity attack, l-diversity).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Source, check, source

Codes = NDArray[np.int64]
Random = Source | int | np.random.Generator | None


@dataclass(frozen=True)
class Uniqueness:
    """How far `columns` single out rows.

    `unique` is the share of rows with values that no other row has. `smallest` is the size of the smallest group, the k
    of k-anonymity. `within` has the share of rows in groups of at most 1, 2, 5 and 10 rows.
    """

    columns: tuple[str, ...]
    rows: int
    unique: float
    smallest: int
    groups: int
    within: tuple[tuple[int, float], ...]
    unit: str | None = None
    """Whose each row is: members of a group are people then, and else rows."""

    @property
    def sentence(self) -> str:
        """The share of rows that are alone with their values, in words."""
        named = ", ".join(self.columns)
        if self.unit is not None:
            return f"{self.unique:.1%} of {self.rows:,} rows belong to the only {self.unit} with their {named}."
        return f"{self.unique:.1%} of {self.rows:,} rows are the only one with their {named}."


@dataclass(frozen=True)
class Homogeneity:
    """Rows whose group has at least `k` rows and one value of the secret: anonymous, and disclosed."""

    k: int
    rows: int
    hidden: float
    disclosed: float

    @property
    def sentence(self) -> str:
        """How many rows hide in a group, and how many are disclosed all the same, in words."""
        return (
            f"{self.hidden:.1%} of rows hide in groups of at least {self.k}; {self.disclosed:.1%} of all rows are in "
            "groups that still tell the secret, because everybody in them has the same."
        )


def uniqueness(
    table: Mapping[str, object], columns: Sequence[str] | None = None, *, unit: str | None = None
) -> Uniqueness:
    """How many rows are alone with their values of `columns` (all but the unit, unless told).

    unit: the column that says whose each row is. Several rows of one person then hide nobody: a row is alone where
    nobody else has its values.
    """
    names = tuple(name for name in _names(table) if name != unit) if columns is None else tuple(columns)
    groups = _groups(table, names)
    sizes = _sizes(table, groups, unit)
    within = tuple((most, float(np.mean(sizes <= most))) for most in (1, 2, 5, 10))
    return Uniqueness(names, len(sizes), within[0][1], int(sizes.min()), int(groups.max()) + 1, within, unit)


def combinations(
    table: Mapping[str, object], columns: Sequence[str], *, most: int = 3, unit: str | None = None
) -> list[Uniqueness]:
    """All combinations of up to `most` columns, the one that singles out most people first."""
    sizes = range(1, min(check.whole("most", most), len(columns)) + 1)
    chosen = [names for size in sizes for names in itertools.combinations(columns, size)]
    found = [uniqueness(table, names, unit=unit) for names in chosen]
    return sorted(found, key=lambda item: (-item.unique, len(item.columns)))


def homogeneity(
    table: Mapping[str, object], columns: Sequence[str], secret: str, *, k: int, unit: str | None = None
) -> Homogeneity:
    """How many rows lie in groups of at least k members that all share one secret, which is disclosed all the same.

    unit: the column that says whose each row is; a group then has as many members as people.
    """
    groups = _groups(table, columns)
    kinds = _distinct(groups, _codes(table, secret))
    large = _sizes(table, groups, unit) >= check.whole("k", k, least=2)
    return Homogeneity(int(k), len(groups), float(np.mean(large)), float(np.mean(large & (kinds == 1))))


def unicity(points: Mapping[str, object], known: int, rng: Random, *, draws: int = 20) -> float:
    """The mean share of rows that `known` facts, drawn at random from the columns, single out.

    Reference: de Montjoye et al. 2013 (unicity of trajectories).
    """
    names, chance = _names(points), source(rng)
    if not 1 <= check.whole("known", known) <= len(names):
        raise BadInput(f"known must be between 1 and the number of columns {len(names)}, got {known}.")
    drawn = [chance.permutation(len(names))[:known] for _ in range(check.whole("draws", draws))]
    shares = [uniqueness(points, [names[k] for k in places]).unique for places in drawn]
    return float(np.mean(shares))


def _sizes(table: Mapping[str, object], groups: Codes, unit: str | None) -> Codes:
    """How many members every row's group has: rows, or people where a column says whose each row is."""
    return np.bincount(groups)[groups] if unit is None else _distinct(groups, _codes(table, unit))


def _distinct(groups: Codes, codes: Codes) -> Codes:
    """How many different codes there are in every row's group."""
    pairs = np.unique(_together(groups, codes)) // (int(codes.max()) + 1)
    return np.bincount(pairs, minlength=int(groups.max()) + 1)[groups]


def _groups(table: Mapping[str, object], names: Sequence[str]) -> Codes:
    """The number of each row's combination."""
    if not names:
        raise BadInput("Name at least one column.")
    found = _codes(table, names[0])
    for name in names[1:]:
        found = np.unique(_together(found, _codes(table, name)), return_inverse=True)[1].astype(np.int64)
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def _together(first: Codes, second: Codes) -> Codes:
    """One number for each pair of codes."""
    if len(first) != len(second):
        raise BadInput(f"All columns must have one length, got {len(first):,} and {len(second):,} rows.")
    return first * (int(second.max()) + 1) + second


def _names(table: Any) -> list[str]:
    """The names of the columns of a dictionary, or of a table of pandas, polars or Arrow."""
    return list(table.column_names if hasattr(table, "column_names") else getattr(table, "columns", table))


def _codes(table: Mapping[str, object], name: str) -> Codes:
    if name not in (names := _names(table)):
        raise BadInput(f"The table has no column {name!r}.", fix=f"Columns: {', '.join(map(str, names))}.")
    values: Any = np.asarray(table[name])
    if values.ndim != 1 or not values.size:
        raise BadInput(f"Column {name!r} must hold one value for each row, and at least one.")
    if values.dtype == object:  # numpy would give every text the room of the longest
        places: dict[str, int] = {}
        return np.array([places.setdefault(str(value), len(places)) for value in values.tolist()], dtype=np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)
