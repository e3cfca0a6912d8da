"""Train K models at once: reference models for attacks, runs for audits.

All models see one batch order; who is a member of which model is a mask. A shared order has no amplification, so the
records that an audit tests (`own`) are sampled anew for every (model, step), and only for them does an amplified claim
hold of a fleet (soundness rule 16).
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..core import check
from ..core.errors import BadInput
from ..core.observations import Observations
from ..core.randomness import Source, source
from ..loss import Plan
from .device import Compiled, Gradients, Noise, fixed_size
from .stack import Stack, copies, stack, stacked

COMPILE_FROM = 50
BLOCK = 64
"""Models that share a random generator; how many are trained at once is a multiple of it."""
MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
MakeStack = Callable[[nn.Module, dict[str, Tensor]], Stack]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Epochs:
    """Plain training: shuffled batches of `batch_size` records of the pool, `epochs` times through it."""

    epochs: int
    batch_size: int

    def __post_init__(self) -> None:
        check.whole("epochs", self.epochs)
        check.whole("batch_size", self.batch_size)


@dataclass(frozen=True)
class Fleet:
    """One description, many models.

    `start` is a function, called once per model under that model's own seed, or a module: then all models start from
    its parameters. Models are trained `models_at_once` (rounded up to blocks of 64) on `device`. Another `stack` trains
    by another rule: how gradients are clipped is then its own affair, and any claim about it too.
    """

    start: Callable[[], nn.Module] | nn.Module
    optimizer: MakeOptimizer = field(default=lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    models_at_once: int = 256
    device: str | torch.device = "cpu"
    stack: MakeStack = stack

    def train(
        self,
        x: ArrayLike,
        y: ArrayLike,
        member: ArrayLike,
        schedule: Epochs | Plan,
        *,
        own: Sequence[int] = (),
        rng: Source | int | np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> Models:
        """Train `member.shape[1]` models; model k learns from the records i with member[i, k].

        An `Epochs` schedule is plain training, a `Plan` is DP-SGD with exact per-example clipping and noise of its own
        in every model. Deterministic given `rng`, whatever `models_at_once` is, for models without dropout.
        """
        data = _Pool.of(x, y, member, own).to(self.device)
        if isinstance(schedule, Plan) and (schedule.sampling, schedule.clipping.name) != ("poisson", "flat"):
            raise BadInput("A fleet trains privately with Poisson sampling and flat clipping only.")
        count, randomness = data.member.shape[1], source(rng)
        order_seed, *seeds = (int(word >> np.uint64(1)) for word in randomness.words(2 * count + 1))
        starts, noise = seeds[:count], seeds[count:]  # starts are public: no noise may be drawn from their seeds
        done: list[Stack] = []
        gradients = _how(self.device, schedule)
        at_once = BLOCK * math.ceil(check.whole("models_at_once", self.models_at_once) / BLOCK)
        for first in range(0, count, at_once):
            rows = slice(first, min(first + at_once, count))
            order = _batches(schedule, data, np.random.default_rng(order_seed))
            models, draws = _started(self, starts[rows]), _Draws(noise, rows, self.device)
            done.append(_train(models, self.optimizer, data.part(rows), schedule, order, draws, gradients))
            if progress is not None:
                progress(rows.stop, count)
        return Models(tuple(done), np.asarray(member, dtype=bool), randomness.name)


@dataclass(frozen=True)
class Models:
    """A trained fleet."""

    stacks: tuple[Stack, ...]
    member: NDArray[np.bool_]
    randomness: str

    def __len__(self) -> int:
        return int(self.member.shape[1])

    def logits(self, x: ArrayLike) -> NDArray[np.float64]:
        """(records, models, classes)."""
        batch = _features(x).to(next(iter(self.stacks[0].parameters.values())).device)
        with torch.no_grad():
            parts = [item.logits(batch).transpose(0, 1) for item in self.stacks]
        return torch.cat(parts, dim=1).double().cpu().numpy()

    def observations(self, x: ArrayLike, y: ArrayLike, member: ArrayLike | None = None) -> Observations:
        """What an attacker with the models' outputs sees of these records; pass `member` for records of the pool."""
        return Observations.from_logits(self.logits(x), y, member=member)

    def accuracy(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        """Share of right answers, per model."""
        return np.asarray((self.logits(x).argmax(-1) == np.asarray(y)[:, None]).mean(0))


@dataclass(frozen=True)
class _Pool:
    """Records, labels and membership as tensors."""

    x: Tensor
    y: Tensor
    member: Tensor
    own: tuple[int, ...]

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, member: ArrayLike, own: Sequence[int]) -> _Pool:
        features, labels = _features(x), torch.as_tensor(np.asarray(y).astype(np.int64))
        matrix = torch.as_tensor(np.asarray(member, dtype=bool))
        if matrix.dim() != 2 or not len(features) == len(labels) == len(matrix) or 0 in matrix.shape:
            raise BadInput("A fleet needs x and y of one length and a membership matrix of records x models.")
        if labels.min() < 0 or not all(0 <= index < len(features) for index in own):
            raise BadInput("A fleet needs labels from 0, and own records that are in the pool.")
        return cls(features, labels, matrix, tuple(int(index) for index in own))

    def part(self, models: slice) -> _Pool:
        return _Pool(self.x, self.y, self.member[:, models], self.own)

    def to(self, device: str | torch.device) -> _Pool:
        return _Pool(self.x.to(device), self.y.to(device), self.member.to(device), self.own)


