"""Train many models at once on disjoint shards, such that no model depends on the records of another.

Model k draws its initial parameters and its batches from rngs[k] alone and takes its batches from its own shard. All
models take the same number of steps with the same public batch size. Models that look values up by an index, as
embeddings do, are trained one at a time (indexing.py). So adding, removing or changing a record changes one model only,
and no other model changes even in the shape of a batch. PATE's teachers need this.
"""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..core import SlowWarning, check
from ..core.global_randomness import turn
from ..train.clip.arrays import ordinary_modes
from .device import Batch, Compiled, Gradients
from .fleet import Fleet, Models, _gradients, _make, _products, _started, _train
from .indexing import looks_up
from .optimizers import check_elementwise, elementwise
from .order import Draws, Epochs, Pool
from .stack import Stack

Rows = NDArray[np.int64]
Augment = Callable[[Tensor, torch.Generator], Tensor]
AT_ONCE = {"cpu": 64, "cuda": 1024}
PROBE = 8
NOBODY = np.zeros(0, dtype=np.int64)


class RecordWise(ABC):
    """An augmentation that transforms every record independently, under any number of leading axes.

    Its output for a record depends on that record and on random numbers, and the number of draws does not depend on any
    record. So one call may transform the batches of all models. Any other augmentation is called for each model
    separately.
    """

    @abstractmethod
    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the transformed records, in the shape of `x`."""


@dataclass(frozen=True)
class Steps:
    """How every model of a disjoint fleet is trained: `steps` steps of `batch_size` records of its own shard."""

    steps: int
    batch_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", check.whole("steps", self.steps))
        object.__setattr__(self, "batch_size", check.whole("batch_size", self.batch_size))


@turn()
def train_disjoint(
    fleet: Fleet,
    x: ArrayLike,
    y: ArrayLike,
    shard: ArrayLike,
    schedule: Steps,
    rngs: Sequence[np.random.Generator],
    *,
    augment: Augment | None = None,
    compiled: bool = False,
    progress: Callable[[int, int], None] | None = None,
    failed: Callable[[int], None] | None = None,
) -> Models:
    """Train len(rngs) models. Model k learns from the records i with shard[i] == k; records with a negative shard are
    not used.

    A model whose shard is empty keeps its initial parameters. `augment(x, generator)` transforms the batch of one model
    with that model's generator; a `RecordWise` augmentation transforms the batches of all models at once. `compiled`
    compiles the step once, which pays off on a GPU. If `failed` is given and a model's own records make its training
    raise, `failed` is called with that model. The model keeps its initial parameters, and the others are trained as if
    its shard were empty.
    """
    _check(fleet)
    place = np.asarray(shard, dtype=np.int64)
    count = len(rngs)
    data = Pool.of(x, y, np.ones((len(place), 1), dtype=bool), ()).to(fleet.device)
    size = AT_ONCE.get(data.x.device.type, 64) if fleet.models_at_once is None else fleet.models_at_once
    size = 1 if looks_up(_template(fleet), tuple(data.x.shape[1:])) else size
    rows = shard_rows(place, count)
    stacks = []
    for first in range(0, count, check.whole("models_at_once", size)):
        part = slice(first, min(first + size, count))
        training = _Training(fleet, data, schedule, augment, compiled)
        stacks.append(training(rows[part], rngs[part], None if failed is None else _counted_from(first, failed)))
        if progress is not None:
            progress(part.stop, count)
    return Models(tuple(stacks), place[:, None] == np.arange(count), "each model's own generator")


def _template(fleet: Fleet) -> torch.nn.Module:
    """One model of the fleet that is never trained, for its architecture."""
    made = copy.deepcopy(fleet.start) if isinstance(fleet.start, torch.nn.Module) else _make(fleet.start, 0)
    return made.to(fleet.device)


def _check(fleet: Fleet) -> None:
    """Refuse unsupported models and optimizers before any record is looked at."""
    _started(fleet, [0])
    check_elementwise(fleet.optimizer([torch.zeros(1, PROBE, requires_grad=True)]))


def shard_rows(shard: NDArray[np.int64], count: int) -> list[Rows]:
    """The rows of each shard, in the order of the records."""
    order = np.argsort(shard, kind="stable")
    ends = np.searchsorted(shard[order], np.arange(count + 1))
    return [order[ends[k] : ends[k + 1]] for k in range(count)]


@dataclass(frozen=True, eq=False)
class _Training:
    """The training of one stack of models."""

    fleet: Fleet
    data: Pool
    schedule: Steps
    augment: Augment | None
    compiled: bool

    def __call__(
        self, rows: list[Rows], rngs: Sequence[np.random.Generator], failed: Callable[[int], None] | None
    ) -> Stack:
        if failed is None:
            return self.trained(rows, rngs)
        before = copy.deepcopy(list(rngs))
        try:
            return self.trained(rows, rngs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # libraries in Rust raise others than `Exception`
            if isinstance(error, MemoryError | torch.OutOfMemoryError) and not self._fits(before):
                raise
            raising = self._raising(rows, before)
            if not raising:
                raise
        for k in raising:
            failed(k)
        if len(raising) == len(rows):
            return _started(self.fleet, _seeds(before))
        kept = [k for k in range(len(rows)) if k not in raising]
        return self.trained(_only(rows, kept), before)

    def _fits(self, rngs: Sequence[np.random.Generator]) -> bool:
        """Whether one step of that many models fits in memory. No record is used for the test."""
        once = replace(self, schedule=replace(self.schedule, steps=1))
        try:
            once.trained([NOBODY] * len(rngs), copy.deepcopy(list(rngs)))
        except (MemoryError, torch.OutOfMemoryError):
            return False
        except KeyboardInterrupt:
            raise
        except BaseException:  # a model that zeros make raise
            return True
        return True

    def _raising(self, rows: list[Rows], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Find the models whose own records make the training raise.

        Models are tested in groups, each in a stack of the full size in which all other shards are empty. A model then
        gets batches of the shapes, and random numbers (dropout), that it gets in the training itself. So it raises here
        if and only if it would raise there, which a model that is trained by itself might not. Nobody is found if a
        second attempt succeeds: the fault was not in the records.
        """
        found: list[int] = []
        groups = [] if self._survives(rows, rngs) else [range(len(rows))]
        while groups:
            group = groups.pop()
            if len(group) == 1:
                found.append(group[0])
                continue
            middle = len(group) // 2
            halves = group[:middle], group[middle:]
            groups += [half for half in halves if not self._survives(_only(rows, half), rngs)]
        return sorted(found)

    def _survives(self, rows: list[Rows], rngs: Sequence[np.random.Generator]) -> bool:
        """Whether the models can be trained on these records without raising."""
        try:
            self.trained(rows, copy.deepcopy(list(rngs)))
        except KeyboardInterrupt:
            raise
        except BaseException:
            return False
        return True

    def trained(self, rows: list[Rows], rngs: Sequence[np.random.Generator]) -> Stack:
        fleet, schedule = self.fleet, self.schedule
        seeds = _seeds(rngs)
        changes = [int(rng.integers(0, 2**62)) for rng in rngs]  # before any shard is looked at
        models, draws = _started(fleet, seeds), Draws(seeds, fleet.device)
        change = None if self.augment is None else _changing(self.augment, changes, fleet.device)
        batches = _batches(self.data, rows, schedule, rngs, change)
        place = self.data.x.device
        with _products(fleet.precision), ordinary_modes(place), _own_chance(changes, place):
            how = _compiled(models, self.data, schedule) if self.compiled else _plain
            for _ in _train(models, elementwise(fleet.optimizer), Epochs(1, schedule.batch_size), batches, draws, how):
                pass
        return models


