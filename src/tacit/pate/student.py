"""Students: models taught by the answers alone. They see public inputs and released labels, so they cost nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput
from .trainings import Fit, Network, as_training
from .trying import tried

if TYPE_CHECKING:
    from torch import nn

Array = NDArray[Any]
Labels = NDArray[np.int64]
Shares = NDArray[np.float64]
Predict = Callable[[Any], Shares]
"""Records to shares (records, classes)."""
AT_ONCE = 2048


class Student(ABC):
    """How a student is taught."""

    @abstractmethod
    def taught(self, x: Any, labels: Labels, classes: int, rng: np.random.Generator) -> Predict:
        """A predictor from public records and their labels, -1 where there is none."""

    def tried(self, x: Any, classes: int) -> None:  # noqa: B027
        """Refuse a training that cannot work, before anything is paid for; by default nothing is tried."""


@dataclass(frozen=True)
class Supervised(Student):
    """Learn from the answered queries alone, by anybody's training: see `teachers.as_training`."""

    how: Any

    def tried(self, x: Any, classes: int) -> None:
        tried(self.how, x, classes, "student")

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


def student_of(given: Any, teacher: Any) -> Student:
    """A Student, or one that learns as the teacher does where None is given."""
    if isinstance(given, Student):
        return given
    if given == "semi-supervised":
        from .semi_supervised import FixMatch

        return FixMatch(teacher)
    return Supervised(teacher if given is None or given == "supervised" else given)


def constant(answer: int | None, classes: int) -> Predict:
    """A student that gives everybody equal shares of all classes, or all of one class."""
    return Constant(np.full(classes, 1.0 / classes) if answer is None else np.eye(classes)[answer])


def trained(how: Network, x: Any, y: Labels, rng: np.random.Generator) -> nn.Module:
    """One module, by ordinary training: the steps and batches of a teacher."""
    import torch

    from ..fleet.disjoint import endless
    from ..fleet.fleet import _make

    model = _make(how.make, int(rng.integers(2**63))).to(how.device)
    optimizer = how.descent()(list(model.parameters()))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, how.steps)
    records = torch.as_tensor(np.asarray(x, dtype=np.float32), device=how.device)
    labels = torch.as_tensor(np.asarray(y, dtype=np.int64), device=how.device)
    generator = torch.Generator(how.device).manual_seed(int(rng.integers(2**62)))
    order = torch.as_tensor(endless(np.arange(len(y)), how.steps * how.batch_size, rng), device=how.device)
    model.train()
    for rows in order.split(how.batch_size):
        batch = records[rows] if how.augment is None else how.augment(records[rows], generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), labels[rows]).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@dataclass(frozen=True, eq=False)
class Constant:
    """Equal shares for all inputs."""

    shares: Shares

    def __call__(self, asked: Any) -> Shares:
        return np.tile(self.shares, (len(asked), 1))


@dataclass(frozen=True, eq=False)
class ModelShares:
    """Shares of an estimator or a function; `found` are the classes that it was taught."""

    model: Any
    classes: int
    found: Labels

    def __call__(self, asked: Any) -> Shares:
        return shares_of(self.model, asked, self.classes, self.found)


@dataclass(frozen=True, eq=False)
class NetworkShares:
    """A module's softmax shares."""

    model: nn.Module
    classes: int
    device: str = "cpu"

    def __call__(self, asked: Any) -> Shares:
        import torch

        with torch.no_grad():
            parts = torch.as_tensor(np.asarray(asked, dtype=np.float32)).split(AT_ONCE)
            found = [self.model(part.to(self.device)).float().softmax(1)[:, : self.classes].cpu() for part in parts]
        return torch.cat(found).numpy().astype(np.float64) if found else np.zeros((0, self.classes))


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
    """Shares as they are; logits by softmax."""
    if (answer >= 0).all() and np.allclose(answer.sum(axis=1), 1.0, atol=1e-3):
        return answer
    raised = np.exp(answer - answer.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


__all__ = ["Fit", "Predict", "Student", "Supervised", "student_of"]
