"""How a model's answers are read: labels, probabilities, logits or values, and at which resolution.

The target decides the form and the resolution. Its reference models are read in the same way, so that their numbers can
be compared with the target's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..core import BadInput, Observations, Resolution
from ..core.arrays import Array
from ..core.observations import blocks
from ..core.resolution import LEAST, are_shares
from .forms import Form, continuous, form_of, lost, named, no_labels, noisy_shares, of_one
from .residuals import Residuals

Floats = NDArray[np.float64]
KEPT = 2**25
"""Numbers (256 MiB) of answers that are kept whole; of more, only what they say of the true label."""


@dataclass(frozen=True, eq=False)
class Digest:
    """What one model says, reduced to two numbers per record.

    own: the share of the record's own label (of logits: the logit). others: the sum of all other labels' shares (of
    logits: the logarithm of the sum of their exponentials). added: the smallest step of the shares, for zeros.
    """

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
    residuals: Residuals | None = None

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
        answer = of_one(answer)
        if missing := lost(answer):
            raise BadInput(f"The model answered with numbers that are not finite for {missing} of {len(y)} records.")
        form = form_of(answer, y, usual) if said == "auto" else named(said)
        if form is Form.VALUES:
            return cls(form, _values(y), residuals=Residuals.of(answer, _values(y)))
        one = form is Form.LABELS and _one_each(answer)
        if one and no_labels(answer.ravel(), y):
            raise BadInput(
                "The labels that the model predicts are none of those that the records have, or few of them are.",
                fix="Scores are no labels: give the second label's share of 1.",
            )
        if one and names is None and not _column_numbers(y, answer):
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
        answer = of_one(answer)
        if answer.dtype.kind not in "fiub" or not np.isfinite(answer).all():
            raise BadInput("A model answered with words, or with numbers that are not finite.")
        answer = answer if answer.dtype.kind == "f" else answer.astype(np.float64)
        answer = noisy_shares(answer) if self.form is Form.PROBABILITIES else answer
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

    def keeping(self, models: int, lens: Callable[[Array], Array] | None = None) -> Callable[[Array], Any]:
        """A function that reduces an answer to what is kept of it: everything if memory allows, else a `Digest`.

        `lens` shows shares of another model as the target would have shown them.
        """
        large = models * len(self.labels) * self.classes > KEPT
        kept = self.digest if large and self.form in (Form.PROBABILITIES, Form.LOGITS) else _whole
        if lens is None or self.form is not Form.PROBABILITIES:
            return kept
        return lambda answer: kept(lens(self._like_the_target(answer)))

    def digest(self, answer: Array) -> Digest:
        """The true label's share and all others' together (of logits: their logarithms), and the smallest step."""
        table = self._like_the_target(answer)
        own, others = np.empty((2, len(table)))
        for rows in blocks(table.shape):
            shown = table[rows].astype(np.float64) if self.form is Form.LOGITS else self.resolution.shown(table[rows])
            place = np.arange(len(shown)), self.labels[rows]
            own[rows] = shown[place]
            shown[place] = -np.inf if self.form is Form.LOGITS else 0.0
            others[rows] = special.logsumexp(shown, axis=1) if self.form is Form.LOGITS else shown.sum(axis=1)
        return Digest(own, others, (LEAST,) if self.form is Form.LOGITS else self._step(table))

    def observe(self, answers: Sequence[Any], member: ArrayLike, read: Resolution | None = None) -> Observations:
        """Signals of several models on the same records."""
        if self.form is Form.VALUES:
            assert self.residuals is not None
            return self.residuals.observe(answers, self.labels, np.asarray(member, dtype=bool))
        if isinstance(answers[0], Digest):
            return self._digested(answers, member, self.resolution if read is None else read)
        tables = [self._like_the_target(answer) for answer in answers]
        if self.form is Form.LOGITS:
            return self._small(Observations.from_logits, tables, member)
        resolution = self.resolution if read is None else read
        return self._small(Observations.from_probabilities, tables, member, resolution=resolution)

    def _digested(self, answers: Sequence[Digest], member: ArrayLike, read: Resolution) -> Observations:
        own, others = (np.stack([getattr(part, name) for part in answers], axis=1) for name in ("own", "others"))
        if self.form is not Form.PROBABILITIES:
            return Observations.from_margin(own - others, label=self.labels, member=member)
        log_own, log_others = read.logarithms(own, others, self.labels, self.classes)
        found = Observations.from_margin(log_own - log_others, label=self.labels, member=member)
        return replace(found, probability=read.floored(own, self.labels))

    def coarsest(self, answers: Sequence[object]) -> Resolution:
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
        table, like = self._like_the_target(answer), self.resolution
        same = like.decimals is None and table.dtype.name == like.kind  # then the target would show the same
        return Resolution.of(table if same else like.shown(table)).added

    def _like_the_target(self, answer: Array) -> Array:
        """Another model's answer in the target's form: shares for shares, the likeliest label for labels."""
        if self.form is Form.LABELS:
            return self._one_hot(answer)
        table = self.table(answer)
        shares = are_shares(table)
        if self.form is Form.PROBABILITIES and shares is False:
            return np.asarray(special.softmax(table.astype(np.float64), axis=1))
        if self.form is Form.LOGITS and shares:
            return np.asarray(np.log(Resolution.of(table).raised(table.astype(np.float64))))
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
            return build(np.stack(tables, axis=1), self.labels, member=side, **more)
        seen = [build(table[:, None], self.labels, **more) for table in tables]
        margin, probability = (
            np.concatenate([each.need(name) for each in seen], axis=1) for name in ("margin", "probability")
        )
        found = Observations.from_margin(margin, label=self.labels, member=side)
        return replace(found, probability=probability)


def _whole(answer: Array) -> Array:
    return answer


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


def _one_each(answer: Array) -> bool:
    """Whether there is one number or word per record, and no column per class."""
    return answer.ndim == 1 or answer.shape[1:] == (1,)


def _columns(answer: Array, form: Form, names: Array | None, y: Array) -> int:
    if names is not None:
        return max(2, len(names))
    if form is Form.LABELS and _one_each(answer):
        return int(max(2, answer.max(initial=0) + 1, y.max(initial=0) + 1))
    return 2 if answer.ndim == 1 else max(2, answer.shape[1])


def _labels(y: Array, columns: int, names: Array | None, form: Form) -> tuple[Array, Array | None]:
    """Labels as column numbers: by the model's own names, as they are, or by their place among all labels."""
    if names is None and y.dtype.kind == "f" and not continuous(y) and np.isfinite(y).all():
        y = y.astype(np.int64)
    if names is None and _column_numbers(y) and y.max(initial=0) < columns:
        return y.astype(np.int64), None
    found = np.unique(y) if names is None else names
    if (found.dtype.kind in "USO") != (y.dtype.kind in "USO"):
        raise BadInput("The model predicts words where the labels are numbers, or numbers where they are words.")
    if len(found) != columns or not np.isin(y, found).all():
        raise BadInput(
            f"A model answers with {columns} classes where the labels have {len(found)}.",
            fix="Labels must be column numbers, or as many different words as there are columns, in sorted order.",
        )
    return np.searchsorted(found, y).astype(np.int64), found if form is Form.LABELS else names