def _only(rows: list[Rows], models: Collection[int]) -> list[Rows]:
    """The shards of some models; those of all others are empty."""
    return [mine if k in models else NOBODY for k, mine in enumerate(rows)]


def _seeds(rngs: Sequence[np.random.Generator]) -> list[int]:
    return [int(rng.integers(0, 2**63, dtype=np.int64)) for rng in rngs]


@contextlib.contextmanager
def _own_chance(seeds: list[int], device: torch.device) -> Iterator[None]:
    """Seed torch's global generator from the models' generators, for augmentations that draw from it.

    Its previous state depends on how many training attempts were repeated, and therefore on records.
    """
    mixed = np.random.SeedSequence(seeds).generate_state(1, np.uint64)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(mixed[0] >> np.uint64(1)))
        yield


def _counted_from(first: int, failed: Callable[[int], None]) -> Callable[[int], None]:
    return lambda k: failed(first + k)


def _changing(augment: Augment, seeds: list[int], device: str | torch.device) -> Callable[[Tensor], Tensor]:
    """Wrap the augmentation for batches (models, batch, ...): a call per model, or one call if it is `RecordWise`."""
    if isinstance(augment, RecordWise):
        shared = torch.Generator(device).manual_seed(seeds[0])
        return lambda x: augment(x, shared)
    own = [torch.Generator(device).manual_seed(seed) for seed in seeds]
    return lambda x: torch.stack([augment(mine, generator) for mine, generator in zip(x, own, strict=True)])


