"""Hypothesis draws the shapes; the naive loop says what is right."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tacit.train.clip import Clipper
from tacit.train.clip.arrays import square
from tacit.train.clip.cost import inner_is_cheaper
from tacit.train.clip.rules.terms import Gather, Outer, norm2, total
from train_zoo import Use, classify, furthest, naive, trainable

small = st.integers(1, 4)


def agree(model: nn.Module, x: torch.Tensor, clip_norm: float) -> None:
    batch = x, torch.zeros(len(x), dtype=torch.long)
    found = Clipper(model, classify, trainable(model), clip_norm)(batch, torch.ones(len(x), dtype=torch.bool))
    sums, norms = naive(model, classify, batch, clip_norm)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-4, atol=1e-6)
    assert furthest(found.sums, sums) < 1e-4


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rows=small, axes=st.lists(small, max_size=3), width=small, out=st.integers(2, 4), clip=st.floats(0.01, 10))
def test_linear_of_any_rank(rows, axes, width, out, clip) -> None:
    torch.manual_seed(0)
    model = Use(lambda m, x: m.a(x).flatten(1, -2).sum(1) if axes else m.a(x), a=nn.Linear(width, out))
    agree(model, torch.randn(rows, *axes, width), clip)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    rows=small,
    groups=st.integers(1, 3),
    into=st.integers(1, 2),
    out=st.integers(1, 2),
    kernel=st.tuples(small, small),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.integers(0, 2),
    transposed=st.booleans(),
)
def test_convolution(rows, groups, into, out, kernel, stride, dilation, padding, transposed) -> None:
    torch.manual_seed(0)
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    layer = kind(groups * into, groups * out, kernel, stride, 0, groups=groups, dilation=dilation)
    if not transposed:
        layer.padding = (padding, padding)
    model = Use(lambda m, x: m.head(torch.tanh(m.c(x)).mean((2, 3))), c=layer, head=nn.Linear(groups * out, 3))
    agree(model, torch.randn(rows, groups * into, 8, 9), 0.5)


@settings(max_examples=50, deadline=None)
@given(rows=small, groups=small, positions=small, p=small, d=small, device=st.sampled_from(["cpu", "cuda"]))
def test_both_forms_of_a_norm_agree(rows, groups, positions, p, d, device) -> None:
    torch.manual_seed(0)
    left, right = torch.randn(rows, groups, positions, p), torch.randn(rows, groups, positions, d)
    shape = torch.Size((groups, p, d))
    written = Outer(left, right, shape).dense().flatten(1)
    gram = torch.einsum("bgtp,bgsp,bgtd,bgsd->b", left, left, right, right)
    torch.testing.assert_close(norm2([Outer(left, right, shape)]), square(written), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gram.double(), square(written), rtol=1e-4, atol=1e-5)
    assert inner_is_cheaper(1, p, d, rows, device) in (True, False)


@settings(max_examples=50, deadline=None)
@given(rows=small, positions=small, looked_up=st.integers(1, 6), d=small)
def test_an_embedding_tied_to_a_head_has_an_exact_cross_term(rows, positions, looked_up, d) -> None:
    torch.manual_seed(0)
    shape = torch.Size((5, d))
    outer = Outer(torch.randn(rows, 1, positions, 5), torch.randn(rows, 1, positions, d), shape)
    gather = Gather(torch.randint(0, 5, (rows, looked_up)), torch.randn(rows, looked_up, d), shape)
    torch.testing.assert_close(norm2([outer, gather]), square(total([outer, gather])), rtol=1e-4, atol=1e-5)


def test_the_cheaper_form_follows_the_sizes() -> None:
    assert inner_is_cheaper(8, 512, 512)
    assert not inner_is_cheaper(1024, 16, 16)
    assert not inner_is_cheaper(128, 256, 1024, 32)
    assert inner_is_cheaper(128, 256, 1024, 1024)
    assert inner_is_cheaper(256, 768, 768, 32, "cuda")
    assert not inner_is_cheaper(1024, 64, 576, 64, "cuda")


def test_pieces_change_nothing(monkeypatch) -> None:
    torch.manual_seed(0)
    outer = Outer(torch.randn(7, 2, 9, 3), torch.randn(7, 2, 9, 4), torch.Size((6, 4)))
    weight = torch.rand(7)
    whole, norms, sums = outer.dense(), norm2([outer]), outer.weighted(weight)
    monkeypatch.setattr("tacit.train.clip.rules.outer.PIECE", 2 * 4 * 24)
    cut = Outer(outer.left, outer.right, outer.shape)
    torch.testing.assert_close(cut.dense(), whole)
    assert len(cut._written) == 4
    torch.testing.assert_close(norm2([cut]), norms)
    torch.testing.assert_close(cut.weighted(weight), sums)