class _Draws:
    """Random numbers for some models of a fleet, which depend on the fleet's seed and the models' place in it alone.

    On a processor from a generator per block of 64 models; on a GPU the noise of all comes from one kernel.
    """

    def __init__(self, seeds: list[int], models: slice, device: str | torch.device) -> None:
        own, self._device = seeds[models], torch.device(device)
        self._sizes = [len(own[k : k + BLOCK]) for k in range(0, len(own), BLOCK)]
        self._generators = [torch.Generator(self._device).manual_seed(seed) for seed in own[::BLOCK]]
        self._kernel = Noise(seeds, models.start, self._device) if self._device.type == "cuda" else None

    def add_noise(self, parameters: list[Tensor], scale: float, share: float) -> None:
        """Gradients <- share * gradients + scale * noise."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if self._kernel is not None:
            self._kernel.add(gradients, scale, share)
            return
        sizes = [gradient[0].numel() for gradient in gradients]
        drawn = self._draw(torch.randn, sum(sizes)).mul_(scale)
        for gradient, part in zip(gradients, drawn.split(sizes, dim=1), strict=True):
            torch.add(part.unflatten(1, gradient.shape[1:]), gradient, alpha=share, out=gradient)

    def uniform(self, count: int) -> Tensor:
        return self._draw(torch.rand, count)

    def _draw(self, draw: Callable[..., Tensor], count: int) -> Tensor:
        pairs = zip(self._sizes, self._generators, strict=True)
        return torch.cat([draw(size, count, generator=generator, device=self._device) for size, generator in pairs])


def _train(
    models: Stack,
    make_optimizer: MakeOptimizer,
    data: _Pool,
    schedule: Epochs | Plan,
    order: Iterator[Tensor],
    draws: _Draws,
    gradients: Gradients,
) -> Stack:
    parameters = list(models.parameters.values())
    optimizer = make_optimizer(parameters)
    private = isinstance(schedule, Plan)
    own = torch.tensor(data.own if private else (), dtype=torch.long, device=data.x.device)
    for batch in order:
        rows = torch.cat((batch.to(data.x.device), own))
        mask = data.member[rows].T
        if isinstance(schedule, Plan) and len(own):
            mask[:, len(batch) :] &= draws.uniform(len(own)) < schedule.rate
        sums = gradients(models, data.x[rows], data.y[rows], mask)
        for name, parameter in models.parameters.items():
            parameter.grad = sums[name]
        if isinstance(schedule, Plan):
            share = 1 / schedule.expected_batch
            draws.add_noise(parameters, schedule.noise_multiplier * schedule.clip_norm * share, share)
        optimizer.step()
    for parameter in parameters:
        parameter.grad = None
    return models


def _how(device: str | torch.device, schedule: Epochs | Plan) -> Gradients:
    """The gradients of a step: on a GPU compiled, for batches of one size, where there are enough of them."""
    gradients = functools.partial(_gradients, schedule=schedule)
    if torch.device(device).type != "cuda":
        return gradients
    if isinstance(schedule, Plan):
        if schedule.steps < COMPILE_FROM:
            return gradients
        return Compiled(gradients, repr(schedule), fixed_size(schedule.expected_batch))
    return Compiled(gradients, repr(schedule), schedule.batch_size)


def _started(fleet: Fleet, seeds: list[int]) -> Stack:
    if isinstance(fleet.start, nn.Module):
        template = fleet.start
        parameters = copies(copy.deepcopy(template).to(fleet.device), len(seeds))
    else:
        made = [_make(fleet.start, seed) for seed in seeds]
        template, parameters = made[0], stacked(made)
    return fleet.stack(template, {name: value.to(fleet.device) for name, value in parameters.items()})


def _gradients(models: Stack, x: Tensor, y: Tensor, mask: Tensor, schedule: Epochs | Plan) -> dict[str, Tensor]:
    if not len(x):
        return {name: torch.zeros_like(value) for name, value in models.parameters.items()}
    if isinstance(schedule, Plan):
        return models.gradients(x, y, functools.partial(_clip, mask=mask, clip_norm=schedule.clip_norm))
    return models.gradients(x, y, mask / mask.sum(1, keepdim=True).clamp(min=1))


def _clip(norms: Tensor, *, mask: Tensor, clip_norm: float) -> Tensor:
    """min(1, C / |g|) for members of the batch; a gradient that is not finite contributes nothing (rule 8)."""
    factor = (clip_norm / norms.clamp(min=torch.finfo(norms.dtype).tiny)).clamp(max=1.0)
    return torch.where(mask & norms.isfinite(), factor, 0.0)


def _batches(schedule: Epochs | Plan, data: _Pool, generator: np.random.Generator) -> Iterator[Tensor]:
    """Shared batches of record indices; own records are left out of a private order, which samples them per model."""
    count = len(data.x)
    if isinstance(schedule, Plan):
        others = np.setdiff1d(np.arange(count), data.own)
        for _ in range(schedule.steps):
            yield torch.as_tensor(others[generator.random(others.size) < schedule.rate])
    else:
        for _ in range(schedule.epochs):
            yield from torch.as_tensor(generator.permutation(count)).split(schedule.batch_size)


def _make(make_model: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make_model()


def _features(x: ArrayLike) -> Tensor:
    return torch.as_tensor(np.asarray(x, dtype=np.float32))
