"""How a model's answers are read: labels, probabilities, logits or values, and at which resolution.

The target decides: its reference models are read in the same form and at the same resolution, so that a number of one
means what it means of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..core import BadInput, Observations, Resolution
from ..core.resolution import LEAST, are_shares

Array = NDArray[Any]
Floats = NDArray[np.float64]
KEPT = 2**25
"""Numbers (256 MiB) of answers that are kept whole; of more, only what they say of the true label."""
EXACT = 1e-6
"""A residual below this share of the labels' spread is none."""


class Form(StrEnum):
    """What a model answers with."""

    LABELS = "labels"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    VALUES = "values"


@dataclass(frozen=True, eq=False)
class Digest:
    """What one model says of every record's own label and of all others together, and what is added to its zeros."""

    own: Floats
    others: Floats
    added: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Reading:
    """How answers about records with `labels` are read; `labels` are column numbers, or a regression's values."""

    form: Form
    labels: Array
    classes: int = 0
    names: Array | None = None
    resolution: Resolution = field(default_factory=Resolution)

    @classmethod
    def of(
        cls,
        answer: Array,
        y: ArrayLike,
        names: Array | None = None,
        said: str = "auto",
        usual: Form | None = None,
    ) -> Reading:
        """Read off the target's own answer; `names` are its classes in order, `said` is what its owner says it is.

        `usual` is what such a model answers with, where its numbers alone could be two things.
        """
        y = np.asarray(y)
        if answer.ndim == 0 or len(answer) != len(y):
            raise BadInput("A model must answer with one row per record.")
        if names is not None and len(names) < 2:
            raise BadInput(
                "The model and all records have one class: it says the same of everybody.",
                fix="Give a model of at least two classes.",
            )
        if lost := _lost(answer):
            raise BadInput(f"The model answered with numbers that are not finite for {lost} of {len(y)} records.")
        answer = _of_one(answer)
        form = _form(answer, y, usual) if said == "auto" else _named(said)
        if form is Form.VALUES:
            return cls(form, _values(y))
        if form is Form.LABELS and names is None and not _column_numbers(y, answer):
            names = np.union1d(np.unique(answer), np.unique(y))
        columns = _columns(answer, form, names, y)
        labels, names = _labels(y, columns, names, form)
        made = cls(form, labels, columns, names)
        if form is Form.PROBABILITIES:
            return cls(form, labels, columns, names, Resolution.of(made.table(answer)))
        return made

    def table(self, answer: Array) -> Array:
        """One answer as records x classes: shares or logits; one column, or predicted labels, are written out."""
        if len(answer) != len(self.labels):
            raise BadInput("A model must answer with one row per record.")
        if self.form is Form.LABELS:
            return self._one_hot(answer)
        if answer.dtype.kind not in "fiu" or not np.isfinite(answer).all():
            raise BadInput("A model answered with numbers that are not finite.")
        answer = _of_one(answer)
        if answer.ndim == 2 and answer.shape[1] == 1:
            answer = answer[:, 0]
        if answer.ndim == 1:
            zero = np.zeros_like(answer) if self.form is Form.LOGITS else 1 - answer
            answer = np.stack((zero, answer), axis=1)
        if answer.ndim != 2 or answer.shape[1] != self.classes:
            raise BadInput(
                "A model must answer with one row per record and one column per class, every model with as many.",
                fix="Or with one whole number per record: the label it predicts.",
            )
        return answer

    def keeping(self, models: int) -> Callable[[Array], Any]:
        """What is kept of so many models' answers: all where memory allows it, else what is said of the true label."""
        large = models * len(self.labels) * self.classes > KEPT
        return self.digest if large and self.form in (Form.PROBABILITIES, Form.LOGITS) else _whole

    def digest(self, answer: Array) -> Digest:
        """The true label's share and all others' together (of logits: their logarithms), and the smallest step."""
        table, rows = self._like_the_target(answer), np.arange(len(self.labels))
        if self.form is Form.LOGITS:
            z = table.astype(np.float64)
            own = z[rows, self.labels]
            z[rows, self.labels] = -np.inf
            return Digest(own, special.logsumexp(z, axis=1), (LEAST,))
        shown = self.resolution.shown(table)
        added, own = Resolution.of(shown).added, shown[rows, self.labels]
        shown[rows, self.labels] = 0.0
        return Digest(own, shown.sum(axis=1), added)

    def observe(self, answers: Sequence[Any], member: ArrayLike, read: Resolution | None = None) -> Observations:
        """Signals of several models on the same records."""
        if self.form is Form.VALUES:
            return residuals(answers, self.labels, np.asarray(member, dtype=bool))
        if isinstance(answers[0], Digest):
            return self._digested(answers, member, self.resolution if read is None else read)
        tables = [self._like_the_target(answer) for answer in answers]
        if self.form is Form.LOGITS:
            return self._small(Observations.from_logits, tables, member)
        resolution = self.resolution if read is None else read
        return self._small(Observations.from_probabilities, tables, member, resolution=resolution)

    def _digested(self, answers: Sequence[Digest], member: ArrayLike, read: Resolution) -> Observations:
        own, others = (np.stack([getattr(part, name) for part in answers], axis=1) for name in ("own", "others"))
        if self.form is Form.PROBABILITIES:
            own, others = read.logarithms(own, others, self.labels, self.classes)
        return Observations.from_margin(own - others, label=self.labels, member=member)

    def coarsest(self, answers: Sequence[Any]) -> Resolution:
        """The target's resolution, or that of other models on the same records where theirs is coarser."""
        if self.form is not Form.PROBABILITIES or not answers:
            return self.resolution
        steps = [self._step(answer) for answer in answers]
        width = max(len(each) for each in steps)
        some = [np.broadcast_to(each, width) for each in steps if max(each) > LEAST]
        return self.resolution.joined(Resolution(tuple(np.median(some, axis=0).tolist()))) if some else self.resolution

    def _step(self, answer: Any) -> tuple[float, ...]:
        if isinstance(answer, Digest):
            return answer.added
        return Resolution.of(self.resolution.shown(self._like_the_target(answer))).added

    def _like_the_target(self, answer: Array) -> Array:
        """Another model's answer in the target's form: shares for shares, the likeliest label for labels."""
        if self.form is Form.LABELS:
            return self._one_hot(answer)
        table = self.table(answer)
        shares = are_shares(table)
        if self.form is Form.PROBABILITIES and not shares:
            return np.asarray(special.softmax(table.astype(np.float64), axis=1))
        if self.form is Form.LOGITS and shares:
            return np.log(np.maximum(table.astype(np.float64), np.finfo(np.float64).tiny))
        return table

    def _one_hot(self, answer: Array) -> Array:
        """1 for the predicted label, 0 for the others; of answers with one column per class, for the largest."""
        if answer.ndim == 2 and answer.shape[1] > 1:
            return np.eye(self.classes)[answer.argmax(axis=1)]
        told = answer.ravel()
        if self.names is not None:
            place = np.minimum(np.searchsorted(self.names, told), len(self.names) - 1)
            if not (self.names[place] == told).all():
                raise BadInput("A model predicted a label that no record and no other answer has.")
            return np.eye(self.classes)[place]
        whole = told.astype(np.int64)
        if (whole != told).any() or whole.min(initial=0) < 0 or whole.max(initial=0) >= self.classes:
            raise BadInput("A model's predicted labels must be whole numbers from 0 on.")
        return np.eye(self.classes)[whole]

    def _small(self, build: Any, tables: Sequence[Array], member: ArrayLike, **more: Any) -> Observations:
        """All models at once where memory allows it, else one by one, without the answers themselves."""
        side = np.asarray(member, dtype=bool)
        side = side[:, None] if side.ndim == 1 else side
        if len(tables) == 1 or len(tables) * tables[0].size <= KEPT:
            return build(np.stack(tables, axis=1), self.labels, member=side, **more)  # type: ignore[no-any-return]
        margins = [build(table[:, None], self.labels, **more).need("margin") for table in tables]
        return Observations.from_margin(np.concatenate(margins, axis=1), label=self.labels, member=side)


