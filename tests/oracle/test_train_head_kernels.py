"""The GPU's kernel for the logarithm of sums of exponentials: interpreted, as a traced step has it, on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tacit.train.clip import Clipper
from tacit.train.clip.compile import graph, head
from tacit.train.clip.compile.compiled import Compiled

DEVICE = "cuda"
PROGRAM = """
import sys

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from kernel_mutants import changed
from tacit.train.clip.compile import graph, head, head_kernels

MUTANTS = {
    "a sum in old units": ("total * tl.exp(largest - higher)", "total"),
    "the last block lost": ("if WHOLE < COLUMNS:", "if WHOLE > COLUMNS:"),
    "numbers beyond the end": ("WHOLE + place < COLUMNS", "WHOLE + place < 2 * COLUMNS"),
    "rows end to end": ("row * apart * STEP", "row * COLUMNS"),
    "no floor": ("largest, total = -3.0e38, 0.0", "largest, total = float('-inf'), 0.0"),
    "nothing taken off": ("tl.exp(block - higher)", "tl.exp(block)"),
    "the largest lost": ("found + 3 * row, largest)", "found + 3 * row, 0.0)"),
    "the label's place, not its number": ("tl.load(values + own, mask", "tl.load(label + row, mask"),
    "a label beyond the end": ("(own >= 0) & (own < COLUMNS)", "own >= 0"),
    "a label before the start": ("(own >= 0) & (own < COLUMNS)", "own < COLUMNS"),
}


