"""PATE: teachers on disjoint shards vote on public inputs, noise hides each vote, and a student learns the answers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import Adjacency, BadInput, Bound, Charger, Event, Evidence, PrivacyWarning, Receipt, check, source
from ..core.arrays import Array
from .advice import advice
from .aggregators import Aggregator, ConfidentGNMax
from .asking import check_choice
from .design import Design, designed
from .paying import paid
from .records import Given
from .release import Release, releasing
from .rounds import Chances, ask
from .shards import shards, with_appended
from .smooth import Cost
from .student import NotTaught, Student, student_of
from .teachers import Teachers, train
from .trainings import Fit, Network, as_training
from .trying import assumed, tried

if TYPE_CHECKING:
    from ..reports import Page

PRIVATE = ("_teachers", "_votes", "_noise")
"""Parts of a run that must not leave with the student."""
TOTAL = np.errstate(all="ignore")
"""Under `numpy.seterr(all="raise")` one record's tiny value would stop a run that was paid for (soundness rule 8)."""
ONE_BY_ONE = (
    "No fleet can train this network (batch norm, recurrent layers and shared or frozen parameters are reasons), so "
    "the teachers are trained one at a time, which takes longer."
)


ONE_ROUND = (
    "An interactive rule compares the votes with the student of earlier rounds, and with rounds=1 there is none."
)


