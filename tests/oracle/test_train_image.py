"""A traced step whose convolutions go through the GPU's kernels, interpreted here, against the eager step."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn

from tacit.train.clip import Clipper, Compiled
from tacit.train.clip.compile import image
from tacit.train.sample.augment import Several, averaged

used = []
image.narrow = lambda values: True
torch.compile = lambda traced, **_: used.append(str(traced.graph)) or traced


def classify(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def agree(model, batch, rows, kernels):
    clipper = Clipper(model, averaged(classify), dict(model.named_parameters()), 0.5)
    mask = torch.arange(rows) < rows - 1
    fast, slow = Compiled(clipper)(batch, mask), clipper(batch, mask)
    assert used.pop().count("tacit.image_squares") == kernels
    torch.testing.assert_close(fast.norms, slow.norms, rtol=1e-5, atol=1e-6)
    for name, total in slow.sums.items():
        torch.testing.assert_close(fast.sums[name], total, rtol=1e-4, atol=1e-6)


torch.manual_seed(0)
first = nn.Sequential(
    nn.Conv2d(2, 3, (4, 3), padding="same", dilation=(1, 2)), nn.Tanh(),
    nn.Conv2d(3, 4, 3, stride=(2, 1), padding=(0, 1)), nn.Tanh(),
    nn.Conv2d(4, 4, 2, groups=2), nn.Flatten(), nn.LazyLinear(3),
)
x, y = torch.randn(4, 2, 7, 6), torch.arange(4) % 3
first(x)
agree(first, (x, y), 4, 2)
versions = Several((torch.randn(3, 2, 2, 7, 6), (torch.arange(3) % 3)[:, None].expand(-1, 2)), torch.full((3, 2), 0.5))
agree(first, versions, 3, 2)
line = nn.Sequential(nn.Conv1d(2, 3, 3), nn.Flatten(), nn.LazyLinear(3))
line(x[:, :, 0])
agree(line, (x[:, :, 0], y), 4, 0)
"""


@pytest.mark.needs("triton")
def test_a_traced_step_with_kernels_is_the_eager_step() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], env=environment, check=True)
