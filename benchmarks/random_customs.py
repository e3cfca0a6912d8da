"""Blocks of recent papers for random models, from seed 3000 on: splines, scans, slots, windows, learned states.

Each takes (batch, T, D) to (batch, T, D), like those of `random_blocks.py`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from random_blocks import Apply, Block, D, T, linear, parameter

CUSTOMS: dict[str, Block] = {}


def custom(name: str, run: Any, **parts: Any) -> None:
    CUSTOMS[name] = lambda _: Apply(run, **{key: part() for key, part in parts.items()})


def splines(m: Any, h: Tensor) -> Tensor:
    """A Kolmogorov-Arnold layer: linear splines on each number."""
    grid = torch.linspace(-2, 2, 5, dtype=h.dtype)
    hats = (1 - (h[..., None] - grid).abs()).relu()
    return F.silu(h) + torch.einsum("btdg,deg->bte", hats, m.a)


def scan(m: Any, h: Tensor) -> Tensor:
    """A selective state-space layer, one time after another."""
    rate, into, out = m.a(h).split((D, 2, 2), -1)
    rate, state, found = F.softplus(rate), h.new_zeros(len(h), D, 2), []
    for t in range(T):
        decay = torch.exp(-rate[:, t, :, None] * m.b.exp())
        state = decay * state + (rate * h)[:, t, :, None] * into[:, t, None]
        found.append((state * out[:, t, None]).sum(-1))
    return torch.stack(found, 1)


def begun(m: Any, h: Tensor) -> Tensor:
    """A recurrent layer that starts from a learned state."""
    return m.r(h, m.s.expand(1, len(h), D).contiguous())[0]


def begun_cells(m: Any, h: Tensor) -> Tensor:
    state = m.s.expand(len(h), -1), m.s.tanh().repeat(len(h), 1)
    found = []
    for t in range(T):
        state = m.c(h[:, t], state)
        found.append(state[0])
    return torch.stack(found, 1)


def filled(m: Any, h: Tensor) -> Tensor:
    return m.a(h.masked_fill(h > 1, m.v))


def shares(m: Any, h: Tensor) -> Tensor:
    """Attention weights that are kept for a picture, and read again."""
    m.weights = (m.a(h) @ h.mT / D).softmax(-1)
    m.seen = {"weights": m.weights}
    return m.seen["weights"] @ h


def pooled(m: Any, h: Tensor) -> Tensor:
    """Learned questions to a set, and the set's questions to the answers."""
    slots = F.scaled_dot_product_attention(m.q.expand(len(h), -1, -1)[:, None], h[:, None], m.a(h)[:, None])
    return F.scaled_dot_product_attention(h[:, None], slots, slots)[:, 0]


def memory(m: Any, h: Tensor) -> Tensor:
    """Slots that every time writes into, by value."""
    slots, found = m.q.unsqueeze(0).repeat(len(h), 1, 1), []
    for t in range(T):
        share = (slots @ h[:, t, :, None]).softmax(1)
        slots = slots * (1 - share / 2) + share * m.a(h[:, t])[:, None]
        slots[torch.arange(len(h)), share[..., 0].argmax(1)] = 0
        found.append(slots.sum(1))
    return torch.stack(found, 1)


def windows(m: Any, h: Tensor) -> Tensor:
    """Attention within windows that are folded into the batch."""
    parts = h.roll(1, 1).view(len(h), T // 2, 2, D).flatten(0, 1)
    weights = (m.a(parts) @ parts.mT + m.b).softmax(-1)
    return (weights @ parts).view(len(h), T, D).roll(-1, 1)


def rotated(m: Any, h: Tensor) -> Tensor:
    """Linear attention, rotated by place."""
    angle = torch.arange(T, dtype=h.dtype)[:, None] * torch.tensor([1.0, 0.1, 0.01], dtype=h.dtype)
    first, second = m.a(h).chunk(2, -1)
    turned = torch.cat((first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()), -1)
    keys = F.elu(turned) + 1
    summed = torch.einsum("btd,bte->btde", keys, h).cumsum(1)
    return (
        torch.einsum("btd,btde->bte", keys, summed) / (torch.einsum("btd,btd->bt", keys, keys.cumsum(1)) + 1)[..., None]
    )


def made_weights(m: Any, h: Tensor) -> Tensor:
    """A network that makes the weights of another for each record."""
    return h @ m.a(h.mean(1)).view(-1, D, D).tanh()


def direction(m: Any, h: Tensor) -> Tensor:
    """DoRA: a low-rank change, with lengths learned apart."""
    weight = torch.eye(D, dtype=h.dtype) + m.a @ m.b
    return F.linear(h, m.c * weight / weight.norm(dim=1, keepdim=True).detach())


def solved(m: Any, h: Tensor) -> Tensor:
    """Cayley's orthogonal weights."""
    skew = m.a.triu(1) - m.a.triu(1).mT
    unit = torch.eye(D, dtype=h.dtype)
    return h @ torch.linalg.solve(unit + skew, unit - skew)


def field(m: Any, h: Tensor) -> Tensor:
    """The forward sums of a conditional random field."""
    found = [h[:, 0]]
    for t in range(1, T):
        found.append(torch.logsumexp(found[-1][:, :, None] + m.a, 1) + h[:, t])
    return torch.stack(found, 1).log_softmax(-1)


def bags(m: Any, h: Tensor) -> Tensor:
    """An embedding bag over the places of the largest numbers, whose bags begin at offsets."""
    ids = h.argmax(-1).flatten()
    return h + m.e(ids, torch.arange(0, len(ids), T))[:, None]


custom("splines", splines, a=parameter(D, D, 5))
custom("selective scan", scan, a=linear(D + 4), b=parameter(D, 2))
custom("gru from a learned state", begun, r=lambda: nn.GRU(D, D, batch_first=True), s=parameter(1, 1, D))
custom("lstm cells from a learned state", begun_cells, c=lambda: nn.LSTMCell(D, D), s=parameter(1, D))
custom("learned fill", filled, a=linear(), v=parameter())
custom("kept shares", shares, a=linear())
custom("pooled by questions", pooled, a=linear(), q=parameter(2, D))
custom("memory of slots", memory, a=linear(), q=parameter(3, D))
custom("shifted windows", windows, a=linear(), b=parameter(2, 2))
custom("rotated linear attention", rotated, a=linear())
custom("made weights", made_weights, a=linear(D * D))
custom("direction and length", direction, a=parameter(D, 2), b=parameter(2, D), c=parameter(D, 1))
custom("orthogonal by solving", solved, a=parameter(D, D))
custom("random field", field, a=parameter(D, D))
custom("bags at offsets", bags, e=lambda: nn.EmbeddingBag(D, D))
