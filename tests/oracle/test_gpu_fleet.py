"""A fleet on a GPU is the fleet on a processor: plain and private, compiled and eager."""

import numpy as np
import pytest
import torch
from torch import nn

from tacit.fleet import Epochs, Fleet
from tacit.loss import Plan

pytestmark = [pytest.mark.needs("gpu"), pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
DEVICE = "cuda"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 80)
MEMBER = RNG.random((80, 70)) < 0.5


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


@pytest.mark.parametrize("start", ["a module", "a function"])
@pytest.mark.parametrize(
    "schedule",
    [Epochs(3, 16), Plan(80, 0.2, 20, 1.0), Plan(80, 0.2, 60, 1.0)],
    ids=["plain", "private", "private and compiled"],
)
def test_models_are_the_processors(schedule, start: str) -> None:
    """Logits within 1e-4 of their size: same starts, batches and noise."""
    torch.manual_seed(0)
    begin = make() if start == "a module" else make

    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)

    found = [
        Fleet(begin, optimizer, device=device).train(X, Y, MEMBER, schedule, own=[3, 5], rng=1).logits(X)
        for device in (DEVICE, "cpu")
    ]
    assert np.abs(found[0] - found[1]).max() <= 1e-4 * np.abs(found[1]).max()
