"""Noise on a grid: whole numbers only, the right scale, exact sums; and the attack that it closes.

Fixed seeds; each test errs with probability below 1e-6.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Speed, fit, private
from tacit.train.claim import FLOATING
from tacit.train.clip import Clipper, Weigh
from tacit.train.clip.rounding import OWN
from tacit.train.noise.grid import Grid
from train_zoo import CLASSES, ZOO, gradients, length, trainable

COUNT = 60_000


def released(noise: str, value: float = 0.0, mutant: float = 1.0) -> tuple[np.ndarray, object]:
    """What one step hands to the optimizer, times the expected batch; one example, one coordinate moved by `value`."""
    model = nn.Linear(COUNT, 1, bias=False)
    nn.init.zeros_(model.weight)
    plan = Plan(10, 1.0, 1, 1.0, clip_norm=1.0, sampling="full")
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), plan, loss=moved, rng=11, noise=noise)
    if mutant != 1.0:
        step._release.grid.noise = Grid(COUNT, 1.0, mutant, OWN["float32"]).noise
    x = torch.zeros(10, COUNT)
    x[0] = value / math.sqrt(COUNT)
    step(next(step.batches((x, torch.zeros(10)))))
    return model.weight.grad.double().numpy().ravel() * plan.expected_batch, step


def moved(model: nn.Module, batch: tuple) -> torch.Tensor:
    return model(batch[0])[:, 0]


def test_noise_has_the_scale_of_the_bound() -> None:
    values, step = released("grid")
    z = values / step._release.grid.bound
    assert stats.chi2.ppf(1e-7, COUNT) < np.square(z).sum() < stats.chi2.isf(1e-7, COUNT)
    assert stats.kstest(z, "norm").pvalue > 1e-7
    assert 1.0 < step._release.grid.bound < 1.001


@pytest.mark.parametrize("mutant", [0.95, 1.05])
def test_the_wrong_scale_is_caught(mutant: float) -> None:
    values, step = released("grid", mutant=mutant)
    z = values / step._release.grid.bound
    assert not stats.chi2.ppf(1e-7, COUNT) < np.square(z).sum() < stats.chi2.isf(1e-7, COUNT)


def test_whole_numbers_do_not_tell_where_they_came_from() -> None:
    """The attack of Mironov 2012: how often is x + noise a multiple of a coarse power of two?

    Floating-point noise near zero has finer bits than float32 sums at 1 can hold, which tells 0 from 1 by one number;
    on the grid every number is as fine as every other, whatever was added.
    """
    spacing = 2.0**-24

    def coarse(values: np.ndarray) -> float:
        steps = values / spacing
        return float((np.abs(steps - np.rint(steps)) < 1e-6).mean())

    torch.manual_seed(0)
    noise = torch.randn(COUNT)
    floating = coarse(noise.double().numpy()), coarse((noise + 1.0).double().numpy())
    assert floating[1] - floating[0] > 0.1
    grid = Grid(1, 1.0, 1.0, OWN["float32"])
    found = []
    for value in (0.0, 1.0):
        sums = [torch.full((COUNT,), value / grid.spacing, dtype=torch.float64)]
        released = grid.noisy(sums, COUNT, bytes(32)).numpy()
        assert (released / grid.spacing == np.rint(released / grid.spacing)).all()
        found.append(coarse(released))
    assert found == [1.0, 1.0]


@pytest.mark.parametrize("clipping", ["flat", "per-layer", "automatic"])
@pytest.mark.parametrize("name", ["mlp", "tied words", "convolutions", "unused layer"])
def test_contributions_are_rounded_before_they_are_added(name: str, clipping: str) -> None:
    torch.manual_seed(1)
    case = ZOO[name]
    model, batch = case.make(), case.batch(5)
    parameters = trainable(model)
    count = sum(tensor.numel() for tensor in parameters.values())
    grid = Grid(count, 0.5, 1.0, OWN["float32"])
    weigh = Weigh.of(Plan(10, 0.5, 1, 1.0, clipping=clipping).clipping, parameters)
    mask = torch.tensor([True, True, False, True, True])
    exact = Clipper(model, case.loss, parameters, 0.5, weigh=weigh)(batch, mask)
    found = Clipper(model, case.loss, parameters, 0.5, weigh=weigh, add=grid.sums)(batch, mask)
    for key, tensor in found.sums.items():
        assert tensor.dtype == torch.float64
        assert torch.equal(tensor, tensor.round())
        assert ((tensor * grid.spacing - exact.sums[key]).abs() <= 4 * grid.spacing).all()


def test_one_example_moves_the_sum_by_at_most_the_bound() -> None:
    torch.manual_seed(1)
    case = ZOO["mlp"]
    model, (x, y) = case.make(), case.batch(6)
    parameters = trainable(model)
    grid = Grid(sum(tensor.numel() for tensor in parameters.values()), 0.01, 1.0, OWN["float32"])
    clipper = Clipper(model, case.loss, parameters, 0.01, add=grid.sums)
    assert min(length(row.values()) for row in gradients(model, case.loss, (x, y))) > 0.01
    whole = clipper((x, y), torch.ones(6, dtype=torch.bool))
    for row in range(6):
        mask = torch.arange(6) != row
        less = clipper((x, y), mask)
        moved = length((whole.sums[key] - less.sums[key]) * grid.spacing for key in whole.sums)
        assert 0.0099 < moved <= grid.bound


def test_a_contribution_that_is_too_long_counts_as_zero() -> None:
    """A weight that does not clip, as a fault would make it."""
    case = ZOO["mlp"]
    torch.manual_seed(1)
    model, batch = case.make(), case.batch(4)
    parameters = trainable(model)
    grid = Grid(sum(tensor.numel() for tensor in parameters.values()), 0.01, 1.0, OWN["float32"])
    fault = Weigh()
    object.__setattr__(fault, "shares", (100.0,))
    found = Clipper(model, case.loss, parameters, 0.01, weigh=fault, add=grid.sums)(batch, torch.ones(4, dtype=bool))
    assert all(not tensor.any() for tensor in found.sums.values())


def test_training_on_a_grid_learns_like_training_in_float32() -> None:
    x = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    found = {}
    for noise in ("float32", "grid"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, CLASSES))
        plan = Plan(300, 0.3, 60, 1.0)
        speed = Speed(physical_batch=32)
        done = fit(model, (x, y), plan, validation=(x + 0, y + 0), rng=0, noise=noise, speed=speed)
        found[noise] = done.evidence.utility["accuracy"]
        assert (FLOATING in done.evidence.not_covered) is (noise == "float32")
        assert done.evidence.provenance["noise"] == noise
        assert done.evidence.claim.event == plan.event
    assert min(found.values()) > 0.7
    assert abs(found["grid"] - found["float32"]) < 0.1


def test_an_empty_sample_is_noised_on_the_grid_too() -> None:
    model = nn.Linear(5, 3)
    before = model.weight.detach().clone()
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(10, 1e-9, 1, 1.0), rng=0, noise="grid")
    step(next(step.batches((torch.zeros(10, 5), torch.zeros(10, dtype=torch.long)))))
    assert (model.weight != before).all()


def test_what_does_not_combine_is_refused() -> None:
    model = nn.Linear(5, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    cyclic = Plan(10, 0.5, 4, 1.0, adjacency="zero-out", sampling="cyclic", bands=2)
    for plan, speed in (
        (Plan(10, 0.5, 4, 1.0, clipping="adaptive"), Speed()),
        (cyclic, Speed()),
        (Plan(10, 0.5, 4, 1.0), Speed(compile=True)),
    ):
        with pytest.raises(BadInput, match="grid goes with"):
            private(model, optimizer, plan, speed=speed, noise="grid")
    with pytest.raises(BadInput, match="'float32' or 'grid'"):
        private(model, optimizer, Plan(10, 0.5, 4, 1.0), noise="none")
