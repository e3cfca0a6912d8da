"""The GPU's kernel for squared norms by inner products: interpreted, as a traced step has it, and on the device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tacit.train.clip import Clipper
from tacit.train.clip.compile import inner
from tacit.train.clip.compile.compiled import Compiled
from tacit.train.clip.rules import outer as terms
from tacit.train.clip.rules.outer import Outer
from train_zoo import CLASSES, classify, trainable

DEVICE = "cuda"
PROGRAM = """
import sys

import torch

from kernel_mutants import changed
from tacit.train.clip.compile import inner, inner_kernels
from tacit.train.clip.rules import outer as terms
from tacit.train.clip.compile.inner import Tile

MUTANTS = {
    "a pair counted once": ("T, M, 2.0)", "T, M, 1.0)"),
    "a block with itself counted twice": ("T, M, 1.0)", "T, M, 2.0)"),
    "parts of a block with itself left out": ("if TIMES == 1.0:", "if TIMES == 3.0:"),
    "signs kept": ("tl.abs(two)", "two"),
    "the other side's inner products": ("tl.abs(two)", "tl.abs(one)"),
    "lengths of one block only": ("across[None, :]", "down[None, :]"),
    "no block but itself": ("second = (first + apart) % BLOCKS", "second = first + 0 * apart"),
    "rows of the next sequence": ("(row < T)[:, None]", "(row < 2 * T)[:, None]"),
    "parts that may cancel counted by their product": ("tl.sqrt(own) * down[:, None]", "own * down[:, None]"),
    "parts of other pairs counted too": ("row[:, None] == column[None, :]", "row[:, None] >= 0"),
    "numbers of the next row": ("(place < LENGTH)[None, :]", "(place < 2 * LENGTH)[None, :]"),
}


def naive(left, right):
    left, right = left.double(), right.double()
    ours, other = left @ left.mT, right @ right.mT
    lengths = left.norm(dim=-1)
    return torch.stack([
        (ours * other).sum((1, 2)), (lengths[:, :, None] * lengths[:, None, :] * other.abs()).sum((1, 2)),
        (lengths * right.norm(dim=-1)).sum(1), right.square().sum((1, 2)),
    ])


def right_by(sums, case, kind):
    count, positions, rows, columns = case
    torch.manual_seed(0)
    left, right = (torch.randn(count + 1, positions, size).to(kind)[:count] for size in (rows, columns))
    lengths = left.float().norm(dim=-1)
    rows = (side.flatten(0, 1) for side in (left, right, lengths))
    found = sums(*rows, positions, Tile(16, 16, 4, 3, 1.0)).sum(2).double()
    return torch.allclose(found, naive(left, right), rtol=1e-5)


# one block, an odd and an even number of blocks, and one that is full
CASES = ((2, 9, 5, 24), (2, 37, 24, 8), (1, 50, 8, 40), (3, 32, 16, 16))
for case in CASES:
    for kind in (torch.float32, torch.float16):
        assert right_by(inner_kernels.sums, case, kind), case
for name, (old, new) in MUTANTS.items():
    mutant = changed(inner_kernels, old, new, sys.argv[1])
    assert not right_by(mutant.sums, CASES[1], torch.float16), name

terms.narrow = terms.pays = terms.Outer._by_inner = lambda *sides: True
inner.TILES = (Tile(16, 16, 4, 3, 1.0),)
for rows, columns in ((5, 24), (24, 5)):
    left, right = torch.randn(3, 2, 21, rows).half(), torch.randn(3, 2, 21, columns).half()
    narrower = (left, right) if rows < columns else (right, left)
    for sides, same in ((narrower, True), (narrower[::-1], False)):
        norms, room, reach, _ = naive(*(side.flatten(0, 1) for side in sides)).view(4, 3, 2)
        norms, room = norms.sum(1), room.sum(1)
        counted = norms + terms.inner_error(32, 21, torch.bfloat16) * reach.square().sum(1)
        outer = terms.Outer(left, right, torch.Size((2, rows, columns)))
        torch.testing.assert_close(outer.norm2({}).double(), counted, rtol=3e-6, atol=0)
        assert (counted > norms * (1 + 1e-5)).all()
        assert torch.allclose(outer.slack2({}).double(), (1 + terms.EVEN) * terms.UNIT**2 * room, rtol=1e-5) is same
    gradients = torch.einsum("bgtp,bgtd->bgpd", left.double(), right.double())
    torch.testing.assert_close(norms, gradients.square().sum((1, 2, 3)))

from torch.fx.experimental.proxy_tensor import make_fx


def step(left, right, other, lengths):
    first = inner.inner_sums(left, right, lengths, 21)
    kept = first.sum(2) + 1
    unlike = (right * 2).sum()
    second = inner.inner_sums(right, other, lengths * 3, 21)
    third = kept * inner.inner_sums(left[:21], other[:21], lengths[:21], 21).sum()
    return kept + second.sum(2), third, unlike


