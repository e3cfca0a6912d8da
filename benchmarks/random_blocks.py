"""Blocks that random models are made of: each takes (batch, T, D) to (batch, T, D), as people and libraries write them.

Axes are drawn at random and may be the batch's: what is meant by that differs from block to block, and it is the
engine's business to see that no record reaches another through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

T, D, HEADS, WORDS = 4, 6, 2, 7
Block = Callable[[int], nn.Module]
"""Makes a module that acts along an axis, or has none."""
BLOCKS: dict[str, Block] = {}
MIXES = frozenset((
    "batch norm", "attention over the first axis", "lstm over the first axis", "einsum over the batch", "all flattened",
    "rows reversed", "products of the batch", "size of the batch", "branch on the size", "branch on a value",
    "loop with a total", "function of old style", "kept", "counter", "argwhere", "bincount", "spectral norm",
))  # fmt: skip
"""Blocks that make something of a whole batch, or keep something: most models with one of them are refused."""


class Apply(nn.Module):
    """A function of a module with parts and the hidden tensor."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], **parts: Any) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            if isinstance(part, Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, h: Tensor) -> Tensor:
        return self.run(self, h)


def made(name: str, run: Callable[[Any, Tensor], Tensor], **parts: Callable[[], Any]) -> None:
    """Register a block without an axis of its own."""
    BLOCKS[name] = lambda axis: Apply(run, **{key: part() for key, part in parts.items()})


def along(name: str, run: Callable[[Tensor, int], Tensor]) -> None:
    """Register a block that acts along an axis."""
    BLOCKS[name] = lambda axis: Apply(lambda m, h: run(h, axis))


def parameter(*shape: int) -> Callable[[], nn.Parameter]:
    return lambda: nn.Parameter(0.5 * torch.randn(shape))


def linear(to: int = D, of: int = D, **options: Any) -> Callable[[], nn.Linear]:
    return lambda: nn.Linear(of, to, **options)


made("linear", lambda m, h: torch.tanh(m.a(h)), a=linear())
made("tied", lambda m, h: m.a(torch.tanh(m.a(h))), a=linear(bias=False))
made("transposed use", lambda m, h: torch.tanh(h @ m.a.weight) + m.a(h), a=linear())
made("convolution", lambda m, h: m.a(h.mT).mT, a=lambda: nn.Conv1d(D, D, 3, padding=1))
made("depthwise", lambda m, h: m.a(h.mT).mT, a=lambda: nn.Conv1d(D, D, 3, padding=1, groups=D))
made("image", lambda m, h: m.a(h[:, None]).mean(1), a=lambda: nn.Conv2d(1, 3, 3, padding=1))
made("layer norm", lambda m, h: m.a(h), a=lambda: nn.LayerNorm(D))
made("group norm", lambda m, h: m.a(h.mT).mT, a=lambda: nn.GroupNorm(2, D))
made("rms norm", lambda m, h: m.a(h), a=lambda: nn.RMSNorm(D))
made("instance norm", lambda m, h: m.a(h.mT).mT, a=lambda: nn.InstanceNorm1d(D, affine=True))
made("batch norm", lambda m, h: m.a(h.mT).mT, a=lambda: nn.BatchNorm1d(D))
made("frozen batch norm", lambda m, h: m.a(h.mT).mT, a=lambda: nn.BatchNorm1d(D).eval())
made("attention", lambda m, h: m.a(h, h, h, need_weights=False)[0],
     a=lambda: nn.MultiheadAttention(D, HEADS, batch_first=True))  # fmt: skip
