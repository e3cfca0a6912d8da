"""The batches of a schedule: which model learns from which record in which step."""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..core import check
from ..core.errors import BadInput
from ..loss import Plan
from .device import Batch, Noise
from .memory import BLOCK
from .reading import whatever_they_hold

DRAWN = b"draws of a fleet"
ALIGNED = 16
"""On a GPU batches are padded to a multiple of this, with masked records."""


@dataclass(frozen=True)
class Epochs:
    """Plain training: `epochs` passes over the pool in shuffled batches of `batch_size` records."""

    epochs: int
    batch_size: int

    def steps(self, records: int) -> int:
        """The number of steps in one epoch."""
        return math.ceil(records / self.batch_size)

    def __post_init__(self) -> None:
        check.whole("epochs", self.epochs)
        check.whole("batch_size", self.batch_size)


@dataclass(frozen=True)
class Pool:
    """Records, labels and membership as tensors."""

    x: Tensor
    y: Tensor
    member: Tensor
    own: tuple[int, ...]

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, member: ArrayLike, own: Sequence[int], *, total: bool = False) -> Pool:
        """Convert records to tensors. With `total`, no record is refused for what it holds: one that cannot be read
        gets the label NOBODY, from which a private step learns nothing.
        """
        if total:
            features, labels = whatever_they_hold(x, y)
        else:
            features, labels = tensor_of(x), torch.as_tensor(np.asarray(y).astype(np.int64))
        matrix = torch.as_tensor(np.asarray(member, dtype=bool))
        if matrix.dim() != 2 or not len(features) == len(labels) == len(matrix) or 0 in matrix.shape:
            raise BadInput("A fleet needs x and y of one length and a membership matrix of records x models.")
        if not total and labels.min() < 0:
            raise BadInput("A fleet needs labels from 0.", fix="Number the classes 0, 1, 2 ...")
        return cls(features, labels, matrix, _places(own, len(features)))

    def part(self, models: slice) -> Pool:
        return Pool(self.x, self.y, self.member[:, models], self.own)

    def to(self, device: str | torch.device) -> Pool:
        return Pool(self.x.to(device), self.y.to(device), self.member.to(device), self.own)

    def take(self, rows: Tensor) -> Batch:
        """The batch of records `rows`: (B) shared by all models, or (K, B) for each."""
        mask = self.member[rows].T if rows.dim() == 1 else self.member.T.gather(1, rows)
        return Batch(self.x[rows], self.y[rows], mask)


def _places(own: Sequence[int], count: int) -> tuple[int, ...]:
    """Numbers of records, each once: one that is named twice would take part in a step twice."""
    try:
        found = dict.fromkeys(operator.index(one) for one in own if not isinstance(one, bool))
    except TypeError:
        found = {}
    if len(found) != len(own) or not all(0 <= place < count for place in found):
        raise BadInput(
            "A fleet needs own records that are in the pool, each named once.",
            fix="Give the numbers of their rows: np.flatnonzero(mask), say.",
        )
    return tuple(found)


