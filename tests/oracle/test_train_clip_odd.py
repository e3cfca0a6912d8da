"""Odd uses of parameters: exact against the loop over examples, or refused in a sentence that says why."""

from functools import reduce

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal

from tacit.core import BadInput
from tacit.train.clip import Clipper, Compiled
from train_zoo import CLASSES, WORDS, Use, classify, furthest, naive, parameter, trainable

ROWS = 5
ALL = torch.ones(ROWS, dtype=torch.bool)
Y = torch.arange(ROWS) % CLASSES
IDS = torch.randint(0, WORDS, (ROWS, 4), generator=torch.Generator().manual_seed(0))


def head(width: int = 5) -> nn.Module:
    return nn.Linear(width, CLASSES)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


def symmetric() -> nn.Module:
    layer = nn.Linear(5, 5)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return nn.Sequential(layer, nn.Tanh(), head())


def masks(m, x):
    """One attention, called three times with masks of three kinds."""
    later = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    left_out = (x[..., 0] > 1.2) & (torch.arange(4) > 0)
    y, _ = m.a(x, x, x, attn_mask=later, need_weights=False)
    z, weights = m.a(y, x, x, key_padding_mask=left_out)
    q, _ = m.a(y, z, x, attn_mask=torch.zeros(4, 4).masked_fill(later, -9.0), average_attn_weights=False)
    return m.h((z + q).mean(1)) + weights.square().sum((1, 2))[:, None]


def bag(mode: str, **options) -> nn.Module:
    return Use(lambda m, x: m.h(m.e(x)), e=nn.EmbeddingBag(WORDS, 5, mode=mode, **options), h=head())


def cells(m, x):
    cell, state = m.lstm(x[:, 2])
    return m.h(m.gru(x[:, 1], m.gru(x[:, 0])) + cell + m.lstm(x[:, 3], (cell, state))[1] + m.rnn(x[:, 0]))


def begun_cells(m, x):
    start = m.s.expand(len(x), -1)
    return m.h(m.gru(x[:, 0], start) + m.lstm(x[:, 1], (start.tanh(), start))[1] + m.rnn(x[:, 2], start))


def begun(m, x):
    start = m.s.expand(-1, len(x), -1).contiguous()
    return m.h(m.r(x, (start, start.tanh()) if isinstance(m.r, nn.LSTM) else start)[0].mean(1))


def one_bag(m, x):
    """All ids in one row, with the place where each record's begin."""
    starts = torch.arange(0, x.numel(), x.shape[1])
    return m.h(m.e(x.flatten(), starts) + m.f(x.flatten(), starts, per_sample_weights=x.flatten() / 7))