def _whole(answer: Array) -> Array:
    return answer


def _lost(answer: Array) -> int:
    """How many records got an answer that is not finite."""
    if answer.dtype.kind != "f":
        return 0
    return int((~np.isfinite(answer.reshape(len(answer), -1))).any(axis=1).sum())


def _of_one(answer: Array) -> Array:
    """Shares of 100 as shares of 1; anything else as it is."""
    if answer.ndim != 2 or answer.shape[1] < 2 or answer.dtype.kind not in "fiu" or (answer < 0).any():
        return answer
    if answer.max(initial=0.0) <= 2.0 or are_shares(made := answer / 100.0) is not True:
        return answer
    return np.asarray(made)


def residuals(answers: Sequence[Array], y: Floats, member: NDArray[np.bool_]) -> Observations:
    """Signals of a regression: -log of the residual's size is its margin, its likelihood under a normal law the rest.

    The normal law's spread is that of the first model's residuals, for all models alike.
    """
    if any(answer.size != y.size or answer.dtype.kind not in "fiu" for answer in answers):
        raise BadInput("A regression must answer with one number per record.")
    told = np.stack([answer.reshape(-1).astype(np.float64) for answer in answers], axis=1)
    if not np.isfinite(told).all():
        raise BadInput("A model answered with numbers that are not finite.")
    gap, spread = np.abs(told - y[:, None]), max(float(np.std(y)), np.finfo(np.float64).tiny)
    scale = max(float(np.sqrt(np.mean(gap[:, 0] ** 2))), EXACT * spread)
    loss = 0.5 * (gap / scale) ** 2
    margin = -np.log(np.maximum(gap / spread, EXACT))
    side = member[:, None] if member.ndim == 1 else member
    return Observations(member=side, loss=loss, margin=margin, probability=np.exp(-loss))


