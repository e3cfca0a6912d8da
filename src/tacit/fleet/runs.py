"""Many runs of one training at once, each with its own random generator: what an audit needs from a fleet.

    fit = Runs(Fleet(make_model, make_optimizer), plan)

`fit(x, y, rng) -> predict` is one run, and `fit.many(x, y, member, rngs)` is many. Run k learns from the records i with
member[i, k], and draws its initial parameters, batches and noise from rngs[k] alone. Up to rounding, it equals the run
`fit(x[member[:, k]], y[member[:, k]], rngs[k])`. So it may be used to test a claim that relies on secret sampling
(soundness rule 16).
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..core import check
from ..core.arrays import Array
from ..core.errors import BadInput
from ..loss import Plan
from ..train.clip.arrays import ordinary_modes
from .device import Batch
from .fleet import Fleet, Models, _descent, _gradients, _how, _products, _started, _train, trainable
from .memory import BLOCK, USED, available, bytes_each
from .order import ALIGNED, Draws, Epochs, Pool
from .stack import AnyStack, LayerStack, Stack

Predict = Callable[[Array], Array]
Rows = NDArray[np.int64]
MOST = {"cpu": BLOCK, "cuda": 2048}
"""Runs that an audit hands over in one call, by device; as many of them as fit in memory are trained at once."""


FAR = 1e4
"""A factor on the clip norm that no gradient reaches: training without clipping."""


@dataclass(frozen=True)
class Runs:
    """A training procedure for audits, made of a fleet: one run, or many at once.

    Every run has its own order of batches, whatever `fleet.order` says. `fleet.models_at_once` limits how many are
    trained at once.
    Caller ensures: the models have no dropout, whose random numbers would not be drawn per run.
    """

    fleet: Fleet
    schedule: Epochs | Plan

    def __post_init__(self) -> None:
        if not isinstance(self.fleet, Fleet) or not isinstance(self.schedule, Epochs | Plan):
            raise BadInput("Runs takes a Fleet, and a Plan or Epochs.")
        trainable(self.schedule)

    @property
    def __name__(self) -> str:
        start = self.fleet.start
        return f"fleet of {getattr(start, '__name__', type(start).__name__)}"

    @property
    def at_once(self) -> int:
        """How many runs to hand over in one call."""
        return MOST.get(torch.device(self.fleet.device).type, BLOCK)

    @property
    def isolation(self) -> str:
        """How an audit should isolate its calls. Several processes would share one GPU and each compile for it."""
        return "none" if torch.device(self.fleet.device).type == "cuda" else "process"

    def planted(self, fault: str) -> Runs | None:
        """This training with a deliberate fault, so that an audit can say which faults it would detect. None if the
        fault does not apply.

        Noise and clipping follow from the plan, so a fault is a different plan that is run under this plan's claim.
        """
        plan = self.schedule
        if not isinstance(plan, Plan):
            return None
        wrong: dict[str, dict[str, Any]] = {
            "no noise": {"noise_multiplier": plan.noise_multiplier * 1e-6},
            "noise 2 times too small": {"noise_multiplier": plan.noise_multiplier / 2},
            "noise 3 times too small": {"noise_multiplier": plan.noise_multiplier / 3},
            "no clipping": {"clip_norm": plan.clip_norm * FAR, "noise_multiplier": plan.noise_multiplier / FAR},
            "noise on the mean instead of the sum": {"noise_multiplier": plan.noise_multiplier / plan.expected_batch},
            "another sampling than accounted": {"rate": min(1.0, 4 * plan.rate)},
        }
        return replace(self, schedule=replace(plan, **wrong[fault])) if fault in wrong else None

    def __call__(self, x: ArrayLike, y: ArrayLike, rng: np.random.Generator) -> Predict:
        """One run: predict(x) -> logits of shape (records, classes)."""
        predict = self.many(x, y, np.ones((len(np.asarray(y)), 1), dtype=bool), [rng])
        return lambda records: predict(records)[0]

    def many(self, x: ArrayLike, y: ArrayLike, member: ArrayLike, rngs: Sequence[np.random.Generator]) -> Predict:
        """Many runs: predict(x) -> logits of shape (runs, records, classes)."""
        sides = np.ascontiguousarray(member, dtype=bool)
        data = Pool.of(x, y, sides, (), total=self.fleet.total(self.schedule)).to(self.fleet.device)
        if sides.shape[1] != len(rngs):
            raise BadInput(f"{sides.shape[1]} runs need as many generators, got {len(rngs)}.")
        size = self._fitting(data)
        parts = [slice(first, first + size) for first in range(0, len(rngs), size)]
        stacks = tuple(self._trained(data.part(part), sides[:, part], rngs[part]) for part in parts)
        models = Models(stacks, sides, "each run's own generator")
        return lambda records: models.logits(records).transpose(1, 0, 2)

    def _trained(self, data: Pool, sides: NDArray[np.bool_], rngs: Sequence[np.random.Generator]) -> Stack:
        seeds = [[int(word) for word in rng.integers(0, 2**63, 2, dtype=np.int64)] for rng in rngs]
        starts, noise = (list(words) for words in zip(*seeds, strict=True))
        models, draws = _started(self.fleet, starts), Draws(noise, self.fleet.device, block=1)
        order = _order([np.flatnonzero(side) for side in sides.T], self.schedule, rngs)
        if (
            isinstance(self.schedule, Epochs)
            and _descent(self.fleet.optimizer(list(models.parameters.values()))) is None
        ):
            order = _even(order)
        with _products(self.fleet.precision), ordinary_modes(data.x.device):
            how = _how(self.fleet, models, data, self.schedule, own=True)
            for _ in _train(models, self.fleet.optimizer, self.schedule, _batches(data, order), draws, how):
                pass
        return models

    def _fitting(self, data: Pool) -> int:
        """How many models to train at once: half of the memory, divided by as many processes as there are cores."""
        most = check.whole("models_at_once", self.fleet.models_at_once or MOST.get(data.x.device.type, BLOCK))
        models = _started(self.fleet, [0])
        if type(models) not in (AnyStack, LayerStack):
            return most
        assert isinstance(models, AnyStack | LayerStack)
        plan = self.schedule if isinstance(self.schedule, Plan) else None
        expected = self.schedule.batch_size if isinstance(self.schedule, Epochs) else len(data.x) * self.schedule.rate
        batch = min(math.ceil(expected), len(data.x))
        step = functools.partial(_gradients, clip_norm=None if plan is None else plan.clip_norm)
        each = bytes_each(models, data.x.shape[1:], batch, step) + 8 * batch * data.x[0].numel()
        share = 1 if data.x.is_cuda else os.cpu_count() or 1
        return max(1, min(most, int(USED * available(data.x.device) / share / each)))


def _order(rows: list[Rows], schedule: Epochs | Plan, rngs: Sequence[np.random.Generator]) -> Iterator[list[Rows]]:
    """For each step, the rows that each run learns from, drawn from the run's own records."""
    if isinstance(schedule, Plan):
        for _ in range(schedule.steps):
            yield [mine[_sampled(mine.size, schedule.rate, rng)] for mine, rng in zip(rows, rngs, strict=True)]
        return
    for _ in range(schedule.epochs):
        mixed = [mine[rng.permutation(mine.size)] for mine, rng in zip(rows, rngs, strict=True)]
        size = schedule.batch_size
        for first in range(0, max(mine.size for mine in mixed), size):
            yield [mine[first : first + size] for mine in mixed]


