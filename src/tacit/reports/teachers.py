"""The page's section about PATE: how many teachers voted, by which rule, and what was told of their answers."""

from __future__ import annotations

from markupsafe import Markup

from .node import Node
from .subject import Subject
from .table import Cell, Column, Table

METHOD = "PATE"
ROWS = ("teachers", "aggregation", "queries", "answers at most", "answers given")
DEPENDENT = "data-dependent epsilon"
"""A number that was released with noise and a charge of its own: for these records alone, and no claim."""


def teachers(subject: Subject) -> Table | None:
    """What a student's evidence says of its teachers; None where the model was not taught by PATE."""
    found = subject.node["provenance"]
    if found.value.get("method") != METHOD:
        return None
    columns = (Column("What", ("name",), numeric=False), Column("Value", ("value",), numeric=False))
    keys = [key for key in ROWS if key in found.value]
    keys += [key for key in found.value if key.startswith(DEPENDENT)]
    rows = [[Cell.words(_titled(key)), _cell(found[key])] for key in keys]
    return Table(f"teachers-{subject.index + 1}", "Teachers, votes and answers", columns, rows, subject.title)


def _titled(key: str) -> str:
    return key[0].upper() + key[1:]


def _cell(node: Node) -> Cell:
    return Cell(Markup(node.show()), (node.value,))