def _named(said: str) -> Form:
    try:
        return Form(said)
    except ValueError:
        raise BadInput(f"output must be one of auto, {', '.join(Form)}; got {said!r}.") from None


def _form(answer: Array, y: Array, usual: Form | None) -> Form:
    """What an answer is, from its numbers and the labels; what could be two things is asked about."""
    column = answer.ndim == 1 or (answer.ndim == 2 and answer.shape[1] == 1)
    if answer.dtype.kind in "OUSb" or (column and answer.dtype.kind in "iu"):
        return Form.VALUES if answer.dtype.kind in "iu" and _continuous(y) else Form.LABELS
    if column:
        return _one_column(answer, y)
    if answer.ndim != 2:
        raise BadInput("A model must answer with one row per record and one column per class.")
    shares = are_shares(answer)
    if shares is None and usual is not None:
        return usual
    if shares is None:
        raise BadInput(
            "A model's answers lie between 0 and 1 but do not sum to 1: they may be probabilities or logits.",
            fix='Say which with output="probabilities" or output="logits".',
        )
    return Form.PROBABILITIES if shares else Form.LOGITS


def _one_column(answer: Array, y: Array) -> Form:
    if _continuous(y):
        return Form.VALUES
    if np.unique(y).size > 2:
        raise BadInput(
            "A model answers with one number per record where the labels have more than two classes.",
            fix='Give one column per class, or say output="values" for a regression.',
        )
    if np.isfinite(answer).all() and answer.min(initial=0) >= 0 and answer.max(initial=0) <= 1:
        return Form.PROBABILITIES
    return Form.LOGITS


def _continuous(y: Array) -> bool:
    """Whether labels are a regression's: numbers with fractions."""
    return y.dtype.kind == "f" and bool((y != np.floor(y)).any())


def _values(y: Array) -> Floats:
    try:
        found = y.astype(np.float64)
    except (TypeError, ValueError):
        raise BadInput("The labels of a regression must be numbers.") from None
    if not np.isfinite(found).all():
        raise BadInput("The labels of a regression must be finite.")
    return found


def _column_numbers(y: Array, *answers: Array) -> bool:
    """Whether labels are whole numbers from 0 on: those are column numbers."""
    return all(part.dtype.kind in "iub" and part.min(initial=0) >= 0 for part in (y, *answers))


def _columns(answer: Array, form: Form, names: Array | None, y: Array) -> int:
    if names is not None:
        return max(2, len(names))
    if form is Form.LABELS:
        return int(max(2, answer.max(initial=0) + 1, y.max(initial=0) + 1))
    return 2 if answer.ndim == 1 else max(2, answer.shape[1])


def _labels(y: Array, columns: int, names: Array | None, form: Form) -> tuple[Array, Array | None]:
    """Labels as column numbers: by the model's own names, as they are, or by their place among all labels."""
    if names is None and y.dtype.kind == "f" and not _continuous(y) and np.isfinite(y).all():
        y = y.astype(np.int64)
    if names is None and _column_numbers(y) and y.max(initial=0) < columns:
        return y.astype(np.int64), None
    found = np.unique(y) if names is None else names
    if len(found) != columns or not np.isin(y, found).all():
        raise BadInput(
            f"A model answers with {columns} classes where the labels have {len(found)}.",
            fix="Labels must be column numbers, or as many different words as there are columns, in sorted order.",
        )
    return np.searchsorted(found, y).astype(np.int64), found if form is Form.LABELS else names
