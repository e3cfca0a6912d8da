"""What the campaigns of `membership.py` say: one line for each, MET or SHORT, with the figures it is decided by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Row = Mapping[str, Any]
KINDS = 20
"""Kinds of model that the matrix must have; three of them need XGBoost, LightGBM and CatBoost."""
PLANTED, DRAWS = 5, 100
"""Kinds of model that planted records are looked for in, and draws of each."""
LEVEL = 0.05
"""Names, and games without members, that may be wrong."""


def verdicts(found: Mapping[str, Any]) -> list[str]:
    """A line for each campaign of `honesty` that was run."""
    judges = {
        "planted": planted,
        "false discoveries": false_discoveries,
        "nulls": nulls,
        "coverage": coverage,
        "confounded": confounded,
    }
    return [f"{name}: {_said(judge(found[name]))}" for name, judge in judges.items() if name in found]


def planted(rows: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    """Nine of ten named in each kind that memorises, one in twenty names wrong at most, 100 draws each."""
    some = [row for row in rows if "nothing" not in row["kind"]]
    yield len(some) >= PLANTED, f"{len(some)} kinds of model"
    for row in some:
        wrong = row["named and not planted"] / max(row["named"], 1)
        told = f"{row['kind']} {row['named and planted, mean']:.2f} of 10, {wrong:.1%} of the names wrong"
        right = row["named and planted, mean"] >= 9 and wrong <= LEVEL and row["draws"] >= DRAWS
        yield right, f"{told}, {row['draws']} draws"


def false_discoveries(rows: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    for row in rows:
        rate = row["false discovery rate"]
        right = rate <= LEVEL and row["draws"] >= DRAWS
        yield right, f"{row['exposed']} exposed: {rate:.2%} of the names wrong, {row['draws']} draws"


def nulls(rows: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    """Games without members: one in twenty at most, with three standard deviations for chance."""
    games = sum(row["games"] for row in rows)
    yield games >= DRAWS, f"{games} games"
    most = LEVEL * games + 3 * np.sqrt(LEVEL * (1 - LEVEL) * games)
    for word in ("rate above", "area above", "somebody named"):
        count = sum(row[word] for row in rows)
        yield count <= most, f"{word} in {count}"


def coverage(rows: Row) -> Iterator[tuple[bool, str]]:
    """Every interval in at least 94 % of 500 draws, with two standard deviations for chance."""
    yield not rows["missing"], f"{rows['missing']} pieces missing"
    tables = [*rows["known scores"], *rows["ridge classifiers"], *rows["groups"].values()]
    apart = {"targets", "draws", "true area", "true rate"}
    shares = [value for row in tables for name, value in row.items() if name not in apart and value is not None]
    least, draws = min(shares, default=0.0), min(row["draws"] for row in tables)
    yield draws >= 500, f"{draws} draws"
    yield least >= 0.94 - 2 * np.sqrt(0.94 * 0.06 / max(draws, 1)), f"least coverage {least:.1%}"


def confounded(rows: Sequence[Row]) -> Iterator[tuple[bool, str]]:
    """19 of 20 confounded splits called uninformative, 1 in 100 honest ones at most."""
    for row in rows:
        told = f"{row['split']} {row['uninformative']} of {row['seeds']}"
        if row["split"] == "honest":
            yield row["seeds"] >= 100 and row["uninformative"] <= 0.01 * row["seeds"], told
        else:
            yield row["seeds"] >= 20 and row["uninformative"] >= 0.95 * row["seeds"], told


def matrix(found: Row) -> str:
    """The matrix in a line: all cells, the default against the plain implementation, and forms against float64."""
    return f"matrix: {_said(_matrix(found))}"


def _matrix(found: Row) -> Iterator[tuple[bool, str]]:
    kinds = {row["kind"] for row in found["matrix"]}
    absent = f" (absent: {', '.join(found['absent'])})" if found["absent"] else ""
    yield len(kinds) >= KINDS, f"{len(kinds)} of {KINDS} kinds of model{absent}"
    yield not found["missing"], f"{found['missing']} cells missing"
    if not found["matrix"]:
        return
    for name in ("combined: below 0.9 of plain", "combined: forms below 0.9 of float64"):
        cells, beyond = found[name], found[f"{name} beyond chance"]
        told = f"{name}: {len(cells)}" + (f" ({'; '.join(cells)})" if cells else "")
        yield not beyond, f"{told}, {len(beyond)} by more than {found['errors']:g} standard errors"
    for fpr in ("0.01", "0.001"):
        plain, forms = found[f"plain: mean rate at {fpr}"], found[f"combined: mean rate at {fpr}"]
        told = ", ".join(f"{form} {value:.3f}" for form, value in forms.items())
        close = all(forms[form] >= 0.9 * forms["float64"] for form in forms if form != "labels")
        yield forms["float64"] >= 0.9 * plain and close, f"mean rate at {fpr}: plain {plain:.3f}, {told}"


def _said(lines: Iterator[tuple[bool, str]]) -> str:
    """MET where everything is, else SHORT and what is short first."""
    made = [(bool(right), text) for right, text in lines]
    short, fine = ([text for right, text in made if right is flag] for flag in (False, True))
    if not short:
        return f"MET. {'; '.join(fine)}."
    return f"SHORT: {'; '.join(short)}. {'Met: ' + '; '.join(fine) + '.' if fine else ''}".rstrip()
