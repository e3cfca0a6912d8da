"""Which people a log of exact answers discloses: sums over sets that differ by one person, and all their combinations.

A person's value is determined when some combination of the asked sets is that person alone: when the unit vector of the
person lies in the row space of the sets. Refusing small sets does not help: the difference of two large ones is small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, check

Floats = NDArray[np.float64]
MOST = 5000
"""Different people of a log that are looked at; its queries times its people are at most the square."""
ROUNDING = 1e-9
"""How far answers may be from sums of people's values, beside the largest answer: they are numbers of few digits."""
LARGEST = 1e300
"""An answer beyond it is no sum of people's values; differences of such numbers would not be finite."""


@dataclass(frozen=True)
class Asked:
    """A query of a log: the sum or count over a set of people, and its answer."""

    people: frozenset[Hashable]
    answer: float


@dataclass(frozen=True)
class Disclosed:
    """A person whose value the answers determine, with the queries that do it: their weights add up to the value."""

    person: Hashable
    value: float
    queries: tuple[tuple[int, float], ...]

    @property
    def sentence(self) -> str:
        """How it is done, without the value."""
        places = [f"{'+' if weight > 0 else '-'} answer {place + 1}" for place, weight in self.queries[:6]]
        more = f" and {len(self.queries) - 6} more" if len(self.queries) > 6 else ""
        return f"{' '.join(places).removeprefix('+ ')}{more}"


def differencing(log: Sequence[Asked], *, tolerance: float = 1e-8) -> list[Disclosed]:
    """Everybody whose value follows from the answers, in the order in which they first appear."""
    return solved(log, tolerance=tolerance)[0]


def solved(log: Sequence[Asked], *, tolerance: float = 1e-8) -> tuple[list[Disclosed], set[int]]:
    """Everybody whose value follows from the answers, and the places of answers that contradict others."""
    log = checked_log(log)
    people = list(dict.fromkeys(person for query in log for person in sorted(query.people, key=repr)))
    if len(people) > MOST:
        raise BadInput(f"The log is about {len(people):,} people; at most {MOST:,} are looked at.")
    if len(log) * len(people) > MOST**2:
        raise BadInput(f"{len(log):,} queries about {len(people):,} people are too many.", fix="Give parts of the log.")
    place = {person: k for k, person in enumerate(people)}
    matrix = np.zeros((len(log), len(people)))
    for row, query in enumerate(log):
        matrix[row, [place[person] for person in query.people]] = 1.0
    left, size, right = _spaces(matrix)
    weights = _weights(left, size, right, tolerance)
    answers = np.array([query.answer for query in log], dtype=np.float64)
    found = []
    for k, person in enumerate(people):
        if (own := weights[k]) is not None:
            used = tuple((int(row), float(own[row])) for row in np.flatnonzero(np.abs(own) > 1e-6))
            found.append(Disclosed(person, float(own @ answers), used))
    scale = float(np.abs(answers).max()) or 1.0
    rest = answers / scale - left @ (left.T @ (answers / scale))
    return found, set(np.flatnonzero(np.abs(rest) > ROUNDING).tolist())


def checked_log(log: object) -> list[Asked]:
    """The queries of a log as a list; each answer is a finite number."""
    found = list(log) if isinstance(log, Iterable) else []
    if not found or not all(isinstance(query, Asked) for query in found):
        raise BadInput("A log is a list of queries, at least one: [Asked(people, answer), ..].")
    for number, query in enumerate(found, start=1):
        if not abs(check.real(f"answer {number}", query.answer)) <= LARGEST:
            raise BadInput(f"Query {number} of the log needs an answer: a number.")
    return found


def _spaces(matrix: Floats) -> tuple[Floats, Floats, Floats]:
    """U, S and V' of the singular value decomposition Q = U S V', without singular values that are 0."""
    left, size, right = np.linalg.svd(matrix, full_matrices=False)
    kept = size > max(matrix.shape) * np.finfo(float).eps * size.max(initial=0.0)
    return left[:, kept], size[kept], right[kept]


def _weights(left: Floats, size: Floats, right: Floats, tolerance: float) -> list[Floats | None]:
    """For every person the combination of queries that is that person alone; None where there is none.

    The projection of e_k on the row space of Q is V V' e_k; it is e_k itself when its k-th entry is 1, and then
    w = U S^-1 V' e_k has Q' w = e_k.
    """
    inside = (right**2).sum(axis=0)
    return [left @ (right[:, k] / size) if inside[k] > 1 - tolerance else None for k in range(right.shape[1])]


def read_log(data: object) -> list[Asked]:
    """A log in JSON: {"queries": [{"people": [..], "answer": 3.0}, ..]}."""
    queries = data.get("queries") if isinstance(data, dict) else None
    if not isinstance(queries, list) or not queries:
        raise BadInput('A query log is JSON: {"queries": [{"people": [1, 2], "answer": 3}]}.')
    found = []
    for number, item in enumerate(queries, start=1):
        people, answer = (item.get(name) for name in ("people", "answer")) if isinstance(item, dict) else (None, None)
        if not isinstance(people, list) or not all(type(person) in (str, int) for person in people):
            raise BadInput(f"Query {number} of the log needs people: a list of names or numbers.")
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not abs(answer) <= LARGEST:
            raise BadInput(f"Query {number} of the log needs an answer: a number.")
        found.append(Asked(frozenset(people), float(answer)))
    return found
