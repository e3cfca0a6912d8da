"""Draw who takes part in a step: one function for each `Sampling` of a plan (`tacit.loss.sampling`), in index space.

Each draws exactly what the plan's event assumes. They are accounted for differently, so the draw is part of the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core import BadInput, Source
from ...loss import Plan
from ...loss.sampling import (
    Allocated,
    Everyone,
    InCycles,
    Independent,
    InShuffledOrder,
    Sampling,
    WithoutReplacement,
)
from ..noise.keys import Keystream

Index = NDArray[np.int64]


@dataclass(eq=False)
class Sampler:
    """Draw the units of every step of a plan; steps that belong to one draw share a key, and so one order of the
    units.
    """

    plan: Plan
    count: int
    _pass: tuple[bytes, list[Index]] = field(default=(b"", []), repr=False)

    def __post_init__(self) -> None:
        """Where the number of units is public, a fixed sample size is a share of exactly that number."""
        if self.plan.sampling.exact and self.count != self.plan.public_size:
            raise BadInput(
                f"Batches of a fixed size need exactly public_size = {self.plan.public_size} {self.plan.unit}s.",
                fix="Make the plan for the number of units there are; under replace it is public.",
            )

    def __call__(self, order: int, key: bytes) -> Index:
        """The units of step number `order`; `key` belongs to the draw that the step is part of."""
        if self._pass[0] != key:
            self._pass = key, DRAWS[type(self.plan.sampling)](self.plan, self.count, Keystream(key))
        return self._pass[1][order % len(self._pass[1])]


def poisson(count: int, rate: float, source: Source) -> Index:
    r"""Indices of 0 .. count - 1, each with probability `rate`, by the gaps between them.

    The gap to the next index is geometric: P(gap > k) = (1 - rate)^k, so gap = 1 + floor(ln u / ln(1 - rate)).
    """
    if rate >= 1.0:
        return np.arange(count)
    if rate <= 0.0:
        return np.arange(0)
    scale = math.log1p(-rate)
    found: list[Index] = []
    last = -1
    while last < count:
        ask = max(16, math.ceil((count - last) * rate * 1.1) + 16)
        gaps = np.minimum(np.floor(np.log(source.uniform(ask)) / scale), count) + 1
        steps = last + np.cumsum(gaps.astype(np.int64))
        found.append(steps)
        last = int(steps[-1])
    index = np.concatenate(found)
    return index[index < count]


def without_replacement(count: int, batch: int, source: Source) -> Index:
    """A uniform random set of `batch` indices, sorted: the first distinct ones of a uniform sequence, or its
    complement.
    """
    if 2 * batch > count:
        kept = np.ones(count, dtype=bool)
        kept[without_replacement(count, count - batch, source)] = False
        return np.flatnonzero(kept)
    found = np.zeros(0, dtype=np.int64)
    while len(found) < batch:
        sequence = np.concatenate((found, source.integers(count, 2 * (batch - len(found)) + 16)))
        _, first = np.unique(sequence, return_index=True)
        found = sequence[np.sort(first)]
    return np.sort(found[:batch])


def shuffled(count: int, batches: int, source: Source) -> list[Index]:
    """A uniform order of all units, cut into `batches` parts."""
    return [np.sort(part) for part in np.array_split(source.permutation(count), batches)]


def allocated(count: int, batches: int, source: Source) -> list[Index]:
    """Every unit in one of `batches` steps, independently and uniformly."""
    step = source.integers(batches, count)
    ends = np.cumsum(np.bincount(step, minlength=batches))[:-1]
    return np.split(np.argsort(step, kind="stable"), ends)


Draw = Callable[[Plan, int, Source], list[Index]]
DRAWS: dict[type[Sampling], Draw] = {
    Independent: lambda plan, count, source: [poisson(count, plan.rate, source)],
    WithoutReplacement: lambda plan, count, source: [without_replacement(count, round(plan.expected_batch), source)],
    Everyone: lambda plan, count, source: [np.arange(count)],
    InShuffledOrder: lambda plan, count, source: shuffled(count, plan.steps_per_pass, source),
    Allocated: lambda plan, count, source: allocated(count, plan.steps_per_pass, source),
    InCycles: lambda plan, count, source: shuffled(count, plan.steps_per_pass, source),
}
"""For every kind of sampling, a function that draws the units of all steps of one draw: a single step, or a pass."""
