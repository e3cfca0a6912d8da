"""A thousand members as dots: how many an attacker finds, and how many any attacker may find at most."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from ..core.sentence import better, better_elsewhere, strongest
from .node import Node, measured, percent, percent_at_most
from .subject import Subject

DOTS, COLUMNS, PITCH = 1000, 50, 10
USUAL = 0.01
"""The false-positive rate of the picture where no attack was measured: 1 in 100 outsiders."""
FOUND, CHANCE, OPEN = "found", "allowed", "rest"
NO_NOTE = Markup("")
GUESSING = (
    "Guessing finds as many members as it accuses outsiders: the attack is no better than guessing, as far as this "
    "sample can tell."
)
GUESSING_HERE = (
    "Guessing finds as many members as it accuses outsiders: at this rate the sample cannot tell the attack from "
    "guessing, at others it can."
)


@dataclass(frozen=True)
class Dots:
    """How many dots of each kind there are, a line about each kind, and a label for readers who cannot see them."""

    found: int | None
    allowed: int | None
    lines: tuple[tuple[str, Markup], ...]
    note: Markup = NO_NOTE

    @property
    def label(self) -> str:
        """The picture in words."""
        parts = [] if self.found is None else [f"{self.found} are filled, for members that the attack finds"]
        parts += (
            [] if self.allowed is None else [f"{self.allowed} are filled or ringed, for the most that can be found"]
        )
        return f"{DOTS:,} dots for {DOTS:,} members, of which {' and '.join(parts)}."

    @property
    def drawing(self) -> Markup:
        """Three paths of points: found, allowed beyond that, and the others."""
        found = self.found or 0
        most = max(found, self.allowed or 0)
        parts = ((FOUND, 0, found), (CHANCE, found, most), (f"{CHANCE} inner", found, most), (OPEN, most, DOTS))
        paths = (Markup('<path class="{}" d="{}"/>').format(name, _points(a, b)) for name, a, b in parts if a < b)
        size = f"0 0 {COLUMNS * PITCH} {DOTS // COLUMNS * PITCH}"
        return Markup('<svg viewBox="{}" aria-hidden="true" focusable="false">{}</svg>').format(
            size, Markup("").join(paths)
        )


def dots(subject: Subject) -> Dots | None:
    """The strongest attack at the lowest rate that the sample supports, and the claim's limit; None without either."""
    best = strongest(subject.evidence)
    if best is None:
        return _limit_alone(subject)
    measurement, fpr, estimate = best
    item = subject.node["measurements"][subject.evidence.measurements.index(measurement)]
    row = next(row for row in item["tpr_at_fpr"] if row["fpr"].value == fpr)
    limit = subject.allowed(fpr)
    found = Markup(
        "found by the attack {}: {} of the members ({} to {}), while it wrongly accuses {} of the outsiders"
    ).format(item["attack"].text(), *(row[key].number(measured) for key in ("value", "lower", "upper")), _rate(row))
    note = Markup('<span data-guessing="{}">{}</span>').format(
        row.path, GUESSING_HERE if better_elsewhere(subject.evidence) else GUESSING
    )
    return Dots(
        round((estimate.value or 0.0) * DOTS),
        None if limit is None else _up(limit.value),
        ((FOUND, found), *_allowed(subject, limit)),
        NO_NOTE if better(fpr, estimate) else note,
    )


def _limit_alone(subject: Subject) -> Dots | None:
    limit = subject.allowed(USUAL)
    if limit is None:
        return None
    frontier = subject.node["claim"]["frontier"]
    place = next(index for index, point in enumerate(frontier.value) if point[1] == limit.value)
    rate = frontier[place][0].number(percent)
    words = Markup("the most that any attacker who wrongly accuses {} of the outsiders can find, by the {}: {}")
    line = words.format(rate, _word(subject), limit.number(percent_at_most))
    return Dots(None, _up(limit.value), ((CHANCE, line),))


def _allowed(subject: Subject, limit: Node | None) -> tuple[tuple[str, Markup], ...]:
    if limit is None:
        return ()
    words = Markup("the most that any such attacker can find, by the {}: {}")
    return ((CHANCE, words.format(_word(subject), limit.number(percent_at_most))),)


def _up(share: float) -> int:
    """How many dots hold a share of the members, rounded up but for the last digits of the arithmetic."""
    return math.ceil(share * DOTS - 1e-9)


def _word(subject: Subject) -> str:
    return "proof" if subject.proven else "claim"


def _rate(row: Node) -> Markup:
    return row["fpr"].number(percent)


def _points(first: int, last: int) -> str:
    """Strokes without length: their round caps are the dots."""
    half = PITCH // 2
    return "".join(
        f"M{index % COLUMNS * PITCH + half} {index // COLUMNS * PITCH + half}h0" for index in range(first, last)
    )
