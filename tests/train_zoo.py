"""Small models that break somebody's per-example gradients, and the naive loop that is right about all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from tacit.train.clip.tree import mapped, size

CLASSES, WORDS, LENGTH = 3, 7, 4


def classify(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def predict_words(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1], reduction="none").mean(1)


def masked_words(model: nn.Module, batch: Any) -> Tensor:
    """Mean over the tokens that are not padding (id 0), within each example."""
    losses = F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1], reduction="none")
    kept = (batch[0] != 0).float()
    return (losses * kept).sum(1) / kept.sum(1).clamp(min=1)


@dataclass(frozen=True)
class Case:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    loss: Callable[[nn.Module, Any], Tensor] = classify

    def batch(self, rows: int, seed: int = 0) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        if self.loss is classify:
            x = torch.randn(rows, *self.shape, generator=generator)
            return x, torch.randint(0, CLASSES, (rows,), generator=generator)
        ids = torch.randint(0, WORDS, (rows, *self.shape), generator=generator)
        return ids, torch.randint(0, WORDS, (rows, *self.shape), generator=generator)


class Use(nn.Module):
    """A model from parts and a function."""

    def __init__(self, run: Callable[..., Tensor], **parts: Any) -> None:
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape))


def tied_layer() -> nn.Module:
    return Use(lambda m, x: m.head(torch.tanh(m.a(torch.tanh(m.a(x))))), a=nn.Linear(5, 5), head=nn.Linear(5, CLASSES))


def head_before_body() -> nn.Module:
    return Use(lambda m, x: m.head(torch.relu(m.body(x))), head=nn.Linear(6, CLASSES), body=nn.Linear(5, 6))


def unused_layer() -> nn.Module:
    return Use(lambda m, x: m.used(x), unused=nn.Linear(2, 2), used=nn.Linear(5, CLASSES))


def frozen_layer() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, CLASSES))
    return model.requires_grad_(True) and _freeze(model)


def _freeze(model: nn.Module) -> nn.Module:
    model[0].weight.requires_grad_(False)
    return model


def words(*, tied: bool, expanded: bool = False, padding: int | None = None, first: bool = True) -> nn.Module:
    """A one-layer transformer that predicts words."""

    def run(m: Any, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device)
        place = place.expand(ids.shape) if expanded else place
        hidden = m.embed(ids) + m.place(place)
        hidden = m.layer(hidden) if first else m.layer(hidden.transpose(0, 1)).transpose(0, 1)
        return m.head(m.norm(hidden))

    model = Use(
        run,
        embed=nn.Embedding(WORDS, 6, padding_idx=padding),
        place=nn.Embedding(LENGTH, 6),
        layer=nn.TransformerEncoderLayer(6, 2, 12, batch_first=first, dropout=0.1),
        norm=nn.LayerNorm(6),
        head=nn.Linear(6, WORDS, bias=False),
    )
    if tied:
        model.head.weight = model.embed.weight
    return model.eval()


def flattened() -> nn.Module:
    """As Hugging Face's Conv1D: rows of all examples in one axis; and an einsum."""

    def run(m: Any, x: Tensor) -> Tensor:
        z = torch.addmm(m.b, x.reshape(-1, 5), m.w).view(*x.shape[:-1], 4)
        return torch.einsum("btd,dc->bc", torch.relu(z), m.h)

    return Use(run, w=parameter(5, 4), b=parameter(4), h=parameter(4, CLASSES))


def flattened_minor() -> nn.Module:
    """Rows of all examples in one axis, examples varying fastest."""

    def run(m: Any, x: Tensor) -> Tensor:
        z = m.a(x.transpose(0, 1).reshape(-1, 5)).view(x.shape[1], x.shape[0], CLASSES)
        return torch.tanh(z).sum(0)

    return Use(run, a=nn.Linear(5, CLASSES))


def bare() -> nn.Module:
    def run(m: Any, x: Tensor) -> Tensor:
        z = torch.cat([m.token.expand(x.shape[0], -1, -1), x], 1) * m.scale
        z += m.shift
        z = torch.where(z > 0, z, m.slope * z) / (1 + m.scale**2)
        return m.head(z.mean(1))

    parts = {"token": parameter(1, 1, 5), "scale": parameter(5), "shift": parameter(5), "slope": parameter(1)}
    return Use(run, **parts, head=nn.Linear(5, CLASSES))


def standardised() -> nn.Module:
    def run(m: Any, x: Tensor) -> Tensor:
        w = m.c.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / w.std((1, 2, 3), keepdim=True)
        z = m.p(F.conv2d(x, w, m.c.bias)).mean((2, 3))
        return m.b(z, z)

    return Use(run, c=nn.Conv2d(2, 3, 3), p=nn.PReLU(3), b=nn.Bilinear(3, 3, CLASSES))


