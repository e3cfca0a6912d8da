"""What others have promised: published deployments of differential privacy, each with a source that can be cited.

Figures stand here only where the source states epsilon and the unit. They are no standard: promises about different
units, with noise added on a device or by a curator, cannot be compared by epsilon alone (NIST SP 800-226).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from ..core.shown import at_most, significant, small
from .subject import Subject
from .table import Cell, Column, Table


@dataclass(frozen=True)
class Deployment:
    """One published promise; `delta` is "none" for pure differential privacy."""

    name: str
    epsilon: float
    delta: str
    unit: str
    source: str


GBOARD = "Zhang and Xu, Google Research blog, 21 February 2024"
APPLE = "Apple, Differential Privacy Overview, after Desfontaines, A list of real-world uses"
DEPLOYMENTS = (
    Deployment("Google keyboard, next-word models: the lowest", 0.994, "1e-10", "one device", GBOARD),
    Deployment("Google, search trends of symptoms", 1.68, "none", "one user, one day", "arXiv 2009.01265, abstract"),
    Deployment("Apple, use of health types (noise on the device)", 2.0, "none", "one user, one day", APPLE),
    Deployment("Google, searches on vaccination", 2.19, "0.00001", "one user, one day", "arXiv 2107.01179, abstract"),
    Deployment("Apple, emoji suggestions (noise on the device)", 4.0, "none", "one user, one day", APPLE),
    Deployment("Google keyboard, next-word models: the highest", 13.69, "1e-10", "one device", GBOARD),
)


def deployments(subjects: Sequence[Subject]) -> Table | None:
    """The claims of this page among published ones, by epsilon; None where nothing finite is claimed."""
    mine = [(claim["bound"]["epsilon"].value, subject) for subject in subjects if (claim := subject.claim)]
    mine = [(epsilon, subject) for epsilon, subject in mine if epsilon is not None]
    if not mine:
        return None
    rows = [(item.epsilon, _published(item)) for item in DEPLOYMENTS]
    rows += [(epsilon, _own(subject)) for epsilon, subject in mine]
    columns = (
        Column("Release", ("release",), numeric=False),
        Column("Epsilon", ("epsilon",)),
        Column("Delta", ("delta",)),
        Column("Unit", ("unit",), numeric=False),
        Column("Source", ("source",), numeric=False),
    )
    cells = [row for _, row in sorted(rows, key=lambda pair: pair[0])]
    return Table("deployments", "Published deployments, by epsilon", columns, cells)


def _published(item: Deployment) -> list[Cell]:
    epsilon = Cell(Markup("<span data-fixed>{}</span>").format(significant(item.epsilon, 4)), (item.epsilon,))
    return [Cell.words(item.name), epsilon, *(_fixed(text) for text in (item.delta, item.unit, item.source))]


def _fixed(text: str) -> Cell:
    return Cell(Markup("<span data-fixed>{}</span>").format(text), (text,))


def _own(subject: Subject) -> list[Cell]:
    bound = subject.node["claim"]["bound"]
    return [
        Cell(Markup("<strong>{}</strong>").format(subject.name), (subject.label,)),
        Cell(Markup("<strong>{}</strong>").format(bound["epsilon"].number(at_most)), (bound["epsilon"].value,)),
        Cell(bound["delta"].number(small), (bound["delta"].value,)),
        Cell(Markup("one {}").format(bound["unit"].text()), (bound["unit"].value,)),
        Cell(escape("this page"), ("this page",)),
    ]
