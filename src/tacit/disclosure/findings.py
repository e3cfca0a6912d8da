"""What an attack on a release found, in a sentence and in figures; never with a person's value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .differencing import Asked, differencing
from .uniqueness import combinations, homogeneity

SEVERE, NOTABLE, NONE = "severe", "notable", "none"
SHOWN = 5
MANY, SOME = 0.05, 0.001
"""Shares of rows that are alone from which on a combination is severe, or notable."""


@dataclass(frozen=True)
class Finding:
    """One attack and its outcome. `severity`: severe (people are disclosed), notable, none."""

    attack: str
    sentence: str
    severity: str
    figures: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "attack": self.attack,
            "sentence": self.sentence,
            "severity": self.severity,
            "figures": dict(self.figures),
        }


def of_log(log: Sequence[Asked]) -> list[Finding]:
    """What the exact answers of a query log disclose together."""
    people = len({person for query in log for person in query.people})
    found = differencing(log)
    smallest = min((len(query.people) for query in log), default=0)
    figures: dict[str, Any] = {"queries": len(log), "people": people, "disclosed": len(found), "smallest_set": smallest}
    figures["ways"] = [item.sentence for item in found[:SHOWN]]
    if not found:
        told = f"No combination of the {len(log)} answers is about one of {people} people alone."
        return [Finding("differencing", told, NONE, figures)]
    told = f"The {len(log)} answers determine the value of {len(found)} of {people} people, by differences of sums."
    return [Finding("differencing", told, SEVERE, figures)]


def of_table(
    table: Mapping[str, object], columns: Sequence[str], secret: str | None = None, *, k: int = 5
) -> list[Finding]:
    """Which combinations of columns single people out, and what groups of k still tell about the secret."""
    found = []
    ranked = combinations(table, columns)
    whole = next((item for item in ranked if len(item.columns) == len(columns)), ranked[0])
    for item in dict.fromkeys([whole, *ranked[:SHOWN]]):
        severity = SEVERE if item.unique >= MANY else NOTABLE if item.unique >= SOME else NONE
        figures = {"columns": list(item.columns), "unique": item.unique, "k": item.smallest, "rows": item.rows}
        found.append(Finding("uniqueness", item.sentence, severity, figures))
    if secret is not None:
        told = homogeneity(table, columns, secret, k=k)
        severity = SEVERE if told.disclosed >= MANY else NOTABLE if told.disclosed >= SOME else NONE
        figures = {"k": told.k, "hidden": told.hidden, "disclosed": told.disclosed}
        found.append(Finding("homogeneity", told.sentence, severity, figures))
    return found
