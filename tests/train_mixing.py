"""Ways in which user code lets one record reach another's gradient, and honest models that look odd."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS, WIDTH, CLASSES = 4, 4, 3
Loss = Callable[[nn.Module, Any], Tensor]


class Net(nn.Module):
    """Two layers, a table of words, and places where user code may keep things."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.table = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES), nn.Embedding(7, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.register_buffer("bank", torch.zeros(ROWS, WIDTH))
        self.register_buffer("seen", torch.zeros(()))
        self.kept: dict[Any, Any] = {}

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)) * self.scale)


def each(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="none")


def through(change: Callable[[Tensor], Tensor]) -> Loss:
    """The inputs are changed, then classified."""
    return lambda m, b: each(m(change(b[0])), b[1])


def inside(change: Callable[[nn.Module, Tensor], Tensor]) -> Loss:
    """The hidden layer is changed, then classified."""
    return lambda m, b: each(m.last(change(m, torch.tanh(m.first(b[0])))), b[1])


def after(change: Callable[[Tensor, Any], Tensor]) -> Loss:
    """The losses are changed."""
    return lambda m, b: change(each(m(b[0]), b[1]), b)


def mixup(m: nn.Module, b: Any) -> Tensor:
    order = torch.randperm(len(b[0]))
    share = torch.rand(())
    logits = m(share * b[0] + (1 - share) * b[0][order])
    return share * each(logits, b[1]) + (1 - share) * each(logits, b[1][order])


def cutmix(m: nn.Module, b: Any) -> Tensor:
    x = b[0].clone()
    x[:, :2] = b[0][torch.randperm(len(x)), :2]
    return each(m(x), b[1])


def by_numpy_order(m: nn.Module, b: Any) -> Tensor:
    return each(m((b[0] + b[0][np.random.permutation(len(b[0]))]) / 2), b[1])


def by_python_order(m: nn.Module, b: Any) -> Tensor:
    order = random.sample(range(len(b[0])), len(b[0]))
    return each(m((b[0] + b[0][order]) / 2), b[1])


def contrastive(m: nn.Module, b: Any) -> Tensor:
    z = F.normalize(m.first(b[0]), dim=-1)
    return F.cross_entropy(z @ z.T / 0.1, torch.arange(len(z)), reduction="none")


def triplet(m: nn.Module, b: Any) -> Tensor:
    z = m.first(b[0])
    return (torch.cdist(z, z).max(1).values - each(m(b[0]), b[1])).relu()