def cross_attention() -> nn.Module:
    def run(m: Any, x: Tensor) -> Tensor:
        query, key = x[..., :6].transpose(0, 1), x[..., 6:].transpose(0, 1)
        return m.head(m.attend(query, key, key)[0].mean(0))

    return Use(run, attend=nn.MultiheadAttention(6, 2, kdim=4, vdim=4), head=nn.Linear(6, CLASSES))


def recurrent_cells() -> nn.Module:
    def run(m: Any, x: Tensor) -> Tensor:
        hidden = torch.zeros(x.shape[0], 4, device=x.device)
        for t in range(x.shape[1]):
            hidden = torch.tanh(m.i(x[:, t]) + m.r(hidden))
        return m.o(hidden)

    return Use(run, i=nn.Linear(5, 4), r=nn.Linear(4, 4), o=nn.Linear(4, CLASSES))


def recurrent(kind: type[nn.Module], **options: Any) -> nn.Module:
    layer = kind(5, 4, batch_first=True, **options)
    width = 4 * (2 if options.get("bidirectional") else 1)
    return Use(lambda m, x: m.head(m.layer(x)[0].mean(1) + 0.0), layer=layer, head=nn.Linear(width, CLASSES))


def low_rank() -> nn.Module:
    """A frozen layer with a low-rank adapter whose second factor starts at zero, as LoRA does."""
    model = Use(
        lambda m, x: m.head(m.base(x) + 2.0 * m.up(m.down(x))),
        base=nn.Linear(5, 6),
        down=nn.Linear(5, 2, bias=False),
        up=nn.Linear(2, 6, bias=False),
        head=nn.Linear(6, CLASSES),
    )
    nn.init.zeros_(model.up.weight)
    model.base.requires_grad_(False)
    return model


def merged_low_rank() -> nn.Module:
    return Use(
        lambda m, x: F.linear(x, m.w + m.b @ m.a), w=parameter(CLASSES, 5), a=parameter(2, 5), b=parameter(CLASSES, 2)
    )


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2),
        nn.GroupNorm(2, 4),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 3, dilation=2, padding="same"),
        nn.Flatten(),
        nn.Linear(96, CLASSES),
    )


def many_dimensions() -> nn.Module:
    def run(m: Any, x: Tensor) -> Tensor:
        z = m.up(x).flatten(2)
        return m.line(z).mean(2) + m.cube(x[:, None]).mean((2, 3, 4)) + m.up1(x.flatten(2)).mean(2)

    return Use(
        run,
        up=nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        line=nn.Conv1d(6, CLASSES, 3, padding_mode="circular", padding=1),
        cube=nn.Conv3d(1, CLASSES, 2, stride=(1, 2, 1)),
        up1=nn.ConvTranspose1d(4, CLASSES, 4, dilation=2),
    )


def norms() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(2, 4, 3),
        nn.InstanceNorm1d(4, affine=True),
        nn.Flatten(),
        nn.Linear(24, 8),
        nn.LayerNorm(8),
        nn.RMSNorm(8),
        nn.Linear(8, CLASSES),
    )


def frozen_batch_norm() -> nn.Module:
    """As in networks trained before: statistics are kept, scale and shift are trained."""
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(36, 5),
        nn.BatchNorm1d(5, eps=0.1), nn.Linear(5, CLASSES),
    )  # fmt: skip
    for layer in (model[1], model[5]):
        nn.init.uniform_(layer.running_mean, -1, 1)
        nn.init.uniform_(layer.running_var, 0.5, 2)
        nn.init.normal_(layer.weight)
    return model.eval()


def weights_by_batch_norm() -> nn.Module:
    """As timm's networks without normalisation write weight standardisation: no example is involved."""

    def run(m: Any, x: Tensor) -> Tensor:
        w = F.batch_norm(m.c.weight.reshape(1, 3, -1), None, None, weight=m.gain, training=True, momentum=0.0)
        return F.conv2d(x, w.reshape_as(m.c.weight), m.c.bias).mean((2, 3))

    return Use(run, c=nn.Conv2d(2, CLASSES, 3), gain=parameter(CLASSES))


