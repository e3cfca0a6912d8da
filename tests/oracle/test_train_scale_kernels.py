"""The GPU's kernel for a weight per example: interpreted, as a traced step has it, and on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tacit.train.clip.compile.scale import scales
from tacit.train.clip.rules import outer
from tacit.train.clip.rules.outer import Outer

DEVICE = "cuda"
PROGRAM = """
import sys

import torch

from kernel_mutants import changed
from tacit.train.clip.compile import scale_kernels

MUTANTS = {
    "another example's weight": ("program // BLOCKS", "program % BLOCKS"),
    "one weight for all": ("weight + example", "weight"),
    "the same block again": ("program % BLOCKS * BLOCK", "0 * BLOCK"),
    "numbers of the next example": ("values += example * EACH", "values += example * (EACH + 1)"),
    "a weight that is rounded": ("tl.load(weight + example)", "tl.load(weight + example).to(tl.float16)"),
}


def right_by(module, shape):
    module.BLOCK = 16
    torch.manual_seed(0)
    values, weight = torch.randn(shape).half(), torch.rand(shape[0])
    expected = (values.float() * weight.view(-1, *(1,) * (len(shape) - 1))).half()
    return torch.equal(module.scaled(values, weight), expected)


SHAPES = ((3, 5), (2, 1, 16, 4), (4, 1, 7, 9), (1, 1, 3, 16))
for shape in SHAPES:
    assert right_by(scale_kernels, shape), shape
for name, (old, new) in MUTANTS.items():
    mutant = changed(scale_kernels, old, new, sys.argv[1])
    assert not all(right_by(mutant, shape) for shape in SHAPES), name
"""


@pytest.mark.needs("triton")
def test_the_interpreted_kernel_is_right_and_no_mutant_is(tmp_path) -> None:
    found = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": found}
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, check=True)


def side(width: int, kind: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(32, 1, 256, width, device=DEVICE, dtype=kind)


def test_a_traced_step_scales_the_smaller_side_by_one_kernel(monkeypatch) -> None:
    monkeypatch.setattr(outer, "crossed", lambda left, right, _: left)  # products need a GPU, even to be traced
    monkeypatch.setattr(Outer, "_cut", lambda outer, found: found)

    def added(left: Tensor, right: Tensor, weight: Tensor) -> Tensor:
        return Outer(left, right, torch.Size((8192, 768))).weighted(weight)

    with FakeTensorMode():
        graph = make_fx(added, tracing_mode="fake")(side(768), side(3072), torch.empty(32, device=DEVICE)).graph
    (node,) = [node for node in graph.nodes if str(node.target) == "tacit.scaled.default"]
    assert node.meta["val"].shape == (32, 1, 256, 768)


def test_the_kernel_is_for_many_numbers_in_reduced_precision_that_lie_in_order() -> None:
    assert not scales(torch.zeros(32, 1, 256, 768, dtype=torch.bfloat16))
    with FakeTensorMode():
        assert scales(side(768))
        assert not scales(side(768, torch.float32))
        assert not scales(side(8))
        assert not scales(side(768).mT)


@pytest.mark.needs("gpu")
@pytest.mark.slow
@pytest.mark.parametrize("width", [768, 771])
def test_on_a_gpu_the_kernel_rounds_as_torch_does(width: int) -> None:
    torch.manual_seed(0)
    values, weight = torch.randn(32, 1, 256, width, device=DEVICE).bfloat16(), torch.rand(32, device=DEVICE)
    expected = (values.float() * weight.view(-1, 1, 1, 1)).bfloat16()
    assert torch.equal(torch.ops.tacit.scaled(values, weight), expected)
