"""A PATE run that a run file describes: who is private, who is asked about, and who tests the student."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Adjacency, BadInput, check
from ..core.arrays import Array
from ..data import NAMES, Records
from ..pate import PATE, Aggregator, ConfidentGNMax, GNMax, InteractiveGNMax, LNMax, Network
from ..pate.student import NotTaught, student_of
from ..pate.trainings import as_training
from ..train.recipe.networks import KINDS
from ..train.weights import Form
from .holdout import in_value_order, training_rows
from .run_file import RunFile
from .run_training import baseline, maker
from .training import optimizer

Mask = NDArray[np.bool_]
AGGREGATORS: dict[str, type[Aggregator]] = {
    "gnmax": GNMax,
    "lnmax": LNMax,
    "confident-gnmax": ConfidentGNMax,
    "interactive-gnmax": InteractiveGNMax,
}
RULE = ("threshold", "noise_select", "noise_answer", "reinforce")
STUDENTS = ("supervised", "semi-supervised", "linear", "mlp")
SETTINGS = ("teachers", "queries", "answers", "choose", "rounds")


@dataclass(frozen=True, eq=False)
class PateRun:
    """Records, which of them are private, which public ones are asked about and which test the student."""

    estimator: PATE
    records: Records
    inside: Mask
    asked: NDArray[np.int64]
    held_out: NDArray[np.int64]

    @classmethod
    def of(
        cls, file: RunFile, records: Records, make: Callable[..., Any] | None, inside: Mask | None = None, **more: Any
    ) -> PateRun:
        """From [pate], [model] and [plan]. `make` is what [model] make or fit names.

        Private are the `members` of [data], or about nine records in ten (`holdout`); `inside` says who was private in
        an earlier run. The others are public. Of these the first `queries` (or half) may be asked about, and the rest
        test the student.
        """
        table, plan = file.get("pate"), file.get("plan")
        if extra := sorted(plan.keys() - {"epsilon", "delta", "adjacency"}):
            raise BadInput(f"[plan] of a PATE run holds epsilon, delta and adjacency; {', '.join(extra)} must go.")
        inside = training_rows(records, plan.get("adjacency", "add-remove")) if inside is None else inside
        public = np.flatnonzero(~inside)
        wanted = int(table.get("queries", max(1, public.size // 2)))
        if wanted > public.size:
            raise BadInput(f"{wanted} queries are wanted and only {public.size} records are public.")
        student = str(table.get("student", STUDENTS[0]))
        if student not in STUDENTS:
            raise BadInput(f"student in [pate] must be one of {', '.join(STUDENTS)}, got {student!r}.")
        classes = _classes(file, records, table)
        estimator = PATE(
            _teacher(file, records, make, classes), student=student, aggregator=_aggregator(table),
            classes=range(classes), delta=check.delta(file.need("plan", "delta")),
            epsilon=plan.get("epsilon"), adjacency=plan.get("adjacency", "add-remove"),
            **{key: table[key] for key in SETTINGS if key in table}, **more,
        )  # fmt: skip
        return cls(estimator, records, inside, public[:wanted], public[wanted:])

    @property
    def private(self) -> tuple[Array, Array]:
        """The records that the teachers learn from."""
        return self.records.x[self._rows], self.records.y[self._rows]

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """Their places in the data; a split by values (`holdout`) comes with an order by values."""
        by_value = self.records.members is None and Adjacency.of(self.estimator.adjacency) is Adjacency.ADD_REMOVE
        return in_value_order(self.records, self.inside) if by_value else np.flatnonzero(self.inside)

    @property
    def users(self) -> Array | None:
        """The user of each record, where a person has several."""
        return None if self.records.unit is None else self.records.unit[self._rows]

    def fit(self) -> PATE:
        """Train, ask and teach; whoever calls this shows `advice_`."""
        self.estimator.warns = False
        return self.estimator.fit(*self.private, self.records.x[self.asked], self.users)

    def again(self) -> Callable[[Any, Any, np.random.Generator], PATE]:
        """The whole run as fit(x, y, rng), for an audit and for reference models."""
        return self.estimator.training(self.records.x[self.asked], self.users)

    def student_module(self) -> Any:
        """A fresh module of the student's architecture; None where it is no network."""
        how = student_of(self.estimator.student, self.estimator.teacher)
        made = as_training(getattr(how, "how", None), self.records.x, len(list(self.estimator.classes or ())))
        return made.make() if isinstance(made, Network) else None

    def form(self, file: RunFile) -> Form:
        """How the student is built, for the header of its weights: by its own name, or as its teachers are."""
        own, classes = self.estimator.student, len(list(self.estimator.classes or ()))
        kind = own if own in KINDS else file.get("model").get("kind")
        return Form.of_records(kind, self.records, classes)

    def student_accuracy(self) -> float | None:
        """On public records that were not asked about."""
        rows = self.held_out
        if not rows.size or isinstance(self.estimator._student, NotTaught):
            return None
        return float(np.mean(self.estimator.predict(self.records.x[rows]) == self.records.y[rows]))

    def baseline(self) -> float | None:
        """The share of those records that the most frequent class has."""
        return baseline(self.records.y[self.held_out]) if self.held_out.size else None

    def teacher_accuracy(self) -> float | None:
        """Of a teacher on average, on the same records: for the operator, since no noise covers it."""
        rows = self.held_out if self.held_out.size else self.asked
        votes = self.estimator.teacher_votes().each(self.records.x[rows])
        return float(np.mean(votes == self.records.y[rows][:, None]))


def _aggregator(table: dict[str, object]) -> Aggregator:
    name = str(table.get("aggregator", "confident-gnmax"))
    spelled = {key.replace("-", ""): kind for key, kind in AGGREGATORS.items()}
    kind = spelled.get(name.lower().replace("-", "").replace("_", ""))  # the names of the classes will do, too
    if kind is None:
        raise BadInput(f"The aggregator {name!r} is not known.", fix=f"Use one of: {', '.join(AGGREGATORS)}.")
    given = {key: table[key] for key in RULE if key in table}
    known = set(kind.__dataclass_fields__)
    if unknown := sorted(given.keys() - known):
        raise BadInput(f"{name} has no {' and no '.join(unknown)}.", fix=f"It takes {', '.join(sorted(known))}.")
    return kind(**given)


def _classes(file: RunFile, records: Records, table: dict[str, Any]) -> int:
    """How many classes there are, by what is public: never by the largest label that somebody has."""
    if "classes" in table:
        return check.whole("classes", table["classes"], least=2)
    words = file.get("data").get("categories", {}).get(file.get("data").get("label"))
    if words is not None:
        return len(words)
    if records.schema is None and records.name not in NAMES:
        raise BadInput(
            "The list of classes must be public: reading it off the labels would be a release.",
            fix="Give `classes` (their number) in [pate], a schema, or the label's words as categories in [data].",
        )
    return records.classes


def _teacher(file: RunFile, records: Records, make: Callable[..., Any] | None, classes: int) -> Any:
    if "fit" in file.get("model"):
        return make
    table = file.get("pate")
    steps: dict[str, Any] = {key: int(table[key]) for key in ("steps", "batch_size") if key in table}
    descent = optimizer(file.get("train")) if file.get("train") else None
    return Network(maker(file, records, make, classes), optimizer=descent, **steps)