def right_by(module, columns, kind, apart):
    module.BLOCK = 16
    torch.manual_seed(columns)
    values = (30 * torch.randn(8, columns + apart)).to(kind)
    values[2, :16] = -float("inf")
    values[3] += 1000
    values[4] -= 1000
    values = values[1:7, :columns]  # what lies around it may be read by mistake
    label = torch.tensor([0, columns - 1, 16, -1, columns, columns // 2])
    own = values.double().gather(1, label.clamp(0, columns - 1)[:, None])
    own[3:5] = 0
    found, expected = module.log_sum_exp(values, label), values.double().logsumexp(1, keepdim=True)
    assert found.dtype == torch.float32
    found = torch.stack((found[:, :2].double().sum(1), found[:, 2].double()), 1)
    return torch.allclose(found, torch.cat((expected, own), 1), rtol=1e-6, atol=1e-5)


SLOPES = {
    "another row's label": ("tl.load(label + row), tl", "tl.load(label), tl"),
    "the largest lost twice": ("block - largest - rest", "block - 2 * largest - rest"),
    "the logarithm kept": ("block - largest - rest", "block - largest"),
    "nothing at the label": ("place == own, share, 0.0)", "place == own, 0.0, 0.0)"),
    "the same share for all rows": ("tl.load(total + row)", "tl.load(total)"),
    "numbers where zeros belong": ("tl.where(inside, slope, 0.0)", "slope"),
    "rows end to end": ("row * stride * STEP", "row * COLUMNS"),
    "zeros left out": ("place < width * WHOLE", "place < COLUMNS"),
}


def right_slopes(module, columns, kind, apart, more):
    module.BLOCK = 16
    torch.manual_seed(columns)
    values = (5 * torch.randn(8, columns + apart)).to(kind)[1:7, :columns]
    label, total = torch.tensor([0, columns - 1, 16, -1, columns, 3]), torch.rand(6) + 0.1
    there = (label[:, None] == torch.arange(columns)).double()
    expected = total[:, None].double() * (there - values.double().softmax(1))
    sums = module.log_sum_exp(values, label)
    found = module.softmax_gradient(values, sums, label, total, columns + more, torch.float32)
    close = torch.allclose(found[:, :columns].double(), expected, rtol=1e-5, atol=1e-6)
    return close and bool((found[:, columns:] == 0).all())


CASES = [(columns, kind, apart) for columns in (17, 48, 53) for kind in (torch.float32, torch.float16)
         for apart in (0, 3, 8 - columns % 8)]
for case in CASES:
    assert right_by(head_kernels, *case), case
for name, (old, new) in MUTANTS.items():
    mutant = changed(head_kernels, old, new, sys.argv[1])
    assert not all(right_by(mutant, *case) for case in CASES), name

for case in CASES:
    for more in (0, 5, 8 - case[0] % 8):
        assert right_slopes(head_kernels, *case, more), (case, more)
for name, (old, new) in SLOPES.items():
    mutant = changed(head_kernels, old, new, sys.argv[1])
    assert not all(right_slopes(mutant, *case, 5) for case in CASES), name

rows = torch.randn(4, 40)
rows[0, 3], rows[1, 3], rows[2] = float("nan"), float("inf"), -float("inf")
largest, rest, _ = head_kernels.log_sum_exp(rows, torch.zeros(4, dtype=torch.int64)).split(1, 1)
lost = rows - largest - rest
for one, other in zip(lost, F.log_softmax(rows, 1), strict=True):
    assert bool(one.isfinite().all()) == bool(other.isfinite().all())

head.is_long = lambda values: values.ndim == 2


def slope(values, label, **options):
    values = values.detach().requires_grad_()
    loss = F.cross_entropy(values, label, **options)
    return loss.detach(), torch.autograd.grad(loss.square().sum(), values)[0]


given = 5 * torch.randn(7, 43), torch.randint(0, 43, (7,)).index_fill(0, torch.tensor([2]), -100)
for options, kernels in (
    ({"reduction": "none"}, 1), ({"reduction": "none", "weight": torch.rand(43)}, 1), ({"reduction": "mean"}, 0),
    ({"reduction": "none", "label_smoothing": 0.1}, 0), ({"reduction": "none", "ignore_index": 5}, 1),
):  # fmt: skip
    if options.get("ignore_index") == 5:
        given[1][2:4] = 5
    traced = graph.rewritten(
        make_fx(lambda *given: slope(*given, **options), tracing_mode="fake", _allow_non_fake_inputs=True)(*given)
    )
    targets = [str(node.target) for node in traced.graph.nodes]
    assert targets.count("tacit.log_sum_exp.default") == kernels, options
    assert targets.count("tacit.softmax_gradient.default") == kernels, options
    assert targets.count("aten.exp.default") == 0 or not kernels, options
    for found, expected in zip(traced(*given), slope(*given, **options), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

# a product that wants longer rows reads the gradient with zeros, another one without
def products(rows, weight, label):
    values = (rows @ weight.t()).detach().requires_grad_()
    loss = F.cross_entropy(values, label, reduction="none")
    slopes = torch.autograd.grad(loss.square().sum(), values)[0]
    return slopes @ weight, F.pad(slopes.view(7, 1, 43), (0, 5)).flatten(0, 1).t() @ rows


head.MANY = 0
several = torch.randn(7, 6), torch.randn(43, 6), given[1]
traced = graph.rewritten(make_fx(products, tracing_mode="fake", _allow_non_fake_inputs=True)(*several))
targets = [str(node.target) for node in traced.graph.nodes]
assert targets.count("tacit.softmax_gradient.default") == 1
widths = [tuple(node.meta["val"].shape) for node in traced.graph.nodes if "softmax_gradient" in str(node.target)]
assert widths == [(7, 48)]
for found, expected in zip(traced(*several), products(*several), strict=True):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)

# a class that is all but certain: what is left of one
certain = torch.randn(3, 43).index_fill(1, torch.tensor([4]), 15.0) + 1000.0
label = torch.full((3,), 4)
step = lambda values, label: slope(values, label, reduction="none")
traced = graph.rewritten(make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(certain, label))
assert "tacit.log_sum_exp.default" in [str(node.target) for node in traced.graph.nodes]
for found, expected in zip(traced(certain, label), step(certain.double(), label), strict=True):
    torch.testing.assert_close(found.double(), expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))
"""


@pytest.mark.needs("triton")
def test_the_interpreted_kernel_is_right_and_no_mutant_is(tmp_path) -> None:
    found = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": found}
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, check=True)


@pytest.mark.parametrize(
    ("shape", "kind", "device", "axis", "kernels"),
    [
        ((4, 50257), torch.bfloat16, DEVICE, 1, 1),
        ((4, 50257), torch.float32, DEVICE, -1, 1),
        ((4, 50257), torch.float64, DEVICE, 1, 0),
        ((4, 50257), torch.bfloat16, DEVICE, 0, 0),
        ((4, 1000), torch.bfloat16, DEVICE, 1, 0),
        ((2, 4, 50257), torch.bfloat16, DEVICE, 2, 0),
        ((4, 50257), torch.bfloat16, "cpu", 1, 0),
    ],
)
def test_the_kernel_is_for_long_rows_on_a_gpu(
    shape: tuple[int, ...], kind: torch.dtype, device: str, axis: int, kernels: int
) -> None:
    with FakeTensorMode():
        values = torch.empty(shape, dtype=kind, device=device)
        label = torch.empty(shape[:-1] if axis % 2 else shape[1:], dtype=torch.int64, device=device)

        def loss(values: Tensor, label: Tensor) -> Tensor:
            log = F.log_softmax(values, axis)
            return F.nll_loss(log if axis % 2 else log.t(), label, reduction="none") if log.ndim == 2 else log

        traced = graph.rewritten(make_fx(loss, tracing_mode="fake")(values, label))
    targets = [str(node.target) for node in traced.graph.nodes]
    assert targets.count("tacit.log_sum_exp.default") == kernels
    assert targets.count("aten._log_softmax.default") == 1 - kernels


@pytest.mark.parametrize("how", ["labels", "logarithms", "neither"])
def test_what_changes_before_the_loss_reads_it_is_left_to_the_loss(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "is_long", lambda values: True)

    def loss(values: Tensor, label: Tensor) -> Tensor:
        label = label.clone()
        log = F.log_softmax(values, 1).float()
        changed = {"labels": label, "logarithms": log, "neither": values.clone()}[how]
        changed.view(-1)[::2].mul_(2)
        return F.nll_loss(log, label, reduction="none")

    with FakeTensorMode():
        values, label = torch.empty(4, 40, dtype=torch.bfloat16), torch.empty(4, dtype=torch.int64)
        traced = graph.rewritten(make_fx(loss, tracing_mode="fake")(values, label))
    targets = [str(node.target) for node in traced.graph.nodes]
    assert targets.count("tacit.log_sum_exp.default") == int(how == "neither")


@pytest.mark.needs("gpu")
@pytest.mark.slow
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("wide", [50257, 50264])
def test_on_a_gpu_the_kernel_is_torchs_function(kind: torch.dtype, wide: int) -> None:
    torch.manual_seed(0)
    values = (4 * torch.randn(600, wide, device=DEVICE)).to(kind)[:, :50257]
    values[5, :9000] = -float("inf")
    label = torch.randint(0, 50257, (600,), device=DEVICE)
    found = torch.ops.tacit.log_sum_exp(values, label)
    assert torch.equal(found, torch.ops.tacit.log_sum_exp(values, label))
    whole = found[:, :2].double().sum(1)
    torch.testing.assert_close(whole, values.double().logsumexp(1), rtol=1e-6, atol=1e-5)
    assert torch.equal(found[:, 2], values.gather(1, label[:, None]).squeeze(1).float())
    total = torch.rand(600, device=DEVICE)
    slopes = torch.ops.tacit.softmax_gradient(values, found, label, total, 50264, kind)
    expected = total[:, None].double() * (F.one_hot(label, 50257) - values.double().softmax(1))
    torch.testing.assert_close(slopes[:, :50257].double(), expected, rtol=2**-8, atol=1e-6)
    assert not slopes[:, 50257:].any()


@pytest.mark.needs("gpu")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("biased", [False, True])
def test_on_a_gpu_a_compiled_step_uses_the_kernel_and_clips_as_the_eager_one(biased: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8209, 64), nn.LayerNorm(64), nn.Linear(64, 8209, bias=biased)).to(DEVICE)

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        losses = F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten(), reduction="none")
        return losses.view(batch[1].shape).mean(1)

    clipper = Clipper(model, loss, dict(model.named_parameters()), 0.1, "bfloat16")
    ids, words = (torch.randint(0, 8209, (8, 64), device=DEVICE) for _ in range(2))
    batch, mask = (ids, words.masked_fill(words % 7 == 0, -100)), torch.ones(8, dtype=torch.bool, device=DEVICE)
    compiled = Compiled(clipper)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        fast = compiled(batch, mask)
    assert {"_log_sum_exp", "_softmax_gradient"} <= {event.key for event in profile.key_averages()}
    slow = clipper(batch, mask)
    torch.testing.assert_close(fast.norms, slow.norms, rtol=0.03, atol=0)
    for name, total in slow.sums.items():
        assert float((fast.sums[name] - total).norm()) <= 0.1 * float(total.norm()) + 1e-3, name
