"""Teachers: one model per shard, trained as a fleet, by scikit-learn, or by anybody's function; and their votes.

Every function of a shard here is total, since an error would be a release. A shard without records abstains, a shard of
one class votes for it, and a teacher whose training fails votes for the most frequent class of its shard, or abstains
in a fleet. Whether the training works at all is tried before, on made-up labels of public records.
"""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import BadInput, Source, check
from .global_randomness import lent
from .names import numbers

if TYPE_CHECKING:
    from torch import nn

    from ..fleet import MakeOptimizer, Models
    from ..fleet.disjoint import Augment

Array = NDArray[Any]
Labels = NDArray[np.int64]
Fit = Callable[[Any, Array, np.random.Generator], Any]
ABSTAINS = -1
AT_ONCE = 512
"""Records that a fleet of teachers votes on at a time."""


class Teachers(ABC):
    """Trained teachers."""

    classes: int

    @abstractmethod
    def each(self, x: Any) -> Labels:
        """Votes (records, teachers): class numbers, -1 where a teacher abstains."""

    def counts(self, x: Any) -> Labels:
        """Votes per class (records, classes)."""
        votes = self.each(x)
        place = votes + self.classes * np.arange(len(votes))[:, None]
        found = np.bincount(place[votes >= 0], minlength=len(votes) * self.classes)
        return found.reshape(len(votes), self.classes)


@dataclass(frozen=True)
class Network:
    """A torch module as a teacher or a student: `make()` makes one, and it takes `steps` steps of `batch_size` records.

    `optimizer` makes one from a list of parameters: Adam of `lr` if it is None. `augment(x, generator)` changes the
    training batch (batch, ...) of one teacher; a `tacit.fleet.RecordWise` one is called for all teachers at once.
    """

    make: Callable[[], nn.Module]
    steps: int = 500
    batch_size: int = 16
    lr: float = 1e-3
    optimizer: MakeOptimizer | None = None
    augment: Augment | None = field(default=None)
    device: str = "cpu"
    precision: str = "float32"
    compiled: bool = False

    def descent(self) -> MakeOptimizer:
        """What makes the optimizer."""
        if self.optimizer is not None:
            return self.optimizer
        import torch

        rate = check.positive("lr", self.lr)
        return lambda parameters: torch.optim.Adam(parameters, lr=rate, fused=True)


@dataclass(frozen=True)
class FleetTeachers(Teachers):
    """Teachers of one architecture, trained at once."""

    models: Models
    classes: int
    held: NDArray[np.bool_]
    """Which shards hold records."""

    def each(self, x: Any) -> Labels:
        parts = [self._voted(x[first : first + AT_ONCE]) for first in range(0, len(x), AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.held)), dtype=np.int64)

    def _voted(self, x: Any) -> Labels:
        from ..fleet.answering import answers

        asked = numbers(x)
        logits = np.concatenate([answers(each, asked, self.classes) for each in self.models.stacks], axis=1)
        known = np.isfinite(logits).all(axis=2) & self.held
        return np.where(known, np.where(known[:, :, None], logits, 0.0).argmax(axis=2), ABSTAINS)


@dataclass(frozen=True)
class SeparateTeachers(Teachers):
    """Teachers that are functions from records to class numbers; None abstains.

    Each is asked about a copy of the inputs: one that scales them in place, by what it has learnt from its own records,
    would otherwise change what all later teachers are asked.
    """

    models: tuple[Callable[[Any], Labels] | None, ...]
    classes: int

    def each(self, x: Any) -> Labels:
        votes = np.full((len(x), len(self.models)), ABSTAINS, dtype=np.int64)
        for k, model in enumerate(self.models):
            if model is None:
                continue
            try:
                with lent(np.random.default_rng(k)):
                    found = np.asarray(model(copy.deepcopy(x)), dtype=np.int64)
            except (Exception, SystemExit):  # whatever one shard's model does is that shard's doing
                continue
            if found.shape == (len(x),):
                votes[:, k] = np.where((found >= 0) & (found < self.classes), found, ABSTAINS)
        return votes


def train(
    teacher: Any,
    x: Any,
    y: Labels,
    shard: Labels,
    *,
    teachers: int,
    classes: int,
    rng: Source,
    progress: Callable[[int, int], None] | None = None,
) -> Teachers:
    """One teacher per shard from records x and class numbers y; a record whose class is negative is nobody's.

    `teacher`: see `as_training`. Teacher k's randomness is its own, drawn before any record is looked at.
    """
    generators = [part.generator() for part in rng.spawn(teachers)]
    usable = np.where(y >= 0, shard, ABSTAINS)
    how = as_training(teacher, x, classes)
    if isinstance(how, Network):
        return _fleet(how, x, y, usable, generators, classes, progress, failed=[])
    models = []
    for k, generator in enumerate(generators):
        rows = np.flatnonzero(usable == k)
        models.append(_one(how, x, y, rows, generator, classes))
        if progress is not None:
            progress(k + 1, teachers)
    return SeparateTeachers(tuple(models), classes)


