"""A step done at once gives the gradients of the step done part by part, not recorded here for want of a GPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tacit.loss import Plan
from tacit.train import PrivateStep, Speed, private
from tacit.train.derive import derived
from tacit.train.sample import Batch
from tacit.train.totals import Part
from tacit.train.whole import Whole, fits


def trained(start: nn.Module, x: Tensor, y: Tensor, *, at_once: bool) -> tuple[list[Tensor], int]:
    """Parameters after some steps, and how many of them were done at once."""
    model = copy.deepcopy(start)
    plan, speed = Plan(40, 0.3, 8, 1.0, 0.5), Speed(physical_batch=14, compile=True)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, rng=5, speed=speed)
    step._noise_key = as_on_a_gpu(step)
    step._release._together = lambda: False
    done = 0
    for batch in step.batches((x, y)):
        if at_once and fits(step._total, step._release, batch):
            step._recorded = True
            step._whole = step._whole or Whole(step._total, step._release, batch.examples, 14, recorded=False)
            done += 1
        step(batch)
        step._recorded = False
    return [parameter.detach() for parameter in model.parameters()], done


def as_on_a_gpu(step: PrivateStep):
    def key(batch: Batch, parts: list[Part]) -> Tensor:
        norms, losses = (torch.cat([getattr(part, name) for part, _ in parts]) for name in ("norms", "losses"))
        return derived(torch.cat((norms, losses, *step._total.marks)), step._two_keys(batch))

    return key


@pytest.mark.parametrize("broken", [False, True], ids=["finite", "not finite"])
def test_at_once_is_part_by_part(broken: bool) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    if broken:
        x[::4] = torch.inf
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    (theirs, none), (ours, done) = (trained(model, x, y, at_once=way) for way in (False, True))
    assert none == 0
    assert done >= 3
    for one, other in zip(ours, theirs, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)
