"""Several models on one page: what each costs in accuracy and what each gives away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ..core.evidence import BLIND_BASELINE
from ..core.shown import at_least, at_most, significant
from .node import Node, measured, percent
from .subject import Subject
from .table import Cell, Column, Table
from .words import titled, verdict_title

ABSENT = Cell(Markup('<span class="quiet">not measured</span>'), ("",))
NOTHING = Cell(Markup('<span class="quiet">nothing</span>'), ("",))


def common_rate(subjects: Sequence[Subject]) -> float | None:
    """The lowest false-positive rate at which every attacked model has a rate that its sample supports."""
    attacked = [subject.evidence.attacks for subject in subjects if subject.evidence.attacks]
    rates = [
        {fpr for item in measurements for fpr, estimate in item.tpr_at_fpr if estimate.value is not None}
        for measurements in attacked
    ]
    return min(set.intersection(*rates), default=None) if rates else None


def strongest(subject: Subject, fpr: float) -> tuple[Node, Node] | None:
    """The attack with the largest lower limit at `fpr`: its measurement and its row."""
    rows = [
        (item, row)
        for item in subject.node["measurements"]
        if item["attack"].value != BLIND_BASELINE
        for row in item["tpr_at_fpr"]
        if row["fpr"].value == fpr and row["value"].value is not None
    ]
    return max(rows, key=lambda pair: (pair[1]["lower"].value, pair[1]["value"].value), default=None)


def utilities(subjects: Sequence[Subject]) -> list[str]:
    """Every utility that any model names, in order of first appearance."""
    return list(dict.fromkeys(name for subject in subjects for name in subject.evidence.utility))


def comparison_table(subjects: Sequence[Subject]) -> Table:
    """A column per model: verdict, utility, the strongest attack at the common rate, both bounds."""
    columns = [Column("Quantity", ("quantity",), numeric=False)]
    columns += [Column(s.name, (s.label,), numeric=False) for s in subjects]
    rows = [("Verdict", [_verdict(subject) for subject in subjects]), *_utility_rows(subjects)]
    rows += [*_leak_rows(subjects), *_bound_rows(subjects)]
    return Table("comparison", "Utility and leakage", columns, [[Cell.words(name), *cells] for name, cells in rows])


def _verdict(subject: Subject) -> Cell:
    return Cell(Markup(verdict_title(subject.evidence)), (subject.evidence.verdict.value,))


def utility_table(subject: Subject) -> Table:
    """Table of one model's utility, for a page with a single model."""
    columns = (Column("Utility", ("utility",), numeric=False), Column("Value", ("value",), numeric=False))
    rows = [[Cell.words(titled(name)), _merit(name, node)] for name, node in subject.node["utility"].items()]
    return Table(f"utility-{subject.index + 1}", "Utility", columns, rows, subject.title)


def _utility_rows(subjects: Sequence[Subject]) -> list[tuple[str, list[Cell]]]:
    def cell(subject: Subject, name: str) -> Cell:
        return _merit(name, subject.node["utility"][name]) if name in subject.evidence.utility else ABSENT

    return [(titled(name), [cell(subject, name) for subject in subjects]) for name in utilities(subjects)]


def _leak_rows(subjects: Sequence[Subject]) -> list[tuple[str, list[Cell]]]:
    fpr = common_rate(subjects)
    if fpr is None:
        return []
    found = [strongest(subject, fpr) for subject in subjects]

    def cells(pick: Callable[[Node, Node], Node], style: Callable[[float], str] | None) -> list[Cell]:
        nodes = [pick(*pair) if pair else None for pair in found]
        return [_cell(node, style) if node else ABSENT for node in nodes]

    return [
        ("Strongest attack", cells(lambda item, _: item["attack"], None)),
        ("Outsiders wrongly accused", cells(lambda _, row: row["fpr"], percent)),
        ("Members found", cells(lambda _, row: row["value"], measured)),
        ("lower limit", cells(lambda _, row: row["lower"], measured)),
        ("upper limit", cells(lambda _, row: row["upper"], measured)),
    ]


def _bound_rows(subjects: Sequence[Subject]) -> list[tuple[str, list[Cell]]]:
    def cell(node: Node | None, style: Callable[[float], str]) -> Cell:
        return _cell(node["bound"]["epsilon"], style) if node else NOTHING

    return [
        ("Epsilon demonstrated", [cell(subject.lower, at_least) for subject in subjects]),
        ("Epsilon claimed", [cell(subject.claim, at_most) for subject in subjects]),
    ]


def _cell(node: Node, style: Callable[[float], str] | None) -> Cell:
    shown = node.text() if style is None else node.number(style)
    return Cell(shown, ("" if node.value is None else node.value,))


def is_share(name: str, value: float) -> bool:
    """Whether a figure of merit is a share of records; a loss is not, however small."""
    return 0 <= value <= 1 and "loss" not in name


def _merit(name: str, node: Node) -> Cell:
    """A share as a percentage, any other figure of merit as it is."""
    return _cell(node, percent if is_share(name, node.value) else significant)
