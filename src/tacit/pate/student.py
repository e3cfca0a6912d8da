"""Students: models taught by the answers alone. They see public inputs and released labels, so they cost nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from .alone import NetworkShares, trained
from .trainings import Fit, Network, as_training
from .trying import tried

Labels = NDArray[np.int64]
Shares = NDArray[np.float64]
WORDS = ("supervised", "semi-supervised", "linear", "mlp")
Predict = Callable[[Any], Shares]
"""Records to shares (records, classes)."""


class Student(ABC):
    """How a student is taught."""

    @abstractmethod
    def taught(self, x: object, labels: Labels, classes: int, rng: np.random.Generator) -> Predict:
        """A predictor from public records and their labels, -1 where there is none."""

    def tried(self, x: object, classes: int) -> None:  # noqa: B027
        """Refuse a training that cannot work, before anything is paid for; by default nothing is tried."""


@dataclass(frozen=True)
class Supervised(Student):
    """Learn from the answered queries alone, by anybody's training: see `teachers.as_training`."""

    how: object

    def tried(self, x: object, classes: int) -> None:
        tried(self.how, x, classes, "student", fleet=False)

    def taught(self, x: Any, labels: Labels, classes: int, rng: np.random.Generator) -> Predict:
        rows = np.flatnonzero(labels >= 0)
        found = np.unique(labels[rows])
        if found.size < 2:  # no answers, or answers of one class: nothing to tell apart
            return constant(int(found[0]) if found.size else None, classes)
        how = as_training(self.how, x, classes)
        if isinstance(how, Network):
            return NetworkShares(trained(how, x[rows], labels[rows], rng), classes, how.device)
        model = how(x[rows], labels[rows], rng)
        return ModelShares(model, classes, found)


def student_of(given: object, teacher: object) -> Student:
    """A Student, or one that learns as the teacher does where None is given."""
    if isinstance(given, Student):
        return given
    if given == "semi-supervised":
        from .semi_supervised import FixMatch

        return FixMatch(teacher)
    if isinstance(given, str) and given not in WORDS:
        raise BadInput(f"student {given!r} is not known.", fix=f"Use {', '.join(WORDS)}, or what may be a teacher.")
    return Supervised(teacher if given is None or given == "supervised" else given)


def constant(answer: int | None, classes: int) -> Predict:
    """A student that gives everybody equal shares of all classes, or all of one class."""
    return Constant(np.full(classes, 1.0 / classes) if answer is None else np.eye(classes)[answer])


@dataclass(frozen=True, eq=False)
class Constant:
    """Equal shares for all inputs."""

    shares: Shares

    def __call__(self, asked: Any) -> Shares:
        return np.tile(self.shares, (len(asked), 1))


@dataclass(frozen=True, eq=False)
class NotTaught:
    """Stands for a student whose training raised `error` after the labels were paid for; it says nothing."""

    error: str

    def __call__(self, asked: object) -> NoReturn:
        raise BadInput(self.told, fix="Teach another one: labels_ holds the released labels, -1 where there is none.")

    @property
    def told(self) -> str:
        return f"The student raised {self.error} when it was taught; the released labels are kept."


@dataclass(frozen=True, eq=False)
class ModelShares:
    """Shares of an estimator or a function; `found` are the classes that it was taught."""

    model: Any
    classes: int
    found: Labels

    def __call__(self, asked: object) -> Shares:
        return shares_of(self.model, asked, self.classes, self.found)


def shares_of(model: Any, asked: Any, classes: int, found: Labels) -> Shares:
    """Shares of an estimator's or a function's answers, over all classes; `found` are those it was taught."""
    if callable(getattr(model, "predict_proba", None)):
        told = np.asarray(model.predict_proba(asked), dtype=np.float64)
        shares = np.zeros((len(told), classes))
        shares[:, np.asarray(getattr(model, "classes_", found), dtype=np.int64)] = told
        return shares
    answer = np.asarray(model.predict(asked) if callable(getattr(model, "predict", None)) else model(asked))
    if answer.ndim == 2 and answer.shape[1] == classes:
        return _softened(answer.astype(np.float64))
    if answer.ndim == 2 and answer.shape[1] > 1:
        raise BadInput(f"The student answers with {answer.shape[1]} columns for {classes} classes.")
    return np.eye(classes)[np.clip(answer.reshape(len(answer)).astype(np.int64), 0, classes - 1)]


def _softened(answer: Shares) -> Shares:
    """Answers as shares: shares stay, logits go through softmax."""
    if (answer >= 0).all() and np.allclose(answer.sum(axis=1), 1.0, atol=1e-3):
        return answer
    raised = np.exp(answer - answer.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


__all__ = ["Fit", "NetworkShares", "Predict", "Student", "Supervised", "student_of"]
