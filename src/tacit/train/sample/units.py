"""The units of privacy in some data, records or users, and the batch that each step of a plan makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import ArrayLike

from ...core import BadInput
from ...loss import Plan
from ..clip.tree import mapped
from ..noise.keys import Keystream
from .augment import Augment, Several
from .collate import Collate
from .draw import Sampler
from .examples import AT_ONCE, Batch, Examples, check_count, physical_size
from .sizes import part_sizes, parts_at_most
from .users import Users

CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Units:
    """Sample units by the plan; `people` maps records to users if the unit is a user."""

    examples: Examples
    people: Users | None
    sampler: Sampler
    sizes: tuple[int, ...]
    slots: int
    fixed: bool

    def __call__(self, order: int, key: bytes, records: bytes) -> Batch:
        """The sample of step number `order`: `key` draws the units, `records` the rows of those that have many."""
        index, shares = self.sampler(order, key), None
        if self.people is not None:
            index, shares = self.people.table(index, Keystream(records))
        *smaller, physical = self.sizes
        return Batch(self.examples, index, order, physical, self.fixed, shares, tuple(smaller), self.slots)

    def form(self) -> Any:
        """A batch of one unit of zeros, in the form that steps get."""
        most = 1 if self.people is None else self.people.most
        rows = self.examples.form(most)
        if self.people is None:
            return rows
        return Several(mapped(lambda tensor: tensor[None], rows), torch.full((1, most), 1 / most))


def units(
    data: object,
    plan: Plan,
    *,
    users: ArrayLike | None,
    most: int | None,
    augment: Augment | None,
    physical: int | None,
    processes: int,
    fixed: bool,
    collate: Collate | None = None,
    workers: int = 0,
    device: torch.device = CPU,
) -> Units:
    """Units of `data`, as many as the plan was made for; `fixed` physical batches have one of a few public sizes."""
    examples = Examples.of(data, collate, workers).on(device)
    people = _people(users, most, examples.count, plan, augment)
    count = examples.count if people is None else len(people.records)
    check_count(count, plan.public_size, people=people is not None)
    rows = people.most if people is not None else 1 if augment is None else augment.times
    expected = plan.expected_batch / processes
    if not fixed:
        sizes: tuple[int, ...] = (max(1, physical_size(expected * rows, physical) // rows),)
        return Units(examples, people, Sampler(plan, count), sizes, 1, fixed)
    deviation = 0.0 if plan.sampling.exact else math.sqrt(expected)
    long = plan.steps if examples.direct else 0  # records that are read differ in length: one size for each
    sizes = part_sizes(expected, deviation, max(1, (physical or AT_ONCE) // rows), long)
    return Units(examples, people, Sampler(plan, count), sizes, parts_at_most(expected, deviation, sizes[-1]), fixed)


def _people(ids: ArrayLike | None, most: int | None, rows: int, plan: Plan, augment: Augment | None) -> Users | None:
    if (ids is None) != (plan.unit != "user"):
        raise BadInput(
            f"The plan's unit is {plan.unit!r}, and users were {'not ' if ids is None else ''}given.",
            fix='Give users with Plan(unit="user"), and only then.',
        )
    if ids is None and most is not None:
        raise BadInput("records_per_user goes with users.", fix="Give users, one id per record, or leave it out.")
    if ids is None:
        return None
    if augment is not None:
        raise BadInput("Augmentation goes with single records; a user's records are averaged already.")
    return Users.of(ids, most, rows)
