"""The clip norm by a private quantile: its count has the noise it says, and it finds the quantile.

Fixed seeds; each test errs with probability below 1e-6.
"""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from tacit.loss import Adaptive, Plan
from tacit.train import private
from tacit.train.clip import Clipped
from tacit.train.scale.execution import Executed

ERROR = 1e-6
COUNT = 4000
PLAN = Plan(1000, 0.1, 1, 1.0, clip_norm=1.0, clipping=Adaptive(speed=1.0, count_noise=3.0))


def counts(mutant: float = 1.0) -> np.ndarray:
    """Noise of the count, read from where the clip norm went; 30 of 50 norms lie within it."""
    model = nn.Linear(1, 1)
    rule = Adaptive(speed=1.0, count_noise=3.0 * mutant)
    step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(1000, 0.1, 1, 1.0, clipping=rule), rng=3)
    norms = torch.cat((torch.full((30,), 1.0), torch.full((20,), 1.5), torch.full((14,), 0.1)))
    part = Clipped({}, norms, norms, norms > 1), torch.arange(64) < 50
    found = []
    for k in range(COUNT):
        step._clipper.clip_norm = 1.0
        step._clipper.clip_norm = step._next_norm(Executed([part], k.to_bytes(32, "little")))
        share = rule.quantile - math.log(step.clip_norm) / rule.speed
        found.append((share - 0.5) * PLAN.expected_batch - (30 - 50 / 2))
    return np.array(found)


def fits(noise: np.ndarray, scale: float) -> bool:
    z = noise / scale
    mean = abs(z.mean()) * math.sqrt(COUNT) < stats.norm.isf(ERROR / 6)
    spread = stats.chi2.ppf(ERROR / 6, COUNT) < np.square(z).sum() < stats.chi2.isf(ERROR / 6, COUNT)
    return bool(mean and spread and stats.kstest(z, "norm").pvalue > ERROR / 3)


def test_one_unit_moves_the_count_by_a_half_and_the_noise_is_so_scaled() -> None:
    assert fits(counts(), 3.0 * 0.5)


@pytest.mark.parametrize("mutant", [0.9, 1.1, 2.0])
def test_the_wrong_scale_is_caught(mutant: float) -> None:
    assert not fits(counts(mutant), 3.0 * 0.5)


def test_the_clip_norm_finds_the_quantile() -> None:
    """Norms are uniform on (0, 4): the 0.75 quantile is 3. Of log C the noise stays below 0.02."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1, bias=False)
    x = 4 * (torch.arange(2000)[:, None] + 0.5) / 2000
    plan = Plan(2000, 0.1, 150, 1.0, clip_norm=0.2, clipping=Adaptive(quantile=0.75, speed=0.3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = private(model, optimizer, plan, loss=lambda m, b: m(b[0])[:, 0], rng=1)
    for batch in step.batches((x, x)):
        step(batch)
    assert 2.6 < step.clip_norm < 3.4
    assert step.evidence(1e-4).provenance["clipping"] == "adaptive"


def test_the_noise_follows_the_clip_norm() -> None:
    """No example moves this model, so the norm falls from step to step and what is released is noise alone."""
    model = nn.Linear(COUNT, 1, bias=False)
    plan = Plan(100, 0.5, 5, 1.5, clip_norm=2.0, clipping=Adaptive(quantile=0.5, speed=2.0))
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.0), plan, loss=lambda m, b: m(b)[:, 0], rng=2)
    used = []
    for batch in step.batches(torch.zeros(100, COUNT)):
        used.append(step.clip_norm)
        step.gradients(batch)
        squares = float((model.weight.grad.double() * plan.expected_batch / (1.5 * used[-1])).square().sum())
        assert stats.chi2.ppf(ERROR / 10, COUNT) < squares < stats.chi2.isf(ERROR / 10, COUNT)
    assert used[0] > 10 * used[-1]


def test_a_restored_run_keeps_its_clip_norm() -> None:
    model = nn.Linear(1, 1)
    plan = Plan(100, 0.5, 6, 1.0, clipping="adaptive")
    data = torch.randn(100, 1), torch.zeros(100, dtype=torch.long)

    def run(steps: int, state: dict | None = None) -> dict:
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, loss=lambda m, b: m(b[0])[:, 0], rng=5)
        if state is not None:
            step.load_state_dict(state)
        for batch in step.batches(data):
            step(batch)
            if step.done == steps:
                break
        return step.state_dict()

    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    whole = run(6)["clip_norm"]
    model.load_state_dict(start)
    half = run(3)
    assert len({1.0, half["clip_norm"], whole}) == 3
    assert run(6, half)["clip_norm"] == whole