def _sampled(count: int, rate: float, rng: np.random.Generator) -> Rows:
    """A Poisson sample of 0 .. count - 1; the gaps between sampled records are geometric."""
    some = math.ceil(count * rate + 4 * math.sqrt(count * rate) + 4)

    def gaps() -> Rows:
        return np.asarray(np.minimum(rng.geometric(rate, some), count + 1))  # sums of the rarest would not fit

    place = gaps().cumsum() - 1
    while place[-1] < count:
        place = np.concatenate((place, place[-1] + gaps().cumsum()))
    return np.asarray(place[place < count])


def _even(order: Iterator[list[Rows]]) -> Iterator[list[Rows]]:
    """Pass the steps on; refuse runs with different numbers of steps, since momentum would move the shorter further."""
    for rows in order:
        if len({mine.size > 0 for mine in rows}) > 1:
            raise BadInput(
                "Some runs have a record more than a whole number of batches, and so a step more than others.",
                fix="Choose another batch_size, or an optimizer without momentum.",
            )
        yield rows


def _batches(data: Pool, order: Iterator[list[Rows]]) -> Iterator[Batch]:
    """Batches of one width; shorter ones are padded with rows that no model learns from."""
    for rows in order:
        width = ALIGNED * math.ceil(max(1, *(mine.size for mine in rows)) / ALIGNED)
        taken = np.arange(width) < np.array([[mine.size] for mine in rows])
        place = np.zeros(taken.shape, dtype=np.int64)
        place[taken] = np.concatenate(rows)
        number = torch.as_tensor(place).to(data.x.device)
        x = data.x.index_select(0, number.flatten()).unflatten(0, number.shape)  # many times faster than x[number]
        yield Batch(x, data.y[number], torch.as_tensor(taken).to(data.x.device))
