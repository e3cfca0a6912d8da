"""The GPU's kernels for convolutions, interpreted statement by statement, against one backward pass per example."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import torch
import torch.nn.functional as F

from tacit.train.clip.compile.conv_kernels import Geometry, squares, weighted

CASES = (  # examples, images each, channels, size, rows, kernel, stride, padding, dilation
    (3, 1, 8, (6, 7), 16, (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 2, 3, (9, 8), 20, (3, 2), (2, 1), (1, 0), (1, 2)),
    (2, 1, 16, (5, 5), 130, (3, 3), (2, 2), (1, 1), (1, 1)),
    (3, 1, 1, (12, 12), 5, (8, 8), (2, 2), (3, 3), (1, 1)),
    (2, 3, 4, (4, 4), 4, (1, 1), (2, 2), (0, 0), (1, 1)),
)
torch.manual_seed(0)
for examples, each, channels, size, rows, kernel, *moves in CASES:
    for kind in (torch.float32, torch.float16):
        images = torch.randn(examples * each, channels, *size).to(kind)
        weight = torch.zeros(rows, channels, *kernel, requires_grad=True)
        output = F.conv2d(images.float(), weight, None, *moves)
        errors = torch.randn_like(output).to(kind)
        found = []
        for one in torch.arange(examples * each).split(each):
            made = F.conv2d(images[one].float(), weight, None, *moves)
            found.append(torch.autograd.grad(made, weight, errors[one].float())[0])
        found, share = torch.stack(found), torch.rand(examples)
        last = [side.permute(0, 2, 3, 1).contiguous() for side in (images, errors)]
        norms = squares(*last, Geometry(kernel, *moves), each)
        total = weighted(*last, share, Geometry(kernel, *moves), each)
        torch.testing.assert_close(norms, found.flatten(1).square().sum(1), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(total, torch.einsum("b,b...->...", share, found), rtol=1e-5, atol=1e-4)
"""


@pytest.mark.needs("triton")
def test_interpreted_kernels_give_norms_and_sums_of_one_backward_pass_per_example() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
