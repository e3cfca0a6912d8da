"""Train K models at once: reference models for attacks, runs for audits.

By default all models share one order of batches, and a mask says which model learns from which record. A shared order
has no privacy amplification by sampling. So the records that an audit tests (`own`) are sampled independently for every
(model, step), and an amplified claim holds for these records only (soundness rule 16). With `order="own"` every model
samples all of its records independently.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..core import check
from ..core.errors import BadInput
from ..core.global_randomness import turn
from ..core.observations import Observations
from ..core.randomness import Source, source
from ..loss import Plan
from ..loss.clipping import FLAT
from ..loss.sampling import POISSON
from ..train.clip.arrays import float32_products, ordinary_modes
from ..train.clip.capture.coins import devices_in_use, drawn_from
from ..train.clip.rounding import MOST, ROUNDING, at_most
from .certified import Clip
from .device import Batch, Compiled, Gradients, fixed_size
from .failing_records import WithoutFailing
from .fused import Fused, takes
from .memory import BLOCK, at_once
from .optimizers import check_elementwise
from .order import ALIGNED, Draws, Epochs, Pool, own_batches, shared_batches, tensor_of
from .stack import AnyStack, Stack, copies, stack, stacked

COMPILE_FROM = 50
ROOM = {"float32": 1.0, "tf32": 1 - 2.0**-9}
"""Of the clip norm: TF32 makes each factor of a gradient longer by a share of at most 2^-11, a product of two by less
than 2^-9 (soundness rule 11)."""
MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
MakeStack = Callable[[nn.Module, dict[str, Tensor]], Stack]
Progress = Callable[[int, int], None]


def _descending(parameters: list[Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


@dataclass(frozen=True)
class Fleet:
    """The architecture, optimizer and settings of many models that are trained together.

    `start` is a function that makes a model, called once per model under that model's own seed, or a module whose
    parameters all models start from. `models_at_once`, rounded up to a multiple of 64, is how many are trained together
    on `device`; by default as many as fit in memory, at most 256 on a CPU and 4096 on a GPU. Another `stack` computes
    gradients by another rule; how it clips, and any privacy claim about it, is then the caller's responsibility.
    `order` says whether the order of batches is "shared" by all models, or each model has its "own", which is slower.
    With `precision="tf32"` a GPU multiplies faster and rounds more. Gradients are then clipped to a slightly smaller
    norm, so that the plan's claim holds.
    """

    start: Callable[[], nn.Module] | nn.Module
    optimizer: MakeOptimizer = _descending
    models_at_once: int | None = None
    device: str | torch.device = "cpu"
    stack: MakeStack = stack
    order: str = "shared"
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.order not in ("shared", "own") or self.precision not in ROOM:
            raise BadInput("A fleet's order is 'shared' or 'own', its precision 'float32' or 'tf32'.")

    def train(
        self,
        x: ArrayLike,
        y: ArrayLike,
        member: ArrayLike,
        schedule: Epochs | Plan,
        *,
        own: Sequence[int] = (),
        snapshots: Sequence[int] = (),
        rng: Source | int | np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> Models:
        """Train `member.shape[1]` models; model k learns from the records i with member[i, k].

        An `Epochs` schedule is plain training; a `Plan` is DP-SGD with exact per-example clipping and independent noise
        for every model. `snapshots` lists epochs, or steps of a plan, after which a copy of the models is kept. The
        result is deterministic given `rng`; for models without dropout it does not depend on `models_at_once` either.
        Dropout draws from `rng` too, not from torch's global generator. Which of these numbers a record gets depends on
        who else is in the batch, so they must be secret.

        Caller ensures: models of a plan serve audits and references, and are not released under its claim. On a CPU
        their noise comes from torch's generator: it uses 32 bits of a seed, which can be tried out, and gives no number
        beyond 5.8 standard deviations. Train what is released by `tacit.fit`.
        """
        trainable(schedule)
        data = Pool.of(x, y, member, own, total=self.total(schedule)).to(self.device)
        count, randomness = data.member.shape[1], source(rng)
        order_seed, *seeds = (randomness.words(2 * count + 1) >> np.uint64(1)).tolist()
        starts, noise = seeds[:count], seeds[count:]  # starts are public: no noise may be drawn from their seeds
        done: list[Stack] = []
        kept: dict[int, list[Stack]] = {number: [] for number in snapshots}
        steps = _steps(schedule, snapshots, len(data.x))
        size = self._at_once(data, schedule, starts)
        for first in range(0, count, size):
            rows = slice(first, min(first + size, count))
            models, draws = _started(self, starts[rows]), Draws(noise[rows], self.device)
            pool = data.part(rows)
            if self.order == "own":
                batches = own_batches(pool, schedule, draws)
            else:
                batches = shared_batches(pool, schedule, np.random.default_rng(order_seed), draws)
            with _products(self.precision), ordinary_modes(torch.device(self.device)):
                how = _how(self, models, data, schedule)
                for step in _train(models, self.optimizer, schedule, batches, draws, how):
                    if step in steps:
                        kept[steps[step]].append(models.copy())
            done.append(models)
            if progress is not None:
                progress(rows.stop, count)
        sides = np.asarray(member, dtype=bool)
        earlier = {number: Models(tuple(stacks), sides, randomness.name) for number, stacks in kept.items()}
        return Models(tuple(done), sides, randomness.name, earlier)

    def total(self, schedule: Epochs | Plan) -> bool:
        """Whether no record is refused for what it holds, as in private training by our own rules (soundness rule
        8).
        """
        return isinstance(schedule, Plan) and self.stack is stack

    def _at_once(self, data: Pool, schedule: Epochs | Plan, starts: list[int]) -> int:
        if self.models_at_once is not None:
            return BLOCK * math.ceil(check.whole("models_at_once", self.models_at_once) / BLOCK)
        if len(starts) <= BLOCK:
            return BLOCK
        expected = schedule.expected_batch if isinstance(schedule, Plan) else schedule.batch_size
        clip_norm = schedule.clip_norm if isinstance(schedule, Plan) else None
        step = functools.partial(_gradients, clip_norm=clip_norm)
        size = min(math.ceil(expected), len(data.x))
        return at_once(_started(self, starts[:1]), data.x.shape[1:], size, step, data.x.device)


@dataclass(frozen=True)
class Models:
    """A trained fleet."""

    stacks: tuple[Stack, ...]
    member: NDArray[np.bool_]
    randomness: str
    snapshots: Mapping[int, Models] = field(default_factory=dict)
    """Copies of the models after some epochs, or steps of a plan, if asked for."""

    def __len__(self) -> int:
        return int(self.member.shape[1])

    def logits(self, x: ArrayLike) -> NDArray[np.float64]:
        """Logits of shape (records, models, classes)."""
        batch = tensor_of(x).to(next(iter(self.stacks[0].parameters.values())).device)
        with torch.no_grad():
            parts = [_logits(item, batch) for item in self.stacks]
        return torch.cat(parts, dim=1).double().cpu().numpy()

    def observations(self, x: ArrayLike, y: ArrayLike, member: ArrayLike | None = None) -> Observations:
        """What an attacker sees of these records in the models' outputs; pass `member` for records of the pool."""
        return Observations.from_logits(self.logits(x), y, member=member)

    def accuracy(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        """Share of right answers, per model."""
        return np.asarray((self.logits(x).argmax(-1) == np.asarray(y)[:, None]).mean(0))


def trainable(schedule: Epochs | Plan) -> None:
    """Refuse a plan that a fleet cannot follow."""
    if isinstance(schedule, Plan) and (schedule.sampling, schedule.clipping) != (POISSON, FLAT):
        raise BadInput("A fleet trains privately with Poisson sampling and flat clipping only.")


def _noise(plan: Plan) -> float:
    """The noise of a sum: rounding may enlarge a record's contribution to (1 + r) clip norms (soundness rule 24)."""
    return plan.noise_multiplier * plan.clip_norm * (1 + ROUNDING["float32"])


def _train(
    models: Stack,
    make_optimizer: MakeOptimizer,
    schedule: Epochs | Plan,
    batches: Iterator[Batch],
    draws: Draws,
    gradients: Gradients,
) -> Iterator[int]:
    """Train one stack; yields the number of each step when it is done."""
    parameters = list(models.parameters.values())
    optimizer = make_optimizer(parameters)
    private = isinstance(schedule, Plan)
    if private:
        check_elementwise(optimizer)
    share = 1 / schedule.expected_batch if isinstance(schedule, Plan) else 1.0
    scale = _noise(schedule) * share if isinstance(schedule, Plan) else 0.0
    for step, batch in enumerate(batches, start=1):
        rate = _descent(optimizer)
        if isinstance(gradients, Fused) and rate is not None:  # a step of gradient descent, in place
            gradients.add(models, batch, -rate * share)
            if private:
                draws.add_noise(parameters, -rate * scale, 1.0)
        else:
            with drawn_from(draws.key(step), batch.x.device, read=True) if models.draws else nullcontext():
                sums = gradients(models, batch)
            if private:
                draws.add_noise([sums[name] for name in models.parameters], scale, share)
            for name, parameter in models.parameters.items():
                parameter.grad = sums[name].to(parameter.dtype)
            optimizer.step()
        yield step
    for parameter in parameters:
        parameter.grad = None


def _steps(schedule: Epochs | Plan, snapshots: Sequence[int], records: int) -> dict[int, int]:
    """Map each step after which a snapshot is due to the name of that snapshot."""
    most, each = (schedule.steps, 1) if isinstance(schedule, Plan) else (schedule.epochs, schedule.steps(records))
    for number in snapshots:
        if check.whole("snapshots", number) > most:
            raise BadInput(f"A snapshot after {number} is asked for, but training ends after {most}.")
    return {number * each: number for number in snapshots}


def _logits(models: Stack, x: Tensor) -> Tensor:
    """Logits (B, K, classes), a few records at a time: the patches of images take many times their size."""
    count = len(next(iter(models.parameters.values())))
    rows = max(1, (2**22 if models.rank_one else 2**14) // count)
    return torch.cat([models.logits(part).transpose(0, 1) for part in x.split(rows)])


def _descent(optimizer: torch.optim.Optimizer) -> float | None:
    """The learning rate of an optimizer whose whole update is x <- x - rate * gradient; None for any other."""
    if type(optimizer) is not torch.optim.SGD or len(optimizer.param_groups) != 1:
        return None
    group = optimizer.param_groups[0]
    more = group["momentum"] or group["weight_decay"] or group["maximize"]
    return None if more or isinstance(group["lr"], Tensor) else float(group["lr"])


def _how(fleet: Fleet, models: Stack, data: Pool, schedule: Epochs | Plan, own: bool = False) -> Gradients:
    """The gradients of a step. In a private one, a record at whose values a model raises contributes nothing to it."""
    clip_norm = schedule.clip_norm * ROOM[fleet.precision] if isinstance(schedule, Plan) else None
    if clip_norm is not None and not models.rank_one and fleet.precision != "float32":
        raise BadInput("A fleet clips convolutions in float32 only.", fix="Leave precision='float32'.")
    most = at_most(schedule.expected_batch, schedule.rate) if isinstance(schedule, Plan) else MOST
    eager = functools.partial(_gradients, clip_norm=clip_norm, most=most)
    shared = data.x.is_cuda and not own and fleet.order != "own"
    how = _on_gpu(fleet, models, data, schedule, eager, clip_norm) if shared else eager
    return WithoutFailing(how, eager) if clip_norm is not None and isinstance(models, AnyStack) else how


def _on_gpu(
    fleet: Fleet, models: Stack, data: Pool, schedule: Epochs | Plan, gradients: Gradients, clip_norm: float | None
) -> Gradients:
    """By a kernel for TF32, or compiled for batches of one size if there are many."""
    if fleet.precision == "tf32" and takes(models, flat=data.x.dim() == 2):
        return Fused(gradients, clip_norm)
    if isinstance(schedule, Plan):
        if schedule.steps < COMPILE_FROM:
            return gradients
        return Compiled(gradients, repr(schedule), fixed_size(schedule.expected_batch))
    return Compiled(gradients, repr(schedule), ALIGNED * math.ceil(schedule.batch_size / ALIGNED))


def _products(precision: str) -> AbstractContextManager[None]:
    """Products of float32 numbers, and cuDNN's convolutions, in this precision, whatever the program has set."""
    return float32_products(tf32=precision == "tf32")


def _started(fleet: Fleet, seeds: list[int]) -> Stack:
    if isinstance(fleet.start, nn.Module):
        template = fleet.start
        parameters = copies(copy.deepcopy(template).to(fleet.device), len(seeds))
    else:
        made = [_make(fleet.start, seed) for seed in seeds]
        template, parameters = made[0], stacked(made)
    return fleet.stack(template, {name: value.to(fleet.device) for name, value in parameters.items()})


def _gradients(models: Stack, batch: Batch, clip_norm: float | None, most: int = MOST) -> dict[str, Tensor]:
    """Sums of clipped gradients, or means of gradients where there is no clip norm."""
    if not batch.y.numel():
        return {name: torch.zeros_like(value) for name, value in models.parameters.items()}
    if clip_norm is not None:
        return models.gradients(batch.x, batch.y, Clip(batch.mask, clip_norm, most))
    return models.gradients(batch.x, batch.y, batch.mask / batch.mask.sum(1, keepdim=True).clamp(min=1))


def _make(make_model: Callable[[], nn.Module], seed: int) -> nn.Module:
    with turn(), torch.random.fork_rng(devices=devices_in_use()):
        if torch.cuda.is_available():
            torch.manual_seed(seed)
        else:  # the same numbers; seeding devices that are not there takes longer than making a small model
            torch.default_generator.manual_seed(seed)
        return make_model()
