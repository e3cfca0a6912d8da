"""A question to the engine in public facts: table, unit, conditions, groups and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .engines import NATIVE, Opened
from .keys import By, Keys
from .values import respelt

FEW_ROWS = 8
"""Rows of a person in a group up to which rows are ranked first."""


@dataclass(frozen=True)
class Shape:
    """The public description of a question to the engine: table, unit, conditions, groups and limits."""

    table: Opened
    unit: str | None
    conditions: tuple[Any, ...]
    by: tuple[By, ...]
    keys: Keys | None
    max_groups: int
    max_rows: int
    portable: bool = False

    @property
    def names(self) -> list[str]:
        """Columns that hold the groups: `k0` .."""
        return [f"k{place}" for place in range(len(self.by))]

    @property
    def ranked(self) -> bool:
        """Whether a person may be in more groups than they count in."""
        return self.unit is not None and bool(self.by)

    @property
    def all_kept(self) -> bool:
        """Whether there are no more groups than a person may count in."""
        return self.keys is not None and len(self.keys.values) <= self.max_groups

    @property
    def groups(self) -> int:
        """How many groups one person counts in at most."""
        if not self.by or self.unit is None:
            return 1
        return self.max_groups if self.keys is None else min(self.max_groups, len(self.keys.values))

    @property
    def own(self) -> tuple[str, ...]:
        """Columns that say whose a row is: `u`, and where an engine may take two spellings for one person, `e`.

        `e` is the least of a person's own spellings in a group. An engine calls a group by the spelling that it reads
        first: a choice by that one would hang on the order of everybody's rows.
        """
        if self.unit is None:
            return ()
        by_value = self.native and not self.table.column(self.unit).type().is_string()  # equal values, equal hashes
        return ("u", "e") if not by_value and respelt(self.table, self.unit) else ("u",)

    @property
    def native(self) -> bool:
        """Whether DuckDB's own hash chooses a person's groups."""
        return self.table.engine == NATIVE and not self.portable

    @property
    def rows_first(self) -> bool:
        """Whether rows may be ranked before they are added up: faster where people have few rows in a group.

        Nobody may look how many they have; the public limit `max_rows` says what the caller expects.
        """
        return self.native and self.own == ("u",) and self.max_rows <= FEW_ROWS

    @property
    def rows(self) -> int:
        """How many rows one person counts with in a group."""
        return 1 if self.unit is None else self.max_rows
