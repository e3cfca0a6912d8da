"""The numbers under the ROC chart: few enough to read, each at its place in the JSON."""

from __future__ import annotations

from .node import Node, measured, percent, percent_at_most
from .roc_chart import thinned
from .subject import Subject
from .table import Cell, Column, Table

ROWS = 10


def roc_table(subject: Subject) -> Table:
    """About ten points of every curve, and of the claim's frontier where nothing was measured."""
    name, limit = f"roc-{subject.index + 1}", Column("The claim allows", ("allowed",))
    limited = [limit] if subject.evidence.claim is not None and subject.evidence.claim.frontier else []
    rows = [_row(subject, item, point) for item in subject.node["measurements"] for point in _kept(item["roc"])]
    if not rows and subject.claim:
        points = [[_rate(point[0]), _most(point[1])] for point in _kept(subject.claim["frontier"])]
        return Table(
            name, "Points of the limit", [Column("False-positive rate", ("fpr",)), limit], points, subject.title
        )
    columns = [
        Column("Attack", ("attack",), numeric=False),
        Column("False-positive rate", ("fpr",)),
        Column("True-positive rate", ("tpr",)),
        Column("Interval", ("lower", "upper")),
    ]
    return Table(name, "Points of the ROC curves", columns + limited, rows, subject.title)


def _kept(points: Node) -> list[Node]:
    """The thinned points, found again by their index."""
    chosen = thinned([(point[0], index) for index, point in enumerate(points.value)], ROWS)
    return [points[index] for _, index in chosen]


def _row(subject: Subject, item: Node, point: Node) -> list[Cell]:
    allowed = subject.allowed(point[0].value)
    interval = point[2].number(measured) + " to " + point[3].number(measured)
    return [
        Cell(item["attack"].text(), (item["attack"].value,)),
        _rate(point[0]),
        Cell(point[1].number(measured), (point[1].value,)),
        Cell(interval, (point[2].value, point[3].value)),
        *([_most(allowed)] if allowed else []),
    ]


def _rate(node: Node) -> Cell:
    return Cell(node.number(percent), (node.value,))


def _most(node: Node) -> Cell:
    return Cell(node.number(percent_at_most), (node.value,))