class PATE:
    """Private aggregation of teacher ensembles, as an estimator.

    `teacher` is an estimator, fit(x, y, rng), a torch module or a function that makes one, or a `Network`; `student` is
    the same, a `Student`, or None for one like the teacher. `queries` public inputs are asked about (None: all), and at
    most `answers` are answered (None: all, or as many as `epsilon` allows). `classes` lists the labels, which are
    public. `choose` says which public inputs are asked: "first", "random", "spread" (far apart) or "typical" (the
    middles of as many groups). With `rounds` above 1 later ones are those that the student of the rounds before is
    least sure of.

    Guarantee: `labels_`, the student and all it says, and whatever `release_bound` released, cost `bound_`, the cost of
    `event_` whatever the data are, charged to `ledger` before any noise is drawn.
    Caller ensures: one row per person, or `users` in `fit`; `public_x` and all arguments are public.
    Edge cases: a class that is missing in a shard, ties and a query without a confident answer are ordinary cases.
    Reference: Papernot et al. 2017 and 2018; docs/proofs/pate.md.
    """

    event_: Event
    bound_: Bound
    design_: Design
    labels_: NDArray[np.int64]
    receipt_: Receipt | None
    released_: tuple[Bound | None, ...]
    searched_: Evidence
    """Of the `tacit.search` that this run won, if it was one of its trials."""
    warns = True
    """Whether `fit` warns where few queries were answered; runs that are repeated, as audits do, are silent."""

    def __init__(
        self,
        teacher: object,
        *,
        student: object = None,
        teachers: int = 250,
        aggregator: Aggregator | None = None,
        queries: int | None = None,
        answers: int | None = None,
        epsilon: float | None = None,
        delta: float,
        classes: Sequence[object] | None = None,
        schema: object = None,
        adjacency: Adjacency | str = "add-remove",
        choose: str = "first",
        rounds: int = 1,
        ledger: Charger | None = None,
        random_state: int | np.random.Generator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.teacher, self.student, self.teachers = teacher, student, teachers
        self.aggregator = ConfidentGNMax() if aggregator is None else aggregator
        self.queries, self.answers, self.epsilon, self.delta = queries, answers, epsilon, delta
        self.classes, self.schema, self.adjacency = classes, schema, adjacency
        self.choose, self.rounds, self.ledger = choose, rounds, ledger
        self.random_state, self.progress = random_state, progress

    @TOTAL
    def fit(self, x: object, y: ArrayLike | None, public_x: object, users: ArrayLike | None = None) -> Self:
        """Train teachers on private (x, y), ask them about `public_x`, and teach the student.

        With a schema, x and public_x are tables, and y may be None where the schema names the label. Where few queries
        were answered, a warning says what to change (`advice_`).
        """
        self._forget()
        self.teachers = check.whole("teachers", self.teachers)
        given = Given.of(x, y, public_x, users, self.classes, self.schema)
        design = self._designed(given)
        chance = source(self.random_state)
        places, learning, *more = chance.spawn(5)
        by = Chances(*more)
        shard = shards(len(given.y), self.teachers, users=given.users, rng=places)
        teacher, how = self._tried(given)
        design = replace(design, assumes=assumed(teacher))
        self.classes_, self._given = given.classes, given.forgotten()  # what is kept or sent on carries no records
        self._charge(design, len(given.y))
        self._teachers = train(
            teacher, given.x, given.y, shard, teachers=self.teachers, classes=len(given.classes), rng=learning,
            progress=self.progress,
        )  # fmt: skip
        found = ask(self._teachers, self.teachers, design, given.public_x, how, self.choose, self.rounds, by)
        self.labels_, self.queries_, self._answered = found.labels, found.queries, found.answered
        self._student, self._votes = found.student, found.votes
        self._seeded, self._randomness, self._noise = not chance.cryptographic, chance.name, by.noise
        for told in (self.advice_, found.student.told if isinstance(found.student, NotTaught) else None):
            if self.warns and told is not None:
                warnings.warn(told, UserWarning, stacklevel=3)
        return self

    def predict(self, x: object) -> Array:
        """The student's labels."""
        shares = self.predict_proba(x)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    @TOTAL
    def predict_proba(self, x: object) -> NDArray[np.float64]:
        """The student's shares (records, classes), in the order of `classes_`."""
        self._fitted()
        return self._student(self._given.asked(x))

    def training(
        self, public_x: object, users: ArrayLike | None = None
    ) -> Callable[[object, ArrayLike, np.random.Generator], PATE]:
        """This run as fit(x, y, rng), which `tacit.audit`, `attack` and `bracket` repeat; no ledger is charged.

        `users` are those of the records of this run; records that an audit appends are new users. Other records, as
        those of reference models, are taken as one user each.
        """

        def fit(x: Any, y: Any, rng: np.random.Generator) -> PATE:
            again = copy.copy(self)
            again.ledger, again.progress, again.random_state, again.warns = None, None, rng, False
            return again.fit(x, y, public_x, with_appended(users, len(x)))

        return fit

    def evidence(self, *, utility: dict[str, float] | None = None) -> Evidence:
        """The claim with its event, who sees what, and what the proof does not cover."""
        from .evidence import evidence

        self._fitted()
        return evidence(self, utility or {})

    def report(self, path: str | Path = "report.html", **options: Any) -> Page:
        """Write the page about this student; see `tacit.report`."""
        import tacit

        return tacit.report(self.evidence(), path, **options)

    @TOTAL
    def release_bound(
        self, *, epsilon: float, propose: float | None = None, order: float | None = None, confidence: float = 0.999
    ) -> Bound | None:
        """Release the data-dependent cost of this run, with noise and a charge of its own.

        `epsilon` is what the release itself adds. With `propose`, an epsilon that is hoped for, it is tested whether
        the run cost at most that: the answer is that bound, or None. Without, an upper bound is released by smooth
        sensitivity. `order` is the Renyi order, a public choice. With probability `confidence` the bound is true. Each
        call is a new release: what several of them say does not cover each other.

        Guarantee: the release costs `Gaussian` (test) or `ApproximateDP` (smooth sensitivity), charged before the draw;
        `event_` and `bound_` count it from then on.
        Edge cases: after several rounds, or with an interactive rule, it is refused.
        """
        self._fitted()
        if "searched_" in vars(self):
            raise BadInput("This run was chosen among others, whose cost no bound of this run counts.")
        design = self.design_
        votes = self._held("_votes")
        if len(votes) > 1:
            raise BadInput(
                "Queries that were chosen by looking at earlier answers have no data-dependent bound here.",
                fix="Use rounds=1, or quote bound_.",
            )
        how, cost = self._releasing(design, len(self.classes_), epsilon, propose, order, confidence)
        paid(self.ledger, lambda adjacency: how.event(design.delta, adjacency), design.unit)
        self._claimed(replace(design, releases=(*design.releases, how.event(design.delta, design.adjacency))))
        counts = np.concatenate([counts for counts, _ in votes])
        found = how.drawn(cost, counts, self._noise)
        self.released_ = (*self.released_, None if found is None else how.bound(found, design))
        return self.released_[-1]

    def check_release(
        self,
        inputs: int,
        *,
        epsilon: float,
        propose: float | None = None,
        order: float | None = None,
        confidence: float = 0.999,
    ) -> None:
        """Refuse a `release_bound` that could not be made of a run with so many public inputs, before that is paid."""
        if self.rounds != 1:
            raise BadInput("A run of several rounds has no data-dependent bound here.", fix="Use rounds=1.")
        design = designed(
            self.aggregator, available=inputs, queries=self.queries, answers=self.answers, epsilon=self.epsilon,
            delta=self.delta, adjacency=self.adjacency,
        )  # fmt: skip
        classes = 2 if self.classes is None else len(list(self.classes))
        self._releasing(design, classes, epsilon, propose, order, confidence)

    def _releasing(
        self,
        design: Design,
        classes: int,
        epsilon: float,
        propose: float | None,
        order: float | None,
        confidence: float,
    ) -> tuple[Release, Cost]:
        how = releasing(design, epsilon=epsilon, propose=propose, order=order, confidence=confidence)
        return how, Cost.of(self.aggregator, check.whole("teachers", self.teachers), classes, how.order)

    @property
    def answered_(self) -> int:
        """How many queries the teachers answered: it follows from what was released."""
        return int(self._answered.sum())

    @property
    def advice_(self) -> str | None:
        """What to change to get more answers, where they are few; it follows from what was released."""
        self._fitted()
        asked = len(self.labels_) if self.queries is None else int(self.queries)
        return advice(self.design_, self.teachers, self.answered_, asked=asked, capped=self.answers is not None)

    def _designed(self, given: Given) -> Design:
        return designed(
            self.aggregator, available=len(given.public_x), queries=self.queries, answers=self.answers,
            epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, unit=given.unit,
        )  # fmt: skip

    def _tried(self, given: Given) -> tuple[Network | Fit, Student]:
        """Refuse settings and code that cannot work, before anything is paid for or any record is looked at."""
        check_choice(self.choose)
        if check.whole("rounds", self.rounds) == 1 and self.aggregator.asks_student:
            raise BadInput(ONE_ROUND, fix="Give rounds=3 or so, or use ConfidentGNMax.")
        if self.progress is not None and not callable(self.progress):
            raise BadInput(f"progress must be a function of two numbers, got {type(self.progress).__name__}.")
        how = student_of(self.student, self.teacher)
        teacher = tried(self.teacher, given.public_x, len(given.classes))
        if self.student is not None or isinstance(teacher, Network):  # else the student learns as the teacher was tried
            how.tried(given.public_x, len(given.classes))
        given_network = isinstance(as_training(self.teacher, given.public_x, len(given.classes)), Network)
        if self.warns and given_network and not isinstance(teacher, Network):
            warnings.warn(ONE_BY_ONE, UserWarning, stacklevel=4)
        return teacher, how

    def _charge(self, design: Design, records: int) -> None:
        """Fix the claim and pay for it; no noise was drawn yet."""
        self._claimed(design)
        self.released_ = ()
        if design.delta * records >= 1:
            warnings.warn(
                f"delta {design.delta:g} is not below one over the number of records.", PrivacyWarning, stacklevel=4
            )
        self.receipt_ = paid(self.ledger, design.asked, design.unit)

    def _won(self, evidence: Evidence, receipt: Receipt | None) -> None:
        """Take over the claim of the `tacit.search` that this run won: its own would not count the other trials."""
        if "_student" in vars(self) and evidence.claim is not None and evidence.claim.event is not None:
            self.event_, self.bound_, self.receipt_ = evidence.claim.event, evidence.claim.bound, receipt
            self.searched_ = evidence

    def _claimed(self, design: Design) -> None:
        self.design_, self.event_, self.bound_ = design, design.event, design.bound

    def _forget(self) -> None:
        """An earlier fit is gone: the next claim would not cover it."""
        for name in [name for name in vars(self) if name.endswith("_") or name.startswith("_")]:
            delattr(self, name)

    def __getstate__(self) -> dict[str, object]:
        """What a copy or a pickle holds: the student, and neither teachers, votes, noise, seed nor ledger."""
        gone: dict[str, Any] = {"ledger": None, "progress": None, "random_state": None}
        return {name: value for name, value in vars(self).items() if name not in PRIVATE} | gone

    def _held(self, name: str) -> Any:
        """A private part, which a copy does not have."""
        self._fitted()
        if name not in vars(self):
            raise BadInput("This is a copy, which holds neither the teachers nor their votes.", fix="Ask the original.")
        return vars(self)[name]

    def _fitted(self) -> None:
        if "_student" not in vars(self) or "queries_" not in vars(self):
            raise BadInput("This PATE has not been fitted.", fix="Call fit(x, y, public_x) first.")

    def teacher_votes(self) -> Teachers:
        """The trained teachers, for the operator: what they say of any input is private."""
        found: Teachers = self._held("_teachers")
        return found