def attention_over_batch(m: nn.Module, h: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(h[None], h[None], h[None])[0]


def buffer_bank(m: nn.Module, h: Tensor) -> Tensor:
    found = h + m.bank[: len(h)].mean(0)
    m.bank[: len(h)] = h.detach()
    return found


def attribute_bank(m: nn.Module, h: Tensor) -> Tensor:
    last = m.kept.get("h")
    m.kept["h"] = h.detach()
    return h if last is None else h + 10 * last.mean(0)


def number_bank(m: nn.Module, h: Tensor) -> Tensor:
    last = m.kept.get("n", 0.0)
    m.kept["n"] = float(h.detach().sum())
    return h * (1 + last)


def running_mean(m: nn.Module, h: Tensor) -> Tensor:
    m.seen += h.detach().mean()
    return h + m.seen


def replaced_buffer(m: nn.Module, h: Tensor) -> Tensor:
    m.seen = h.detach().mean()
    return h + m.seen


class Straight(torch.autograd.Function):
    """An old-style autograd function that centres its batch in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient - gradient.mean(0)


def padded_by_longest(m: nn.Module, b: Any) -> Tensor:
    longest = int((b[0] > 0).sum(1).max())
    return each(m(F.pad(b[0][:, :longest], (0, WIDTH - longest))), b[1])


def loops_over(m: nn.Module, b: Any) -> Tensor:
    total, found = torch.zeros(1, WIDTH), []
    for row in range(len(b[0])):
        total = total + b[0][row : row + 1].detach()
        found.append(m(total))
    return each(torch.cat(found), b[1])


def raises_at(m: nn.Module, b: Any) -> Tensor:
    if bool((b[0] > 2.5).any()):
        raise ValueError("a value that this loss does not take")
    return each(m(b[0]), b[1])


def class_weights(m: nn.Module, b: Any) -> Tensor:
    counts = torch.bincount(b[1], minlength=CLASSES).clamp(min=1)
    return each(m(b[0]), b[1]) / counts[b[1]]


def momentum(m: nn.Module, b: Any) -> Tensor:
    weight = m.kept.get("w", m.first.weight.detach().clone())
    m.kept["w"] = 0.5 * weight + 0.5 * torch.outer(b[0].detach().mean(0), b[0].detach().mean(0))
    return each(m(b[0] @ weight), b[1])


def hook_mixes(m: nn.Module, b: Any) -> Tensor:
    handle = m.first.register_forward_hook(lambda _, given, out: out + out.mean(0))
    try:
        return each(m(b[0]), b[1])
    finally:
        handle.remove()


def gradient_hook(m: nn.Module, b: Any) -> Tensor:
    h = m.first(b[0])
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient + gradient.mean(0))
    return each(m.last(torch.tanh(h)), b[1])


def penalty(m: nn.Module, b: Any) -> Tensor:
    return each(m(b[0]), b[1]) + m(b[0]).square().mean()


REMEMBERED: list[Tensor] = []


def large(x: Tensor) -> bool:
    """Values that no made-up record has: what is done with them is not seen before the run."""
    return bool((x > 2.5).any())


def in_a_closure() -> Loss:
    last: list[Tensor] = []

    def loss(m: nn.Module, b: Any) -> Tensor:
        if large(b[0]):
            last.append(b[0].detach())
        return each(m(b[0] - 5 * sum(last)), b[1])

    return loss


def in_a_global(m: nn.Module, b: Any) -> Tensor:
    if large(b[0]):
        REMEMBERED.append(b[0].detach())
    return each(m(b[0] - 5 * sum(REMEMBERED)), b[1])


def in_a_default(m: nn.Module, b: Any, last: list[Tensor] = []) -> Tensor:  # noqa: B006
    if large(b[0]):
        last.append(b[0].detach())
    return each(m(b[0] - 5 * sum(last)), b[1])


def in_a_buffer(m: nn.Module, b: Any) -> Tensor:
    if large(b[0]):
        m.bank.add_(b[0].detach())
    return each(m(b[0] - 5 * m.bank[:1]), b[1])


class InAnObject:
    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, m: nn.Module, b: Any) -> Tensor:
        if large(b[0]):
            self.last += float(b[0].detach().sum())
        return each(m(b[0] - self.last), b[1])


MIXING: dict[str, Loss] = {
    "kept in a closure by value": in_a_closure(),
    "kept in a global by value": in_a_global,
    "kept in a default by value": in_a_default,
    "kept in a buffer by value": in_a_buffer,
    "kept in an object by value": InAnObject(),
    "mean of the batch in the inputs": through(lambda x: x - x.mean(0)),
    "a few hundredths of the mean": through(lambda x: x + 0.03 * x.mean(0)),
    "mean of everything": through(lambda x: x - x.mean()),
    "standardised": through(lambda x: (x - x.mean(0)) / (x.std(0, correction=0) + 1)),
    "largest of the batch": through(lambda x: x / (x.abs().max() + 1)),
    "softmax over the batch": through(lambda x: x.softmax(0)),
    "sorted over the batch": through(lambda x: x.sort(0).values),
    "ranks over the batch": through(lambda x: x.argsort(0).argsort(0).float()),
    "cumulative sum": through(lambda x: x.cumsum(0)),
    "cumulative maximum": through(lambda x: x.cummax(0).values),
    "flipped": through(lambda x: (x + x.flip(0)) / 2),
    "rolled": through(lambda x: x + x.roll(1, 0)),
    "median": through(lambda x: x - x.median(0).values),
    "differences": through(lambda x: torch.diff(x, dim=0, prepend=x[:1])),
    "first record added": through(lambda x: x + x[0]),
    "last record added": through(lambda x: x + x[-1:]),
    "flattened and reshaped": through(lambda x: x.T.reshape(len(x), WIDTH)),
    "a view into the next": through(lambda x: x.contiguous().as_strided((len(x), WIDTH), (1, 1))),
    "convolved over the batch": through(lambda x: F.conv1d(x.T[:, None], torch.ones(1, 1, 3), padding=1)[:, 0].T),
    "pooled over the batch": through(lambda x: F.avg_pool1d(x.T[None], 3, 1, 1)[0].T),
    "Fourier over the batch": through(lambda x: torch.fft.fft(x, dim=0).real),
    "products of the batch": through(lambda x: x.cumprod(0)),
    "covariance": through(lambda x: x @ (x.T @ x)),
    "size of the batch scales": through(lambda x: x * len(x)),
    "arange over the batch": through(lambda x: x * torch.arange(1.0, len(x) + 1)[:, None]),
    "linspace by the size": through(lambda x: x * torch.linspace(1, 2, x.shape[0])[:, None]),
    "unique values": through(lambda x: x + len(torch.unique(x))),
    "nonzero values": through(lambda x: x + len(torch.nonzero(x > 0))),
    "masked select": through(lambda x: x + x[x > 0].sum()),
    "numpy there and back": through(lambda x: x + torch.from_numpy(x.detach().numpy().mean(0))),
    "a list there and back": through(lambda x: x + sum(map(sum, x.tolist()))),
    "branch by item": through(lambda x: x if x.sum().item() > 0 else -x),
    "branch by bool": through(lambda x: 2 * x if bool((x > 1).any()) else x),
    "branch by the size": through(lambda x: x if len(x) > 2 else 100 * x),
    "noise for the batch": through(lambda x: x + torch.randn(WIDTH)),
    "noise by size": through(lambda x: x * torch.rand(len(x), 1)),
    "a single coin": through(lambda x: x if torch.rand(()) < 0.5 else -x),
    "attention over the batch": inside(attention_over_batch),
    "batch statistics inside": inside(lambda m, h: h - h.mean(0)),
    "batch norm": inside(lambda m, h: F.batch_norm(h, None, None, training=True)),
    "instance norm over the batch": inside(lambda m, h: F.instance_norm(h.T[None])[0].T),
    "a straight-through function": inside(lambda m, h: Straight.apply(h)),
    "bank in a buffer": inside(buffer_bank),
    "bank in an attribute": inside(attribute_bank),
    "bank in a number": inside(number_bank),
    "running mean in a buffer": inside(running_mean),
    "a buffer replaced": inside(replaced_buffer),
    "written into zeros": inside(lambda m, h: torch.zeros(len(h), WIDTH).add_(h.cumsum(0))),
    "index_add over the batch": inside(lambda m, h: h.index_add(0, torch.zeros(len(h)).long(), h)),
    "scatter over the batch": inside(lambda m, h: h.scatter_add(0, torch.zeros(len(h), WIDTH).long(), h)),
    "mixup": mixup,
    "cutmix": cutmix,
    "mixed by numpy's order": by_numpy_order,
    "mixed by Python's order": by_python_order,
    "contrastive": contrastive,
    "triplets": triplet,
    "padded to the longest": padded_by_longest,
    "a loop with a total": loops_over,
    "raises at a value": raises_at,
    "weights by class counts": class_weights,
    "momentum of data": momentum,
    "a hook that mixes": hook_mixes,
    "a hook on gradients": gradient_hook,
    "a penalty of the batch": penalty,
    "mean of the losses": after(lambda loss, b: loss.mean().expand(len(loss))),
    "largest of the losses": after(lambda loss, b: loss / loss.max()),
    "hard examples only": after(lambda loss, b: torch.where(loss >= loss.median(), loss, 0)),
    "losses times the batch": after(lambda loss, b: loss * loss.detach().sum()),
    "divided by the size": after(lambda loss, b: loss / len(loss)),
    "labels over the batch": after(lambda loss, b: loss * (1 + b[1].sum())),
    "words outside": lambda m, b: each(m(m.table(b[1] + (b[0][:, 0] > 2.5) * 100)), b[1]),
    "labels outside": lambda m, b: each(m(b[0]), b[1] + (b[0][:, 0] > 2.5) * 100),
    "values that overflow": lambda m, b: each(m(b[0]).exp().exp(), b[1]),
    "vmap inside": lambda m, b: each(torch.vmap(lambda row: m(row) + 0 * row.sum())(b[0] - b[0].mean(0)), b[1]),
}


def window(x: Tensor) -> Tensor:
    return torch.ones(WIDTH, WIDTH).triu()


HONEST: dict[str, Loss] = {
    "as it is": through(lambda x: x),
    "constant of the batch's size": through(lambda x: x * torch.linspace(0.1, 2, ROWS)),
    "constant table by width": through(lambda x: x @ torch.eye(WIDTH)),
    "causal mask": through(lambda x: x @ window(x)),
    "normalised by itself": through(lambda x: F.normalize(x, dim=-1)),
    "standardised by itself": through(lambda x: (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1)),
    "sorted within": through(lambda x: x.sort(1).values),
    "cumulated within": through(lambda x: x.cumsum(1)),
    "arange by width": through(lambda x: x + torch.arange(WIDTH)),
    "new_tensor": through(lambda x: x * x.new_tensor([1.0, 2.0, 3.0, 4.0])),
    "type_as": through(lambda x: x + torch.arange(WIDTH).type_as(x)),
    "masked fill": through(lambda x: x.masked_fill(x < 0, 0.0)),
    "written where": through(lambda x: torch.where(x > 0, x, torch.zeros_like(x))),
    "written by a mask": inside(lambda m, h: _by_mask(h)),
    "relu in place on a part": inside(lambda m, h: _part(h)),
    "einsum": through(lambda x: torch.einsum("bi,ij->bj", x, torch.eye(WIDTH))),
    "one hot": lambda m, b: each(m(F.one_hot(b[1], WIDTH).float() + b[0]), b[1]),
    "words": lambda m, b: each(m(m.table(b[1]) + b[0]), b[1]),
    "dropout": inside(lambda m, h: F.dropout(h, 0.5)),
    "noise of its own": through(lambda x: x + 0.1 * torch.randn_like(x)),
    "a branch on its own value": lambda m, b: torch.cat(
        [each(m(row[None] if row.sum() > 0 else -row[None]), label[None]) for row, label in zip(*b, strict=True)]
    ),
    "label smoothing": lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="none", label_smoothing=0.1),
    "focal": after(lambda loss, b: (1 - (-loss).exp()).square() * loss),
    "squared": lambda m, b: (m(b[0]) - F.one_hot(b[1], CLASSES)).square().mean(1),
    "weights by class": lambda m, b: F.cross_entropy(m(b[0]), b[1], torch.tensor([1.0, 2.0, 3.0]), reduction="none"),
    "a fixed cache": inside(lambda m, h: h * m.kept.setdefault("c", torch.linspace(1, 2, WIDTH))),
}


def _by_mask(h: Tensor) -> Tensor:
    h = h.clone()
    h[h < 0] = 0.0
    return h


def _part(h: Tensor) -> Tensor:
    h = h.clone()
    h[:, :2].relu_()
    return h