class Draws:
    """Random numbers for some models of a fleet. They depend only on the fleet's seed and the models' positions in it.

    They come from one generator per block of models. On a GPU, noise comes from a key per model instead.
    """

    def __init__(self, seeds: list[int], device: str | torch.device, block: int = BLOCK) -> None:
        self._device = torch.device(device)
        self._sizes = [len(seeds[k : k + block]) for k in range(0, len(seeds), block)]
        self._generators = [torch.Generator(self._device).manual_seed(seed) for seed in seeds[::block]]
        self._seeds = seeds
        self._kernel: Noise | None = None

    def add_noise(self, values: Sequence[Tensor], scale: float, share: float) -> None:
        """values <- share * values + scale * noise."""
        if self._device.type == "cuda":
            self._kernel = self._kernel or Noise(self._seeds, self._device)
            self._kernel.add(values, scale, share)
            return
        sizes = [value[0].numel() for value in values]
        drawn = self._draw(torch.randn, sum(sizes)).mul_(scale)
        for value, part in zip(values, drawn.split(sizes, dim=1), strict=True):
            torch.add(part.reshape(value.shape), value, alpha=share, out=value)

    def key(self, step: int) -> bytes:
        """The key of the random numbers that the models themselves draw in a step (dropout)."""
        return hashlib.sha256(DRAWN + b"".join(one.to_bytes(8, "little") for one in (self._seeds[0], step))).digest()

    def uniform(self, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Uniform random numbers of shape (K, count)."""
        return self._draw(torch.rand, count, dtype=dtype)

    def _draw(self, draw: Callable[..., Tensor], count: int, **more: torch.dtype) -> Tensor:
        pairs = zip(self._sizes, self._generators, strict=True)
        return torch.cat(
            [draw(size, count, generator=generator, device=self._device, **more) for size, generator in pairs]
        )


def shared_batches(
    pool: Pool, schedule: Epochs | Plan, generator: np.random.Generator, draws: Draws
) -> Iterator[Batch]:
    """Batches in one order for all models; under a plan, `own` records are sampled for every (model, step) instead."""
    own = np.array(pool.own if isinstance(schedule, Plan) else (), dtype=np.int64)
    for others in shared_order(schedule, len(pool.x), own, generator):
        rows = np.concatenate((others, own))
        missing = -len(rows) % ALIGNED if pool.x.is_cuda and len(rows) else 0
        batch = pool.take(_sent(np.pad(rows, (0, missing)), pool.x.device))
        batch.mask[:, len(rows) :] = False
        if isinstance(schedule, Plan) and len(own):
            batch.mask[:, len(others) : len(rows)] &= draws.uniform(len(own)) < schedule.rate
        yield batch


def shared_order(
    schedule: Epochs | Plan, count: int, own: np.ndarray, generator: np.random.Generator
) -> Iterator[np.ndarray]:
    """Record numbers, batch by batch."""
    if isinstance(schedule, Plan):
        others = np.setdiff1d(np.arange(count), own)
        for _ in range(schedule.steps):
            yield others[generator.random(others.size) < schedule.rate]
    else:
        for _ in range(schedule.epochs):
            order, size = generator.permutation(count), schedule.batch_size
            yield from (order[start : start + size] for start in range(0, count, size))


def own_batches(pool: Pool, schedule: Epochs | Plan, draws: Draws) -> Iterator[Batch]:
    """Batches drawn independently for every model, so that amplification by sampling holds for all records."""
    if isinstance(schedule, Plan):
        for _ in range(schedule.steps):
            rows, taken = sampled(len(pool.x), schedule.rate, draws)
            batch = pool.take(rows)
            yield Batch(batch.x, batch.y, batch.mask & taken)
    else:
        for _ in range(schedule.epochs):
            for rows in draws.uniform(len(pool.x), torch.float64).argsort(1).split(schedule.batch_size, 1):
                yield pool.take(rows)


def sampled(count: int, rate: float, draws: Draws) -> tuple[Tensor, Tensor]:
    """A Poisson sample per model as rows (K, B), and a mask of the rows that are not padding.

    The gaps between sampled records are geometric, P(gap > g) = (1 - rate)^g; their cumulative sums are the sample.
    """
    expected = count * rate
    some = ALIGNED * math.ceil((expected + 6 * math.sqrt(expected) + 6) / ALIGNED)
    log_missed = math.log1p(-rate) if rate < 1 else -math.inf
    place = _gaps(some, log_missed, draws).cumsum(1) - 1
    while bool((place[:, -1] < count).any()):
        place = torch.cat((place, place[:, -1:] + _gaps(some, log_missed, draws).cumsum(1)), dim=1)
    taken = place < count
    width = ALIGNED * math.ceil(max(1, int(taken.sum(1).max())) / ALIGNED)
    rows = torch.where(taken, place, 0).long()
    return rows[:, :width], taken[:, :width]


def _gaps(some: int, log_missed: float, draws: Draws) -> Tensor:
    return (torch.log1p(-draws.uniform(some, torch.float64)) / log_missed).floor() + 1


def _sent(rows: np.ndarray, device: torch.device) -> Tensor:
    """Copy row numbers to the device, asynchronously on a GPU."""
    found = torch.as_tensor(rows)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found


def tensor_of(x: ArrayLike) -> Tensor:
    with np.errstate(over="ignore"):  # a warning about one record would tell of it, and could be made an error
        return torch.as_tensor(np.asarray(x, dtype=np.float32))