given = *(torch.randn(42, size).half() for size in (5, 24, 8)), torch.rand(42)
traced = make_fx(step, tracing_mode="fake")(*given)
before = traced(*given)
inner.norms_together(traced.graph)
traced.graph.lint()
traced.recompile()
assert [str(node.target) for node in traced.graph.nodes].count("tacit.inner_sums.default") == 0
assert all(torch.equal(*pair) for pair in zip(before, traced(*given), strict=True))


def writing(left, right, lengths):
    first = inner.inner_sums(left, right, lengths, 21).sum(2)
    lengths.mul_(2)
    return first + inner.inner_sums(left, right, lengths, 21).sum(2)


traced = make_fx(writing, tracing_mode="fake")(*given[:2], given[3].clone())
inner.norms_together(traced.graph)
assert [str(node.target) for node in traced.graph.nodes].count("tacit.inner_sums.default") == 2
"""


@pytest.mark.needs("triton")
def test_the_interpreted_kernel_gives_norms_and_room_and_no_mutant_does(tmp_path) -> None:
    found = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": found}
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, check=True)


def side(width: int, positions: int = 256, kind: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.empty(32, 1, positions, width, device=DEVICE, dtype=kind)


def test_a_traced_step_has_one_kernel_for_norm_and_room() -> None:
    def both(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor | float]:
        outer = Outer(left, right, torch.Size((768, 3072)))
        return outer.norm2({}), outer.slack2({})

    with FakeTensorMode():
        graph = make_fx(both, tracing_mode="fake")(side(768), side(3072)).graph
    assert [str(node.target) for node in graph.nodes].count("tacit.inner_sums.default") == 1


def test_the_kernel_is_for_long_sequences_in_reduced_precision_that_lie_in_order() -> None:
    assert not inner.pays(torch.zeros(32, 1, 256, 8, dtype=torch.bfloat16), torch.zeros(32, 1, 256, 8))
    with FakeTensorMode():
        assert inner.pays(side(768), side(3072))
        assert not inner.pays(side(768, kind=torch.float32), side(3072, kind=torch.float32))
        assert not inner.pays(side(768, 80), side(3072, 80))
        assert not inner.pays(side(256, 768).mT, side(3072))
        assert not inner.pays(side(3072), side(256, 768).mT)


@pytest.mark.parametrize("positions", [64, 111, 256, 300, 1000])
def test_blocks_that_pay_cover_every_pair_once_and_no_more_than_all(positions: int) -> None:
    for tile in inner.TILES:
        blocks = -(-positions // tile.block)
        pairs = [divmod(pair, blocks) for pair in range(tile.pairs(positions))]
        met = {frozenset((first, (first + apart) % blocks)) for apart, first in pairs}
        assert len(met) == len(pairs) == blocks * (blocks + 1) // 2
    few, many = inner.chosen(1, positions), inner.chosen(10_000, positions)
    assert few.block <= many.block


@pytest.mark.needs("gpu")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "groups", "positions", "rows", "columns"),
    [(32, 1, 256, 768, 3072), (4, 2, 300, 72, 40), (3, 1, 1000, 129, 1001), (2, 1, 256, 50257, 768)],
)
def test_on_a_gpu_both_ways_to_norm_and_room_agree(
    batch: int, groups: int, positions: int, rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both within rounding of float32 of a product of lengths, which is what cancellation leaves; twice bit for bit."""
    torch.manual_seed(0)
    left = torch.randn(batch, groups, positions, rows, device=DEVICE, dtype=torch.bfloat16)
    right = torch.randn(batch, groups, positions, columns, device=DEVICE, dtype=torch.bfloat16)
    shape = torch.Size((groups, rows, columns))
    monkeypatch.setattr(Outer, "_by_inner", lambda outer: True)
    found = []
    for kernel in (False, True, True):
        monkeypatch.setattr(terms, "pays", lambda *sides, kernel=kernel: kernel)
        outer = Outer(left, right, shape)
        memo: terms.Memo = {}
        found.append((outer.norm2(memo), outer.slack2(memo)))
    for written, added in zip(found[0], found[1], strict=True):
        torch.testing.assert_close(added, written, rtol=1e-5, atol=0)
    assert all(torch.equal(*pair) for pair in zip(found[1], found[2], strict=True))


@pytest.mark.needs("gpu")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_on_a_gpu_a_compiled_step_uses_the_kernel_and_clips_as_the_eager_one() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, CLASSES)).to(DEVICE)
    clipper = Clipper(
        model, lambda model, batch: classify(lambda x: model(x).mean(1), batch), trainable(model), 0.1, "bfloat16"
    )
    batch = torch.randn(16, 256, 256, device=DEVICE), torch.arange(16, device=DEVICE) % CLASSES
    mask = torch.ones(16, dtype=torch.bool, device=DEVICE)
    compiled = Compiled(clipper)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        fast = compiled(batch, mask)
    assert any(event.key == "_sums" for event in profile.key_averages())
    torch.testing.assert_close(fast.norms, clipper(batch, mask).norms, rtol=0.02, atol=0)