made("attention over the first axis", lambda m, h: m.a(h, h, h)[0], a=lambda: nn.MultiheadAttention(D, HEADS))
made("sdpa", lambda m, h: F.scaled_dot_product_attention(m.q(h), m.k(h), h, is_causal=True), q=linear(), k=linear())
made("gru", lambda m, h: m.a(h)[0], a=lambda: nn.GRU(D, D, batch_first=True))
made("lstm over the first axis", lambda m, h: m.a(h)[0], a=lambda: nn.LSTM(D, D))
made("encoder", lambda m, h: m.a(h), a=lambda: nn.TransformerEncoderLayer(D, HEADS, 8, 0.0, batch_first=True))
made("words", lambda m, h: m.a(h.argmax(-1)) + h, a=lambda: nn.Embedding(WORDS, D))
made("words outside", lambda m, h: m.a((h.amax(-1) > 4).long() * 99) + h, a=lambda: nn.Embedding(WORDS, D))
made("bag of words", lambda m, h: m.a(h.argmax(-1))[:, None] + h, a=lambda: nn.EmbeddingBag(WORDS, D, mode="sum"))
made("einsum", lambda m, h: torch.einsum("btd,sde->bte", h, m.a), a=parameter(2, D, D))
made("einsum over the batch", lambda m, h: h + torch.einsum("btd,cse,de->bte", h, h, m.a) / 9, a=parameter(D, D))
made("rows of a parameter", lambda m, h: h + m.a[h.argmax(-1)], a=parameter(D, D))
made("scale and shift", lambda m, h: h * m.a + m.b, a=parameter(D), b=parameter(T, 1))
made("bilinear", lambda m, h: m.a(h, h.flip(1)), a=lambda: nn.Bilinear(D, D, D))
made("weight norm", lambda m, h: m.a(h), a=lambda: nn.utils.parametrizations.weight_norm(nn.Linear(D, D)))
made("spectral norm", lambda m, h: m.a(h), a=lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(D, D)))
made("standardised weight", lambda m, h: F.linear(h, (m.a - m.a.mean()) / m.a.std()), a=parameter(D, D))
made("buffer", lambda m, h: h * m.c, c=lambda: torch.linspace(0.1, 2, D))
made("constant of T", lambda m, h: h * torch.linspace(0.1, 2, T)[:, None])
made(
    "checkpointed",
    lambda m, h: checkpoint(m.a, h, use_reentrant=False),
    a=lambda: nn.Sequential(nn.Linear(D, D), nn.Tanh()),
)
made("functional call", lambda m, h: torch.func.functional_call(m.a, dict(m.a.named_parameters()), (h,)), a=linear())
made("vmap", lambda m, h: torch.vmap(m.a)(h), a=linear())
made("vmap over time", lambda m, h: torch.vmap(m.a, 1, 1)(h), a=linear())
made("dropout", lambda m, h: F.dropout(h, 0.3))
made("own noise", lambda m, h: h + 0.1 * torch.randn_like(h))
made("relu in place", lambda m, h: m.a(h).relu_(), a=linear())
made("part in place", lambda m, h: _written(m.a(h)), a=linear())
made("written into zeros", lambda m, h: torch.zeros(h.shape, dtype=h.dtype).copy_(m.a(h)), a=linear())
made("masked", lambda m, h: h.masked_fill(h < 0, 0.1))
made("where", lambda m, h: torch.where(h > 0.2, m.a(h), h), a=linear())
made("one hot", lambda m, h: h + m.a(F.one_hot(h.argmax(-1), D).to(h.dtype)), a=linear())
made("gathered", lambda m, h: m.a(h.gather(1, h.argsort(1))), a=linear())
made("scattered", lambda m, h: torch.zeros_like(h).scatter_add(1, h.argsort(1), m.a(h)), a=linear())
made("flattened with the batch", lambda m, h: m.a(h.flatten(0, 1)).view(h.shape), a=linear())
made("all flattened", lambda m, h: (h.flatten() - h.flatten().mean()).view(h.shape))
made("rows reversed", lambda m, h: h.permute(2, 0, 1).reshape(h.shape))
made("products of the batch", lambda m, h: h + torch.tensordot(h, h, ([0], [0])).mean())
made("size of the batch", lambda m, h: h * len(h))
made("branch on the size", lambda m, h: h if len(h) % 2 else -h)
made("branch on a value", lambda m, h: m.a(h) if float(h.detach().sum()) > 0 else -m.a(h), a=linear())
made("branch on a weight", lambda m, h: m.a(h) if float(m.a.weight.sum()) > 0 else -m.a(h), a=linear())
made("strides", lambda m, h: h if h.mT.contiguous().stride(0) == T * D else -h)
made("loop over records", lambda m, h: torch.stack([m.a(row) for row in h]), a=linear())
made("loop with a total", lambda m, h: torch.stack(list(h.unbind(0))).cumsum(0) + m.a(h), a=linear())
made("loop over time", lambda m, h: torch.stack([m.a(h[:, t]) * (t + 1) for t in range(T)], 1), a=linear())
made("straight through", lambda m, h: Rounded.apply(m.a(h)), a=linear())
made("function of old style", lambda m, h: Centred.apply(m.a(h)), a=linear())
made(
    "cholesky",
    lambda m, h: torch.linalg.cholesky(h.mT @ h + 0.5 * torch.eye(D).to(h.dtype)).sum(-1)[:, None] + m.a(h),
    a=linear(),
)
made("cholesky that may raise", lambda m, h: h * torch.linalg.cholesky((9 - h.amax((1, 2)))[:, None, None]))
made("counter", lambda m, h: _counted(m, h), calls=lambda: 0)
made("kept", lambda m, h: _kept(m, h), last=dict)
made("fourier", lambda m, h: m.a(torch.fft.rfft(h, dim=-1).abs().repeat(1, 1, 2)[..., :D]), a=linear())
made("argwhere", lambda m, h: h * len(torch.argwhere(h)))
made("bincount", lambda m, h: h * torch.bincount(h.argmax(-1).flatten(), minlength=D))
along("mean off", lambda h, axis: h - h.mean(axis, keepdim=True))
along(
    "standardised", lambda h, axis: (h - h.mean(axis, keepdim=True)) / (h.std(axis, keepdim=True, correction=0) + 0.1)
)
along("softmax", lambda h, axis: h.softmax(axis) * 3)
along("sum", lambda h, axis: h + h.sum(axis, keepdim=True))
along("largest", lambda h, axis: h / (h.abs().amax(axis, keepdim=True) + 1))
along("sorted", lambda h, axis: h.sort(axis).values)
along("cumulated", lambda h, axis: h.cumsum(axis) / 2)
along("cumulative products", lambda h, axis: h.tanh().cumprod(axis))
along("top", lambda h, axis: h * h.topk(1, axis).values)
along("normalised", lambda h, axis: F.normalize(h, dim=axis))
along("rolled", lambda h, axis: h + h.roll(1, axis))
along("flipped", lambda h, axis: h + 0.5 * h.flip(axis))
along("first added", lambda h, axis: h + h.select(axis, 0).unsqueeze(axis))
along("logsumexp", lambda h, axis: h - h.logsumexp(axis, keepdim=True))
along("doubled and halved", lambda h, axis: torch.cat((h, torch.ones_like(h)), axis).narrow(axis, 0, h.shape[axis]))
along("turned", lambda h, axis: h.index_select(axis, torch.arange(h.shape[axis] - 1, -1, -1)))
along("stacked", lambda h, axis: torch.stack((h, h * 2), axis).mean(axis))


class Rounded(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


class Centred(torch.autograd.Function):
    """Takes the mean of the batch off gradients: with records apart, nothing is left of them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.tanh()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient - 0.5 * gradient.mean(0, keepdim=True)


def _written(h: Tensor) -> Tensor:
    h = h.clone()
    h[:, :2] *= 2
    h[..., 0] = 0.5
    return h


def _counted(m: Any, h: Tensor) -> Tensor:
    m.calls += 1
    return h * (1 + m.calls % 2)


def _kept(m: Any, h: Tensor) -> Tensor:
    last = m.last.get("h")
    m.last["h"] = h.detach()
    return h if last is None else h + last.mean()
