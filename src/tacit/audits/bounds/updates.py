"""Epsilon of a repeated event, read from its single steps: every step of a few runs is a game of its own."""

from __future__ import annotations

from dataclasses import dataclass

from ...core import Counts, Event
from ...core.events import Repeat
from .exact import ExactCurve
from .families import Family
from .search import Search


@dataclass(frozen=True)
class UpdatesCurve(Family):
    """`Repeat(step, steps)`, judged by its steps: a factor that one step rules out is ruled out for all of them.

    Counts are over steps of runs with and of runs without the canary; epsilon is that of the whole event.
    """

    method = "all updates, exact test, trade-off curve"

    def read(self, counts: Counts, confidence: float) -> float:
        one = ExactCurve(repeated(self.event).event, self.adjacency, self.delta)
        search = Search(one.near(counts, confidence), stride=0.005)
        return self.reading(lambda s: one.ruled_out(s, counts, confidence), search)


def repeated(event: Event) -> Repeat:
    """The event as a repetition; anything else is one step."""
    return event if isinstance(event, Repeat) else Repeat(event, 1)
