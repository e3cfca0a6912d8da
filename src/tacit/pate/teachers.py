"""Teachers: one model per shard, trained as a fleet, by scikit-learn, or by anybody's function; and their votes.

Every function of a shard here is total, since an error would be a release. A shard without records abstains, a shard of
one class votes for it, and a teacher whose training fails votes for the most frequent class of its shard, or abstains
in a fleet. Whether the training works at all is tried before (`trying`).
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core import Source
from ..core.global_randomness import lent
from .names import numbers
from .trainings import Fit, Labels, Network, as_training, class_numbers

if TYPE_CHECKING:
    from ..fleet import Models

ABSTAINS = -1
AT_ONCE, SHARES = 512, 2**25
"""Records that a fleet of teachers votes on at a time, and how many logits, at most."""


class Teachers(ABC):
    """Trained teachers."""

    classes: int

    @abstractmethod
    def each(self, x: Any) -> Labels:
        """Votes (records, teachers): class numbers, -1 where a teacher abstains."""

    def counts(self, x: object) -> Labels:
        """Votes per class (records, classes)."""
        votes = self.each(x)
        place = votes + self.classes * np.arange(len(votes))[:, None]
        found = np.bincount(place[votes >= 0], minlength=len(votes) * self.classes)
        return found.reshape(len(votes), self.classes)


@dataclass(frozen=True)
class FleetTeachers(Teachers):
    """Teachers of one architecture, trained at once."""

    models: Models
    classes: int
    held: NDArray[np.bool_]
    """Which shards hold records."""

    def each(self, x: Any) -> Labels:
        size = min(AT_ONCE, max(1, SHARES // (len(self.held) * self.classes)))
        parts = [self._voted(x[first : first + size]) for first in range(0, len(x), size)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.held)), dtype=np.int64)

    def _voted(self, x: object) -> Labels:
        from ..fleet.predictions import answers

        asked = numbers(x)
        logits = np.concatenate([answers(each, asked, self.classes) for each in self.models.stacks], axis=1)
        known = np.isfinite(logits).all(axis=2) & self.held
        return np.where(known, np.where(known[:, :, None], logits, 0.0).argmax(axis=2), ABSTAINS)


@dataclass(frozen=True)
class SeparateTeachers(Teachers):
    """Teachers that are functions from records to class numbers; None abstains.

    Each teacher gets a copy of the inputs. A teacher may scale its inputs in place, by what it has learnt from its own
    records. In a shared array this would change what all later teachers are asked.
    """

    models: tuple[Callable[[Any], Labels] | None, ...]
    classes: int

    def each(self, x: Any) -> Labels:
        votes = np.full((len(x), len(self.models)), ABSTAINS, dtype=np.int64)
        for k, model in enumerate(self.models):
            if model is None:
                continue
            try:
                with lent(np.random.default_rng(k)), silent():
                    found = np.asarray(model(copy.deepcopy(x)), dtype=np.int64)
            except KeyboardInterrupt:
                raise
            except BaseException:  # whatever one shard's model does; libraries in Rust raise others than `Exception`
                continue
            if found.shape == (len(x),):
                votes[:, k] = np.where((found >= 0) & (found < self.classes), found, ABSTAINS)
        return votes


def train(
    teacher: object,
    x: object,
    y: Labels,
    shard: Labels,
    *,
    teachers: int,
    classes: int,
    rng: Source,
    progress: Callable[[int, int], None] | None = None,
) -> Teachers:
    """One teacher per shard from records x and class numbers y; a record whose class is negative is nobody's.

    `teacher`: see `trainings.as_training`. Teacher k's randomness is its own, drawn before any record is looked at.
    """
    generators = [part.generator() for part in rng.spawn(teachers)]
    usable = np.where(y >= 0, shard, ABSTAINS)
    how = as_training(teacher, x, classes)
    if isinstance(how, Network):
        return fleet_of(how, x, y, usable, generators, classes, progress, failed=[])
    models = []
    for k, generator in enumerate(generators):
        rows = np.flatnonzero(usable == k)
        models.append(_one(how, x, y, rows, generator, classes))
        if progress is not None:
            progress(k + 1, teachers)
    return SeparateTeachers(tuple(models), classes)


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
        with lent(generator), silent():
            model = fit(x[rows], labels, generator)
    except KeyboardInterrupt:
        raise
    except BaseException:  # an error that depends on records is a release
        return _always(common)
    return lambda asked: class_numbers(model, asked)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Show no warnings: they tell of one shard's records (a rare class, a fit that does not converge)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _always(answer: int) -> Callable[[Any], Labels]:
    return lambda asked: np.full(len(asked), answer, dtype=np.int64)


def fleet_of(
    how: Network,
    x: object,
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