def _compiled(models: Stack, data: Pool, schedule: Steps) -> Gradients:
    """Compile the step, and compare it on made-up records: to stop after a check of private ones would be a release.

    What cannot be compiled here, or gives other gradients, is run as it is: an error would look like one of every
    model's own records. No record has a part in this choice.
    """
    count = len(next(iter(models.parameters.values())))
    how, shape = Compiled(_plain, repr(schedule), count), (count, schedule.batch_size)
    x = torch.rand((*shape, *data.x.shape[1:]), device=data.x.device)
    y = torch.zeros(shape, dtype=torch.int64, device=data.x.device)
    try:
        how(models, Batch(x, y, torch.ones(shape, dtype=torch.bool, device=data.x.device)))
    except Exception as error:  # whatever a compiler raises
        with contextlib.suppress(SlowWarning):  # as an error it would stop the training, too
            told = f"The steps are not compiled, which takes longer: {type(error).__name__}."
            warnings.warn(told, SlowWarning, stacklevel=2)
        return _plain
    return how


def _plain(models: Stack, batch: Batch) -> dict[str, Tensor]:
    return _gradients(models, batch, None)


def _batches(
    data: Pool,
    rows: list[Rows],
    schedule: Steps,
    rngs: Sequence[np.random.Generator],
    augment: Callable[[Tensor], Tensor] | None,
) -> Iterator[Batch]:
    """Batches of one width for every model, however many records its shard holds."""
    wanted = schedule.steps * schedule.batch_size
    order = torch.as_tensor(np.stack([endless(mine, wanted, rng) for mine, rng in zip(rows, rngs, strict=True)]))
    order = order.to(data.x.device)
    held = torch.as_tensor(np.array([[mine.size > 0] for mine in rows])).to(data.x.device)
    mask = held.expand(-1, schedule.batch_size)
    empty = [k for k, mine in enumerate(rows) if not mine.size]
    for number in order.split(schedule.batch_size, 1):
        x = data.x.index_select(0, number.flatten()).unflatten(0, number.shape)
        x[empty] = 0.0  # nobody's record goes through the model of an empty shard
        yield Batch(x if augment is None else augment(x), data.y[number], mask)


def endless(rows: Rows, wanted: int, rng: np.random.Generator) -> Rows:
    """Return `wanted` row numbers: random permutations of `rows`, one after another. Zeros if there are no rows."""
    if not rows.size:
        return np.zeros(wanted, dtype=np.int64)
    rounds = math.ceil(wanted / rows.size)
    return np.concatenate([rows[rng.permutation(rows.size)] for _ in range(rounds)])[:wanted]