EXACT = {
    **{
        f"weight.{way}": (lambda way=way: Use(lambda m, x: x @ getattr(m.w, way), w=parameter(CLASSES, 5)), (5,))
        for way in ("T", "mT", "mH", "H")
    },
    "arithmetic in place": (
        lambda: Use(
            lambda m, x: m.h(m.a(x).add_(m.c).mul_(m.d).sub_(m.c)), a=nn.Linear(5, 5), h=head(), c=parameter(5),
            d=parameter(5),
        ),
        (5,),
    ),
    "orthogonal": (lambda: nn.Sequential(orthogonal(nn.Linear(5, 5)), nn.Tanh(), head()), (5,)),
    "symmetric": (symmetric, (5,)),
    "attention with three masks": (
        lambda: Use(masks, a=nn.MultiheadAttention(8, 2, batch_first=True), h=head(8)), (4, 8),
    ),
    "cells": (
        lambda: Use(
            cells, gru=nn.GRUCell(5, 6), lstm=nn.LSTMCell(5, 6), rnn=nn.RNNCell(5, 6, bias=False), h=head(6)
        ),
        (4, 5),
    ),
    "cells that start where they learned": (
        lambda: Use(
            begun_cells, gru=nn.GRUCell(5, 6), lstm=nn.LSTMCell(5, 6), rnn=nn.RNNCell(5, 6), s=parameter(6), h=head(6)
        ),
        (4, 5),
    ),
    **{
        f"{kind.__name__} that starts where it learned": (
            lambda kind=kind: Use(begun, r=kind(5, 6, 2, batch_first=True), s=parameter(2, 1, 6), h=head(6)), (4, 5),
        )
        for kind in (nn.LSTM, nn.GRU, nn.RNN)
    },
    "filled where a mask is true": (
        lambda: Use(
            lambda m, x: m.h(x.masked_fill(x > 1, m.v) + (m.c.masked_fill(x < 0, m.v) * x)), v=parameter(),
            c=parameter(5), h=head(),
        ),
        (5,),
    ),
    "bag of one record": (
        lambda: Use(one_bag, e=nn.EmbeddingBag(WORDS, 5, padding_idx=1), f=nn.EmbeddingBag(WORDS, 5, mode="sum"),
                    h=head()),
        None,
    ),
    "bag, sum": (lambda: bag("sum"), None),
    "bag, mean": (lambda: bag("mean", padding_idx=1), None),
    "bag, max": (lambda: bag("max", padding_idx=-1), None),
    "bag with weights": (
        lambda: Use(
            lambda m, x: m.h(m.e(x, per_sample_weights=x / 7)), e=nn.EmbeddingBag(WORDS, 5, mode="sum"), h=head()
        ),
        None,
    ),
    "many tokens": (
        lambda: Use(
            lambda m, x: m.h(sum(torch.cat((p.expand(len(x), -1, -1), x), 1).tanh().mean(1) for p in m.p)),
            p=nn.ParameterList(parameter(1, 2, 5) for _ in range(12)), h=head(),
        ),
        (4, 5),
    ),
    "a loop over parameters": (
        lambda: Use(
            lambda m, x: m.h(reduce(lambda s, t: s * m.d.sigmoid() + x[:, t] * m.b, range(4), torch.zeros(len(x), 5))),
            d=parameter(5), b=parameter(5), h=head(),
        ),
        (4, 5),
    ),
    "a fixed point": (
        lambda: Use(
            lambda m, x: m.h(reduce(lambda z, _: torch.tanh(m.a(z) + x), range(9), torch.zeros_like(x))),
            a=nn.Linear(5, 5), h=head(),
        ),
        (5,),
    ),
    "einsum of three": (
        lambda: Use(lambda m, x: torch.einsum("bti,ijk,btj->bk", x, m.w, x), w=parameter(3, 3, CLASSES)), (4, 3),
    ),
    "functional_call": (
        lambda: Use(
            lambda m, x: torch.func.functional_call(m.a, {"weight": 2 * m.a.weight, "bias": m.a.bias}, (x,)), a=head()
        ),
        (5,),
    ),
    "transposed, grouped, dilated, in three dimensions": (
        lambda: nn.Sequential(
            nn.ConvTranspose3d(4, 6, 2, stride=2, padding=1, output_padding=1, groups=2, dilation=2), nn.Flatten(),
            nn.Linear(576, CLASSES),
        ),
        (4, 2, 3, 2),
    ),
    "double precision": (lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), head(8)).double(), (5,)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    torch.manual_seed(0)
    make, shape = EXACT[name]
    model = make()
    x = IDS if shape is None else torch.randn(ROWS, *shape, dtype=next(model.parameters()).dtype)
    clipper = Clipper(model, classify, trainable(model), 0.5)
    found = clipper((x, Y), ALL)
    sums, norms = naive(model, classify, (x, Y), 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    assert all(structure.together for structure in clipper.structures.values())


ALONE = {
    "complex": (lambda m, x: torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(m.w), n=5)[:, :CLASSES], (3, 2)),
    "writes a parameter": (lambda m, x: (lambda y: y.__setitem__((slice(None), 0), m.w) or y)(x * 1.0), (1,)),
    "inside torch.func": (lambda m, x: torch.func.vmap(lambda row: row @ m.w)(x), (5, CLASSES)),
    "for several records": (lambda m, x: _slopes(m, x) @ m.w, (5, CLASSES)),
}


def _slopes(m, x):
    """Gradients inside of the model."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(torch.tanh(x @ m.w).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("why", ALONE)
def test_what_cannot_be_followed_runs_one_record_at_a_time(why: str) -> None:
    torch.manual_seed(0)
    run, shape = ALONE[why]
    model = Use(run, w=parameter(*shape))
    clipper = Clipper(model, classify, trainable(model), 0.5)
    x = torch.randn(ROWS, 5)
    found = clipper((x, Y), ALL)
    sums, norms = naive(model, classify, (x, Y), 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    (structure,) = clipper.structures.values()
    assert not structure.together
    assert why in structure.reason


def test_bags_that_depend_on_the_batch_are_refused() -> None:
    model = bag("sum", max_norm=1.0)
    with pytest.raises(BadInput, match="Leave max_norm off"):
        Clipper(model, classify, trainable(model), 0.5)((IDS, Y), ALL)


def test_several_bags_in_a_record_run_one_record_at_a_time() -> None:
    def offsets(m, x):
        return m.h(m.e(x.flatten(), 2 * torch.arange(2 * len(x))).view(len(x), 2, -1).sum(1))

    model = Use(offsets, e=nn.EmbeddingBag(WORDS, 5), h=head())
    clipper = Clipper(model, classify, trainable(model), 0.5)
    assert furthest(clipper((IDS, Y), ALL).sums, naive(model, classify, (IDS, Y), 0.5)[0]) < 1e-5
    (structure,) = clipper.structures.values()
    assert "offsets" in structure.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weight.T", "arithmetic in place", "cells", "bag, mean", "many tokens"])
def test_traced(name: str, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    make, shape = EXACT[name]
    model, x = make(), IDS if shape is None else torch.randn(ROWS, *shape)
    found = Compiled(Clipper(model, classify, trainable(model), 0.5))((x, Y), ALL)
    sums, norms = naive(model, classify, (x, Y), 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5


def test_mutant_an_embedding_bag_whose_padding_counts() -> None:
    """The tests above would see it."""
    model = bag("mean", padding_idx=1)
    x = IDS.clone()
    x[:, 0] = 1
    _, norms = naive(model, classify, (x, Y), 0.5)
    counted = Use(lambda m, x: m.h(F.embedding(x, m.e.weight).mean(1)), e=model.e, h=model.h)
    assert not torch.allclose(naive(counted, classify, (x, Y), 0.5)[1], norms, rtol=1e-3)
