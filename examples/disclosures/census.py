"""Rows that are alone with a few facts, and groups that share a secret."""

from pathlib import Path

from tacit import disclosure
from tacit.disclosure import Bar

from .shown import Shown, adult


def census(folder: Path) -> Shown:
    table = {name: column.to_numpy() for name, column in adult(folder).items()}
    names = ["age", "sex", "race", "native_country", "occupation", "education"]
    alone = [disclosure.uniqueness(table, names[:count]) for count in range(1, len(names) + 1)]
    groups = disclosure.homogeneity(table, ["age", "sex", "race"], "marital_status", k=5)
    labels = [names[0], *(f"and {name.replace('_', ' ')}" for name in names[1:])]
    bars = tuple(Bar(label, item.unique) for label, item in zip(labels, alone, strict=True))
    return Shown("Census rows that are alone with their facts", f"{alone[-1].sentence} {groups.sentence}", bars)
