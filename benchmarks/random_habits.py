"""Further blocks for random models, from seed 1000 on: what people write into a forward pass by habit.

Weights that are written together, mixed or rounded; experts; tables kept by length; masks by value. Each takes
(batch, T, D) to (batch, T, D), like those of `random_blocks.py`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from random_blocks import Apply, Block, D, T, linear, parameter

HABITS: dict[str, Block] = {}
RANDOM = frozenset(("stochastic depth", "dropped weights"))
"""Those that draw random numbers for each record."""


def habit(name: str, run: Any, **parts: Any) -> None:
    HABITS[name] = lambda _: Apply(run, **{key: part() for key, part in parts.items()})


def added(m: Any, h: Tensor) -> Tensor:
    weight = m.a.clone()
    weight += m.b
    return h @ weight


def symmetric(m: Any, h: Tensor) -> Tensor:
    weight, (i, j) = torch.zeros(D, D, dtype=h.dtype), torch.triu_indices(D, D)
    weight[i, j] = m.a.flatten()[: len(i)]
    return h @ (weight + weight.T)


def hooked(m: Any, h: Tensor) -> Tensor:
    weight = m.a * 2
    weight.register_hook(lambda gradient: gradient.clamp(-1e-2, 1e-2))
    return h @ weight


def ternary(m: Any, h: Tensor) -> Tensor:
    scale = m.a.abs().mean()
    rounded = (m.a / scale).round().clamp(-1, 1) * scale
    return h @ (m.a + (rounded - m.a).detach())


def slope(m: Any, h: Tensor) -> Tensor:
    return h + torch.func.grad(lambda z: m.a(z).tanh().sum())(h)


def depth(m: Any, h: Tensor) -> Tensor:
    return h + m.a(h) * h.new_empty(len(h), 1, 1).bernoulli_(0.5)


def gathered_experts(m: Any, h: Tensor) -> Tensor:
    share, chosen = m.r(h).softmax(-1).max(-1)
    return share[..., None] * torch.einsum("btd,btde->bte", h, m.a[chosen])


def masked_experts(m: Any, h: Tensor) -> Tensor:
    chosen, found = m.r(h).argmax(-1, keepdim=True), torch.zeros_like(h)
    for place, expert in enumerate(m.e):
        found = found + torch.where(chosen == place, expert(h), 0.0)
    return found


def by_length(m: Any, h: Tensor) -> Tensor:
    if h.shape[1] not in m.tables:
        m.tables[h.shape[1]] = torch.arange(h.shape[1]).float().cos()[:, None]
    return m.a(h) * m.tables[h.shape[1]].to(h.dtype)


def coupled(m: Any, h: Tensor) -> Tensor:
    first, second = h.chunk(2, -1)
    return torch.cat((first, second * m.a(first).exp().clamp(max=5)), -1)


def with_a_first_word(m: Any, h: Tensor) -> Tensor:
    longer = torch.cat((m.c.expand(len(h), -1, -1), h), 1)
    return longer[:, 1:] + m.a(longer)[:, :T]


def quantised(m: Any, h: Tensor) -> Tensor:
    nearest = m.c[torch.cdist(h, m.c).argmin(-1)]
    return h + (nearest - h).detach() + (nearest - h.detach())


def last_valid(m: Any, h: Tensor) -> Tensor:
    place = (h[..., 0] > 0).sum(1).clamp(1, T) - 1
    return h + m.a(h[torch.arange(len(h)), place])[:, None]


def masked_by_value(m: Any, h: Tensor) -> Tensor:
    h = h.clone()
    h[h[..., 0] > 1] = m.a
    return h


def standardised(m: Any, h: Tensor) -> Tensor:
    weight = (m.a - m.a.mean((1, 2), keepdim=True)) / (m.a.std((1, 2), keepdim=True) + 0.1)
    return F.conv1d(h.mT, weight, padding=1).mT


def in_place(m: Any, h: Tensor) -> Tensor:
    found = m.a(h)
    found += h
    found *= m.b
    return found


def packed(m: Any, h: Tensor) -> Tensor:
    parts = torch.arange(T) // 2
    same = parts[:, None] == parts[None]
    return F.scaled_dot_product_attention(m.a(h)[:, None], h[:, None], h[:, None], attn_mask=same)[:, 0]


habit("added weights", added, a=parameter(D, D), b=parameter(D, D))
habit("symmetric weight", symmetric, a=parameter(D, D))
habit("hook on a weight", hooked, a=parameter(D, D))
habit("ternary weight", ternary, a=parameter(D, D))
habit("slope", slope, a=linear())
habit("stochastic depth", depth, a=linear())
habit("dropped weights", lambda m, h: F.linear(h, F.dropout(m.a, 0.3)), a=parameter(D, D))
habit("gathered experts", gathered_experts, r=linear(2), a=parameter(2, D, D))
habit("masked experts", masked_experts, r=linear(2), e=lambda: nn.ModuleList([nn.Linear(D, D), nn.Linear(D, D)]))
habit("table by length", by_length, a=linear(), tables=dict)
habit("coupled", coupled, a=linear(D // 2, D // 2))
habit("first word", with_a_first_word, a=linear(), c=parameter(1, 1, D))
habit("quantised", quantised, c=parameter(5, D))
habit("last valid", last_valid, a=linear())
habit("masked by value", masked_by_value, a=parameter(D))
habit("standardised convolution", standardised, a=parameter(D, D, 3))
habit("in place", in_place, a=linear(), b=parameter(D))
habit("packed", packed, a=linear())