def as_training(teacher: Any, x: Any, classes: int) -> Network | Fit:
    """A `Network`, or fit(x, y, rng) -> predict, from what a user gives.

    Accepted are a `Network`, "linear" or "mlp", a torch module or a function without arguments that makes one, and an
    estimator with fit and predict. So is a function fit(x, y, rng) that returns a predict function or an estimator.
    """
    if isinstance(teacher, Network):
        return teacher
    if isinstance(teacher, str):
        return _named(teacher, x, classes)
    if callable(getattr(teacher, "fit", None)) and callable(getattr(teacher, "predict", None)):
        return lambda a, b, rng: copied(teacher, rng).fit(a, b)
    if _is_module(teacher):
        return Network(lambda: copy.deepcopy(teacher))
    if not callable(teacher):
        raise BadInput(
            f"A teacher cannot be made of {type(teacher).__name__}.",
            fix="Give an estimator, fit(x, y, rng), a torch module or a function that makes one, or a Network.",
        )
    return Network(teacher) if _needs_nothing(teacher) else teacher


def copied(estimator: Any, rng: np.random.Generator) -> Any:
    """A fresh copy of an estimator with randomness of its own."""
    if not callable(getattr(estimator, "get_params", None)):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    model = clone(estimator)
    seeds = [name for name in model.get_params() if name.split("__")[-1] in ("random_state", "random_seed")]
    model.set_params(**{name: int(rng.integers(2**31)) for name in seeds})
    return model


def class_numbers(model: Any, x: Any) -> Labels:
    """What a model says of records as class numbers, from labels, shares or logits."""
    asked = model.predict if callable(getattr(model, "predict", None)) else model
    found = np.asarray(asked(x))
    if found.ndim == 2 and found.shape[1] > 1:
        return np.asarray(found.argmax(axis=1), dtype=np.int64)
    return np.asarray(found.reshape(len(found)), dtype=np.int64)


def tried(teacher: Any, public_x: Any, classes: int, who: str = "teacher") -> None:
    """Train once on public records with made-up labels: code that cannot work is told so before data are touched."""
    how = as_training(teacher, public_x, classes)
    count = np.arange(max(4 * classes, 32))
    x, y = public_x[count % len(public_x)], count % classes  # a few inputs are used several times
    try:
        outputs = _tried_network(how, x, y, classes, public_x) if isinstance(how, Network) else None
        found = class_numbers(how(x, y, np.random.default_rng(0)), x) if not isinstance(how, Network) else y
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"The {who} raised {type(error).__name__} when tried on public records with made-up labels."
        ) from error
    if outputs is not None and outputs < classes:
        raise BadInput(f"The network has {outputs} outputs for {classes} classes.")
    if found.shape != (len(x),):
        raise BadInput(f"A {who} must give one label, or one row of shares, for each record.")


def _tried_network(how: Network, x: Any, y: Labels, classes: int, public_x: Any) -> int:
    """The number of outputs of a network that took one step, and then answered about every public input."""
    once, shard = replace(how, steps=1, compiled=False), np.arange(len(x), dtype=np.int64) % 2
    generators = [np.random.default_rng(number) for number in range(2)]  # two: what cannot be a fleet is told here
    models = _fleet(once, x, y, shard, generators, classes, failed=None).models
    for first in range(AT_ONCE, len(public_x), AT_ONCE):
        models.logits(numbers(public_x[first : first + AT_ONCE]))
    return int(models.logits(numbers(public_x[:AT_ONCE])).shape[2])


def _one(
    fit: Fit, x: Any, y: Labels, rows: Labels, generator: np.random.Generator, classes: int
) -> Callable[[Any], Labels] | None:
    if not rows.size:
        return None
    labels = y[rows]
    common = int(np.bincount(labels, minlength=classes).argmax())
    if (labels == labels[0]).all():
        return _always(common)
    try:
        with lent(generator):
            model = fit(x[rows], labels, generator)
    except (Exception, SystemExit):  # an error that depends on records is a release
        return _always(common)
    return lambda asked: class_numbers(model, asked)


def _always(answer: int) -> Callable[[Any], Labels]:
    return lambda asked: np.full(len(asked), answer, dtype=np.int64)


def _fleet(
    how: Network,
    x: Any,
    y: Labels,
    shard: Labels,
    generators: Sequence[np.random.Generator],
    classes: int,
    progress: Callable[[int, int], None] | None = None,
    failed: list[int] | None = None,
) -> FleetTeachers:
    """Teachers trained at once; with a list `failed`, those whose records make the training raise abstain."""
    from ..fleet import Fleet, Steps, train_disjoint

    fleet = Fleet(how.make, how.descent(), device=how.device, precision=how.precision)
    labels = np.where(shard >= 0, np.maximum(y, 0), 0)
    schedule = Steps(how.steps, how.batch_size)
    models = train_disjoint(
        fleet, numbers(x), labels, shard, schedule, generators, augment=how.augment, compiled=how.compiled,
        progress=progress, failed=None if failed is None else failed.append,
    )  # fmt: skip
    held = np.bincount(shard[shard >= 0], minlength=len(generators)) > 0
    held[failed or []] = False
    return FleetTeachers(models, classes, held)


def _named(kind: str, x: Any, classes: int) -> Network:
    from ..train.recipe.networks import network

    features = int(np.prod(x.shape[1:]))
    network(kind, features, classes)  # a name that is not known is told here
    return Network(lambda: network(kind, features, classes))


def _is_module(value: Any) -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _needs_nothing(make: Callable[..., Any]) -> bool:
    """Whether a function or class is called without arguments."""
    try:
        wanted = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return False
    place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return not any(item.default is inspect.Parameter.empty and item.kind in place for item in wanted)
