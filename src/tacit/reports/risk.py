"""Tables below the average: records, groups, and the budget step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ..core.shown import at_most, significant
from .node import Node, count, measured, rounded_percent
from .subject import Subject
from .table import Cell, Column, Table

NONE = Markup('<span class="quiet">none</span>')
CONFIDENCE = Column("Confidence, each", ("confidence",))


def groups(subject: Subject) -> Table:
    """Advantage of the attack on every group, and how surely it differs from the rest."""
    columns = (
        Column("Group", ("group",), numeric=False),
        Column("Advantage of the attack", ("advantage",)),
        Column("Interval", ("lower", "upper")),
        CONFIDENCE,
        Column("Rows judged", ("n",)),
        Column("p-value of no difference, corrected", ("p_value",)),
    )
    rows = [
        [
            Cell(item["group"].text(), (item["group"].value,)),
            *_estimate(item["advantage"], item["confidence"]),
            _number(item["advantage"]["n"], count),
            _number(item["p_value"], significant),
        ]
        for item in subject.node["groups"]
    ]
    return Table(f"groups-{subject.index + 1}", "Risk of groups", columns, rows, subject.title)


def exposures(subject: Subject) -> Table:
    """The most exposed records, by their row in the data."""
    columns = (
        Column("Record (row of the data)", ("record",), numeric=False),
        Column("Surely recognised more often when it is in", ("memorisation",)),
        Column("Interval", ("lower", "upper")),
        CONFIDENCE,
        Column("Models that judged", ("n",)),
    )
    rows = [
        [
            _number(item["record"], str),
            *_estimate(item["memorisation"], item["confidence"]),
            _number(item["memorisation"]["n"], count),
        ]
        for item in subject.node["exposures"]
    ]
    return Table(f"records-{subject.index + 1}", "The most exposed records", columns, rows, subject.title)


def distribution(subject: Subject) -> Table:
    """How many records have which memorisation."""
    columns = (
        Column("Memorisation from", ("lower",)),
        Column("to below", ("upper",)),
        Column("Records", ("records",)),
    )
    return _plain(subject, "risk", "Records by their memorisation", columns, (significant, significant, count))


def budget(subject: Subject) -> Table:
    """Epsilon that is proven after so many steps."""
    columns = (Column("Steps", ("step",)), Column("Epsilon, at most", ("epsilon",)))
    return _plain(subject, "budget", "Privacy over training", columns, (count, at_most))


def _plain(
    subject: Subject, part: str, caption: str, columns: Sequence[Column], styles: Sequence[Callable[[float], str]]
) -> Table:
    rows = [
        [_number(item[column.names[0]], style) for column, style in zip(columns, styles, strict=True)]
        for item in subject.node[part]
    ]
    return Table(f"{part}-{subject.index + 1}", caption, columns, rows, subject.title)


def _estimate(node: Node, confidence: Node) -> tuple[Cell, Cell, Cell]:
    level = _number(confidence, rounded_percent)
    if node["value"].value is None:
        return Cell(node["note"].text(), (node["note"].value,)), Cell(NONE, ("", "")), level
    interval = node["lower"].number(measured) + " to " + node["upper"].number(measured)
    return _number(node["value"], measured), Cell(interval, (node["lower"].value, node["upper"].value)), level


def _number(node: Node, style: Callable[[float], str]) -> Cell:
    return Cell(node.number(style), ("" if node.value is None else node.value,))
