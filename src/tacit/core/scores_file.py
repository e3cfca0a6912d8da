"""`scores.csv` in and out, Parquet in: score, member, optionally attack, record, target, group, randomised."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from . import check
from .errors import BadInput
from .files import written
from .scores import Scores

COLUMNS = ("score", "member", "attack", "record", "target", "group", "randomised")


def write(scores: Sequence[Scores], path: str | Path) -> Path:
    """Write all attacks into one file, whole or not at all."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(COLUMNS)
    for item in scores:
        groups = item.group if item.group is not None else np.full(len(item), "")
        rows = zip(item.score, item.member, item.record, item.target, groups, strict=True)
        for score, member, record, target, group in rows:
            table.writerow((repr(float(score)), int(member), item.attack, record, target, group, int(item.randomised)))
    return written(path, text.getvalue())


def read(path: str | Path) -> list[Scores]:
    """Read a file, one `Scores` per attack, in order of first appearance."""
    path = Path(path)
    header, rows = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    if not {"score", "member"} <= header:
        raise BadInput(f"{path.name} must have the columns score and member.")
    if not rows:
        raise BadInput(f"{path.name} holds no rows.")
    attacks: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        attacks.setdefault(row.get("attack") or "scores", []).append(row)
    return [_scores(part, attack, path.name) for attack, part in attacks.items()]


def _csv(path: Path) -> tuple[set[str], list[dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            table = csv.DictReader(file)
            return set(table.fieldnames or ()), list(table)
    except (OSError, UnicodeDecodeError, csv.Error):
        raise BadInput(f"{path.name} cannot be read as a CSV file.") from None


def _parquet(path: Path) -> tuple[set[str], list[dict[str, str]]]:
    from .parquet import rows

    header, found = rows(path)
    return set(header), [dict(zip(header, row, strict=True)) for row in found]


def _scores(rows: list[dict[str, str]], attack: str, name: str) -> Scores:
    def column(key: str) -> list[str] | None:
        values = [row.get(key) or "" for row in rows]
        return values if any(values) else None

    def flags(key: str) -> NDArray[np.bool_]:
        return check.flags(f"{name}: column {key}", [row[key] or "" for row in rows])

    try:
        score = [float(row["score"]) for row in rows]
    except (TypeError, ValueError):
        raise BadInput(f"{name}: column score must hold a number in every row.") from None
    randomised = set(flags("randomised").tolist()) if column("randomised") else {False}
    if len(randomised) > 1:
        raise BadInput(f"{name}: column randomised must be the same in all rows of one attack.")
    return Scores(
        score,
        flags("member"),
        attack=attack,
        randomised=randomised.pop(),
        record=column("record"),
        target=column("target"),
        group=column("group"),
    )
