"""The GPU's kernel for the gradients of biases: interpreted, as a traced step has it, and on the device."""

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

from tacit.train.clip.compile.position_sums import pays
from tacit.train.clip.rules.operators import reduced

DEVICE = "cuda"
PROGRAM = """
import sys

import torch

from kernel_mutants import changed
from tacit.train.clip.compile import position_sums_kernels

MUTANTS = {
    "another example": ("program // BLOCKS", "program % BLOCKS"),
    "the first columns again": ("program % BLOCKS * C", "0 * C"),
    "the last positions left out": ("range(0, T, R)", "range(0, T - R, R)"),
    "positions of the next example": ("(row < T)[:, None]", "(row < 2 * T)[:, None]"),
    "sums that are rounded on the way": ("total += tl.load", "total = total.to(tl.float16).to(tl.float32) + tl.load"),
    "one block's columns": ("example * (T * D)", "example * T"),
}


def right_by(module, shape):
    module.ROWS, module.COLUMNS = 4, 16
    torch.manual_seed(0)
    values = torch.randn(shape[0] + 1, *shape[1:]).half()[: shape[0]]
    expected = values.double().sum(1)
    return torch.allclose(module.sums(values).double(), expected, rtol=2**-11, atol=1e-6)


SHAPES = ((3, 7, 16), (2, 9, 21), (4, 4, 5), (2, 200, 48))
for shape in SHAPES:
    assert right_by(position_sums_kernels, shape), shape
for name, (old, new) in MUTANTS.items():
    mutant = changed(position_sums_kernels, old, new, sys.argv[1])
    assert not all(right_by(mutant, shape) for shape in SHAPES), name
"""


@pytest.mark.needs("triton")
def test_the_interpreted_kernel_is_right_and_no_mutant_is(tmp_path) -> None:
    found = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": found}
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, check=True)


def gradient(*shape: int, kind: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(shape, device=DEVICE, dtype=kind)


def kernels(values: Tensor, shape: tuple[int, ...]) -> int:
    """How many kernels of ours a traced reduction to one record's `shape` has."""
    traced = make_fx(lambda given: reduced(given, torch.Size(shape)), tracing_mode="fake")(values)
    (found,) = traced.graph.output_node().all_input_nodes
    assert found.meta["val"].shape == (len(values), *shape)
    return [str(node.target) for node in traced.graph.nodes].count("tacit.position_sums.default")


def test_a_traced_step_adds_up_a_bias_by_one_kernel() -> None:
    with FakeTensorMode():
        assert kernels(gradient(32, 1, 256, 768), (768,)) == 1
        assert kernels(gradient(32, 256, 768), (1, 768)) == 1
        assert kernels(gradient(32, 1, 768, 768), (768, 1)) == 0
        assert kernels(gradient(32, 8, 256, 768), (8, 1, 768)) == 0


def test_the_kernel_is_for_many_numbers_in_reduced_precision_that_lie_in_order() -> None:
    assert not pays(torch.zeros(32, 256, 768, dtype=torch.bfloat16))
    with FakeTensorMode():
        assert pays(gradient(32, 1, 256, 768))
        assert not pays(gradient(32, 256, 768, kind=torch.float32))
        assert not pays(gradient(32, 256, 8))
        assert not pays(gradient(2**15, 1, 768))
        assert not pays(gradient(32, 768, 256).mT)


@pytest.mark.needs("gpu")
@pytest.mark.slow
@pytest.mark.parametrize("shape", [(32, 1, 256, 768), (3, 2, 301, 771)])
def test_on_a_gpu_the_kernel_adds_up_in_float32(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    values = torch.randn(shape, device=DEVICE).bfloat16()
    found = torch.ops.tacit.position_sums(values)
    expected = values.double().flatten(1, -2).sum(1)
    torch.testing.assert_close(found.double(), expected, rtol=2**-8, atol=1e-3)