ZOO: dict[str, Case] = {
    "mlp": Case(lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, CLASSES)), (5,)),
    "in place": Case(lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, CLASSES)), (5,)),
    "tied layer": Case(tied_layer, (5,)),
    "head before body": Case(head_before_body, (5,)),
    "unused layer": Case(unused_layer, (5,)),
    "frozen layer": Case(frozen_layer, (5,)),
    "four-dimensional linear": Case(lambda: Use(lambda m, x: m.a(x).mean((1, 2)), a=nn.Linear(5, CLASSES)), (2, 3, 5)),
    "convolutions": Case(convolutions, (2, 8, 8)),
    "more convolutions": Case(many_dimensions, (4, 5, 5)),
    "norms": Case(norms, (2, 8)),
    "frozen batch norm": Case(frozen_batch_norm, (2, 5, 5)),
    "batch norm of weights": Case(weights_by_batch_norm, (2, 5, 5)),
    "bare parameters": Case(bare, (4, 5)),
    "weight standardisation": Case(standardised, (2, 5, 5)),
    "weight norm": Case(lambda: nn.Sequential(weight_norm(nn.Linear(5, 8)), nn.ReLU(), nn.Linear(8, CLASSES)), (5,)),
    "cross attention": Case(cross_attention, (4, 10)),
    "recurrent cells": Case(recurrent_cells, (4, 5)),
    "lstm": Case(lambda: recurrent(nn.LSTM), (4, 5)),
    "deep lstm in two directions": Case(lambda: recurrent(nn.LSTM, num_layers=2, bidirectional=True), (4, 5)),
    "gru": Case(lambda: recurrent(nn.GRU, num_layers=2), (4, 5)),
    "rnn without bias": Case(lambda: recurrent(nn.RNN, bias=False, nonlinearity="relu"), (4, 5)),
    "flattened": Case(flattened, (4, 5)),
    "flattened, examples fastest": Case(flattened_minor, (4, 5)),
    "transposed use": Case(
        lambda: Use(lambda m, x: x @ m.w.t() @ m.v[1:], w=parameter(4, 5), v=parameter(5, CLASSES)), (5,)
    ),
    "single numbers": Case(
        lambda: Use(
            lambda m, x: torch.tanh(m.a(x) * m.scale.exp() + m.shift) * m.scale,
            a=nn.Linear(5, CLASSES),
            scale=parameter(),
            shift=parameter(),
        ),
        (5,),
    ),
    "low rank": Case(low_rank, (5,)),
    "merged low rank": Case(merged_low_rank, (5,)),
    "words": Case(lambda: words(tied=False), (LENGTH,), predict_words),
    "tied words": Case(lambda: words(tied=True), (LENGTH,), predict_words),
    "expanded ids": Case(lambda: words(tied=True, expanded=True), (LENGTH,), predict_words),
    "masked words": Case(lambda: words(tied=False, padding=0), (LENGTH,), masked_words),
    "sequence first": Case(lambda: words(tied=False, first=False), (LENGTH,), predict_words),
}


KINDS = (
    "mlp", "tied layer", "four-dimensional linear", "convolutions", "norms", "bare parameters", "weight norm",
    "cross attention", "recurrent cells", "deep lstm in two directions", "flattened, examples fastest",
    "single numbers", "merged low rank", "tied words", "masked words", "sequence first",
)  # fmt: skip
"""One model for each rule of a gradient, for what does not hang on the model: `ZOO` is for the rules themselves."""


def trainable(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}


def gradients(model: nn.Module, loss: Any, batch: Any) -> list[dict[str, Tensor]]:
    """One example at a time, ordinary autograd."""
    parameters = trainable(model)
    rows = []
    for row in range(size(batch)):
        one = mapped(lambda tensor, row=row: tensor[row : row + 1], batch)
        found = torch.autograd.grad(loss(model, one).sum(), list(parameters.values()), allow_unused=True)
        pieces = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters.values(), found, strict=True)]
        rows.append(dict(zip(parameters, pieces, strict=True)))
    return rows


def length(pieces: Any) -> float:
    return math.sqrt(math.fsum(float(piece.double().square().sum()) for piece in pieces))


def naive(model: nn.Module, loss: Any, batch: Any, clip_norm: float) -> tuple[dict[str, Tensor], Tensor]:
    """One example at a time, ordinary autograd, clip, add."""
    sums = {name: torch.zeros_like(tensor) for name, tensor in trainable(model).items()}
    norms = []
    for row in gradients(model, loss, batch):
        norms.append(length(row.values()))
        for name, piece in row.items():
            sums[name] += piece * min(1.0, clip_norm / norms[-1]) if norms[-1] > 0 else piece
    return sums, torch.tensor(norms, dtype=torch.float64)


def furthest(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """Largest difference over all parameters, relative to the largest entry of all."""
    scale = max(float(tensor.abs().max()) for tensor in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) / max(scale, 1e-12)
