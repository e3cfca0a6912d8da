"""Search for the largest contribution of one record through whole models: what leaving it out moves the clipped sum by.

    python benchmarks/contributions_models.py [--quick] [--out FILE]

A try is a record of a batch. The sum is made with it, and without it, by the clipper itself; the table has the largest
difference in units of C (1 + r). Records have scales from 10^-12 to 10^12, halves that cancel, and inputs moved up the
gradient of their own losses.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from machine import describe, keep
from tacit.train.clip import Clipper, Weigh
from tacit.train.clip.rounding import ROUNDING

ROWS, CLIP, CLASSES, LENGTH, WIDTH, WORDS = 6, 0.5, 3, 6, 8, 11


class Over(nn.Module):
    """A layer over a sequence (B, T, d) or its transpose, and a mean and a head on top."""

    def __init__(self, layer: nn.Module, out: int = WIDTH, *, across: bool = False) -> None:
        super().__init__()
        self.layer, self.head, self.across = layer, nn.Linear(out, CLASSES), across

    def forward(self, x: Tensor) -> Tensor:
        found = self.layer(x.mT if self.across else x)
        found = found[0] if isinstance(found, tuple) else found
        return self.head((found.mT if self.across else found).mean(1))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.mix = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        ids = x[..., 0].abs().nan_to_num().clamp(max=1e6).long() % WORDS
        return F.linear(self.mix(self.words(ids) * (1 + x[..., 1:2])).mean(1), self.words.weight[:CLASSES])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found = self.norm(x)
        return self.mix(found, found, found, need_weights=False)[0]


class Squared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Bilinear(WIDTH, WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.both(x, x)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: Over(nn.Linear(WIDTH, WIDTH)),
    "convolution": lambda: Over(nn.Conv1d(WIDTH, WIDTH, 3, padding=1), across=True),
    "grouped convolution": lambda: Over(nn.Conv1d(WIDTH, WIDTH, 3, groups=4, padding=2, dilation=2), across=True),
    "transposed convolution": lambda: Over(nn.ConvTranspose1d(WIDTH, WIDTH, 3, stride=2), across=True),
    "group norm": lambda: Over(nn.Sequential(nn.GroupNorm(2, WIDTH), nn.Conv1d(WIDTH, WIDTH, 1)), across=True),
    "attention, layer norm": lambda: Over(Attention()),
    "lstm": lambda: Over(nn.LSTM(WIDTH, WIDTH, batch_first=True)),
    "gru": lambda: Over(nn.GRU(WIDTH, WIDTH, batch_first=True)),
    "tied embedding": Tied,
    "bilinear": lambda: Over(Squared()),
    "weight norm": lambda: Over(weight_norm(nn.Linear(WIDTH, WIDTH))),
}


def losses(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    """Records of one scale each; in half of the batches their halves cancel but for a share."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, LENGTH, WIDTH, generator=generator)
    if seed % 2:
        share = 10.0 ** torch.randint(-7, 0, (ROWS, 1, 1), generator=generator)
        x[:, LENGTH // 2 :] = -x[:, : LENGTH // 2] + share * x[:, LENGTH // 2 :]
    scale = 10.0 ** torch.randint(-12, 13, (ROWS, 1, 1), generator=generator).float()
    return x * scale, torch.randint(0, CLASSES, (ROWS,), generator=generator)


def moved(clipper: Clipper, batch: tuple[Tensor, Tensor]) -> Tensor:
    """How far leaving one record out moves the sum, for every record."""
    every = torch.ones(ROWS, dtype=torch.bool)
    whole, found = flat(clipper(batch, every).sums), []
    for row in range(ROWS):
        rest = torch.arange(ROWS) != row
        found.append((whole - flat(clipper(batch, rest).sums)).norm())
        gone = tuple(tensor[rest] for tensor in batch)
        found.append((whole - flat(clipper(gone, every[1:]).sums)).norm())
    return torch.stack(found)


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([total.double().flatten() for total in sums.values()])


def climbed(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Inputs a step up the gradient of their losses."""
    x = batch[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(losses(model, (x, batch[1])).sum(), x)
    size = x.norm(dim=(1, 2), keepdim=True) / slope.norm(dim=(1, 2), keepdim=True).clamp(min=1e-30)
    return (x + 0.3 * size * slope.nan_to_num()).detach(), batch[1]


def searched(batches: int, steps: int, names: tuple[str, ...] = tuple(MODELS)) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        for precision in ROUNDING:
            torch.manual_seed(0)
            model, began, worst, tries = MODELS[name](), time.process_time(), 0.0, 0
            trained = dict(model.named_parameters())
            clipper = Clipper(model, losses, trained, CLIP, precision, Weigh(most=ROWS))
            for seed in range(batches):
                batch = drawn(seed)
                for _ in range(steps):
                    value = float(moved(clipper, batch).max()) / (CLIP * (1 + ROUNDING[precision]))
                    assert not math.isnan(value), name
                    worst, tries, batch = max(worst, value), tries + 2 * ROWS, climbed(model, batch)
            rows.append({"model": name, "precision": precision, "worst": worst, "tries": tries,
                         "seconds": round(time.process_time() - began, 1)})  # fmt: skip
            print(*rows[-1].values(), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="contributions-models")
    asked = parser.parse_args()
    rows = searched(2, 2) if asked.quick else searched(30, 4)
    print("worst", max(row["worst"] for row in rows), "tries", sum(row["tries"] for row in rows))
    if not asked.quick:
        keep(asked.out, describe("torch"), rows)


if __name__ == "__main__":
    main()
