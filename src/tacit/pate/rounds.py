"""The questions of a run, round by round: choose public inputs, count votes, draw answers, teach the student."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Source
from ..core.global_randomness import lent
from .aggregators import NOT_ANSWERED, Belief, Counts
from .asking import next_queries
from .design import Design
from .student import NotTaught, Predict, Shares, Student, constant
from .teachers import Teachers

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Chances:
    """Separate sources of randomness for the noise on votes, the choice of queries, and the student."""

    noise: Source
    choosing: Source
    teaching: Source


@dataclass(eq=False)
class Asked:
    """What has been asked and told so far; `labels` is -1 where a public input has none.

    `votes` are private: the counts of every round, and what the student had said.
    """

    labels: Rows
    answered: NDArray[np.bool_]
    student: Predict
    said: Shares | None = None
    """What the student of earlier rounds says of all public inputs; None where there is none or it cannot be asked."""
    queries: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    votes: list[tuple[Counts, Belief | None]] = field(default_factory=list)

    @classmethod
    def nothing(cls, inputs: int, classes: int) -> Asked:
        return cls(np.full(inputs, NOT_ANSWERED, dtype=np.int64), np.zeros(inputs, dtype=bool), constant(None, classes))


def ask(
    teachers: Teachers, members: int, design: Design, public_x: Any, how: Student, choose: str, rounds: int, by: Chances
) -> Asked:
    """Ask `design.queries` of the public inputs in so many rounds; each teaches a student that the next may look at."""
    found = Asked.nothing(len(public_x), teachers.classes)
    for part in np.array_split(np.arange(design.queries), max(1, min(rounds, design.queries))):
        found.said = _said(found.student, public_x, teachers.classes) if found.queries.size else None
        rows = next_queries(public_x, part.size, found.queries, choose, found.said, by.choosing)
        _round(found, teachers.counts(public_x[rows]), members, design, rows, by.noise)
        found.queries = np.concatenate((found.queries, rows))
        found.student = _taught(how, public_x, found.labels, teachers.classes, by.teaching)
    return found


def _taught(how: Student, public_x: object, labels: Rows, classes: int, chance: Source) -> Predict:
    """A student. The labels are paid for and public, so an error of its training must not lose them."""
    generator = chance.generator()
    try:
        with lent(generator):
            return how.taught(public_x, labels, classes, generator)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return NotTaught(type(error).__name__)


def _said(student: Predict, public_x: Any, classes: int) -> Shares | None:
    """A student's shares for all public inputs. If it cannot be asked, the labels so far must not be lost."""
    try:
        found = np.asarray(student(public_x.copy()), dtype=np.float64)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None
    return found if found.shape == (len(public_x), classes) else None


def _round(found: Asked, counts: Counts, members: int, design: Design, rows: Rows, noise: Source) -> None:
    belief = None
    if design.aggregator.asks_student and found.said is not None:
        belief = Belief(found.said[rows], members)
    told = design.aggregator.told(counts, noise, design.answers - int(found.answered.sum()), belief)
    found.labels[rows], found.answered[rows] = told.labels, told.answered
    found.votes.append((counts, belief))
