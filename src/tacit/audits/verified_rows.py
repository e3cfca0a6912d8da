"""Rows of a verification: a stored number, or stored words, beside what the rest of the evidence gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .claims import STATED

TOLERANCE = 1e-6
"""Relative; another machine's floating point moves the last digits only."""
FACT, WORDS = "fact", "words"
"""Kinds of statements: what must follow from the evidence, and how this version would put it."""


@dataclass(frozen=True)
class Recomputed:
    """One stored number of the evidence beside the number that is recomputed from the evidence's parts.

    `recomputed` is None when the evidence stores nothing to compute it from. The two then agree only if the bound is
    somebody's statement without any proof.
    """

    method: str
    stored: float
    recomputed: float | None
    equal: bool

    @classmethod
    def of(cls, method: str, stored: float, recomputed: float | None) -> Recomputed:
        """A stored bound beside the one that is recomputed."""
        if recomputed is None:
            return cls(method, stored, None, method == STATED)
        close = stored == recomputed or math.isclose(stored, recomputed, rel_tol=TOLERANCE)
        return cls(method, stored, recomputed, close)


@dataclass(frozen=True)
class Statement:
    """A statement of the evidence that is no number, beside what the parts of the evidence say of it.

    A `kind` "fact" must follow. A "words" row compares wording alone: another version may put the same facts otherwise.
    """

    about: str
    stored: str
    recomputed: str
    equal: bool
    kind: str = FACT

    @classmethod
    def of(cls, about: str, stored: object, recomputed: object, kind: str = FACT) -> Statement:
        return cls(about, str(stored), str(recomputed), stored == recomputed, kind)

    @classmethod
    def holds(cls, about: str, expected: str, problem: str) -> Statement:
        """A relation between stored parts; `problem` is empty where it holds."""
        return cls(about, problem or expected, expected, not problem)


@dataclass(frozen=True)
class Verification:
    """Whether all that can be recomputed is as stored; `unchecked` is what only the data could confirm.

    `same_words` is False where the evidence's sentence is not the one that this version writes. Its facts are
    recomputed in any case, and decide about `ok`.
    """

    ok: bool
    bounds: tuple[Recomputed, ...]
    unchecked: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()

    @property
    def same_words(self) -> bool:
        """Whether sentences are worded as this version words them; it does not decide about `ok`."""
        return all(row.equal for row in self.statements if row.kind == WORDS)
