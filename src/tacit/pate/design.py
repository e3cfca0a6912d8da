"""What a PATE run may ask and answer, and what that costs: public numbers, fixed before any vote is counted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core import Adjacency, BadInput, Bound, Event, check
from ..core.events import Compose
from ..core.shown import at_most
from ..loss import privacy_loss
from ..loss.conditions import upper_bound
from .aggregators import Aggregator, LNMax

METHOD = "privacy accounting"
ONE_TEACHER = (
    "every record, or every user where users are given, is seen by one teacher, and shards do not depend on it; "
    "nothing else that teachers share (start weights, scaling of features, settings) was made from private records"
)
PUBLIC_INPUTS = (
    "the inputs that are asked about are public, and so are the classes and the numbers of teachers and queries"
)
ENOUGH = "there are at least as many records as teachers: fewer are refused"
PLANNED = "releases of the run's own cost were planned before anything of the run was seen"
ONLY_LABELS = "only the answers and what is made of them are seen: neither the votes nor the teachers"


@dataclass(frozen=True)
class Design:
    """`queries` questions, at most `answers` of which the teachers answer, and the bound of both together."""

    aggregator: Aggregator
    queries: int
    answers: int
    delta: float
    adjacency: Adjacency
    unit: str = "record"
    releases: tuple[Event, ...] = ()
    """What was released about the run's own cost."""
    assumes: tuple[str, ...] = ()
    """What else the claim rests on."""

    @property
    def event(self) -> Event:
        """The run and what was released about it."""
        run = self.asked(self.adjacency)
        return Compose((run, *self.releases)) if self.releases else run

    def asked(self, adjacency: Adjacency) -> Event:
        """The run alone, as it counts under an adjacency."""
        return self.aggregator.event(self.queries, self.answers, adjacency)

    @property
    def epsilon(self) -> float:
        return privacy_loss(self.event, self.adjacency).epsilon(self.delta).upper

    @property
    def bound(self) -> Bound:
        """Whatever the votes are. Reference: docs/proofs/pate.md, Theorem 2."""
        planned = (PLANNED,) if self.releases else ()
        believed = (ONE_TEACHER, *self.assumes, PUBLIC_INPUTS, ENOUGH, ONLY_LABELS, *planned)
        return upper_bound(
            self.epsilon, self.delta, self.event, self.adjacency, method=METHOD, unit=self.unit, more=believed
        )


def designed(
    aggregator: Aggregator,
    *,
    available: int,
    queries: int | None,
    answers: int | None,
    epsilon: float | None,
    delta: float,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    unit: str = "record",
    assumes: tuple[str, ...] = (),
) -> Design:
    """The design that asks `queries` of the `available` public records and keeps within epsilon.

    Without `queries` all are asked; without `answers` all may be answered, or as many as epsilon allows.
    """
    if not isinstance(aggregator, Aggregator):
        raise BadInput(
            f"aggregator must be an aggregation rule, got {type(aggregator).__name__}.",
            fix="Use GNMax, LNMax, ConfidentGNMax or InteractiveGNMax of tacit.pate.",
        )
    asked = available if queries is None else check.whole("queries", queries)
    if not 0 < asked <= available:
        raise BadInput(f"{asked} queries are wanted and there are {available} public records.")
    if check.delta(delta) == 0 and not isinstance(aggregator, LNMax):
        raise BadInput("Gaussian noise needs a delta above 0.", fix="Use LNMax, which is pure.")
    most = asked if answers is None else check.whole("answers", answers)
    made = Design(aggregator, asked, min(most, asked), float(delta), Adjacency.of(adjacency), unit, assumes=assumes)
    if epsilon is None:
        return made
    limit = check.positive("epsilon", epsilon)
    if made.epsilon <= limit:
        return made
    if answers is not None:
        raise BadInput(
            f"{made.queries} queries with {made.answers} answers cost epsilon {at_most(made.epsilon, 6)}, above "
            f"{limit:g}.",
            fix="Leave answers out, ask fewer, or add more noise.",
        )
    return _most_answers(made, limit)


def _most_answers(design: Design, epsilon: float) -> Design:
    """The largest number of answers that fits, by bisection: epsilon never falls with it."""

    def with_answers(number: int) -> Design:
        asked = number if design.aggregator.answers_all else design.queries
        return replace(design, queries=asked, answers=number)

    low, high = 0, design.answers
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if with_answers(middle).epsilon <= epsilon else (low, middle)
    if low == 0:
        raise BadInput(
            f"Not one answer fits into epsilon {epsilon:g}.", fix="Ask fewer queries, add more noise, or allow more."
        )
    return with_answers(low)
