"""Models made at random: whatever is accepted, one record moves the clipped sum by at most the clip norm.

    python benchmarks/random_models.py [--quick] [--count 1000] [--start 0]

A model is three to six blocks of `random_blocks.py`, drawn from a seed, between an embedding of its inputs and a loss
that is drawn too. Batches have two to seven records, so that their number often equals other sizes. Some of the records
have strange values. From seed 1000 on the first block is one of `random_habits.py`, from 3000 on one of
`random_customs.py`. For every model that is accepted:

- taking a record out (by the mask, and where no random numbers are drawn by cutting it out of the batch), moves the sum
  by at most C (1 + r), and putting another one in its place by at most 2 C (1 + r);
- the sum is within 1e-4 C of a loop over records in float64. Rounding may carry a model another way (a rounded number,
  an order, a branch), so one that is not is held against the loop once more with the engine in float64, too.

Rows are kept by seed in results/random-models.json, and a run goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from machine import RESULTS, describe, keep
from random_blocks import BLOCKS, MIXES, Block, D, T
from random_customs import CUSTOMS
from random_habits import HABITS, RANDOM
from tacit.core import TacitError
from tacit.train.clip import Clipper
from tacit.train.clip.rounding import ROUNDING

NAME, CLASSES, HABITS_FROM, CUSTOMS_FROM = "random-models", 3, 1000, 3000
STRANGE = (1.0, 30.0, -1e4, 3e38, float("nan"))
Loss = Callable[[nn.Module, Any], Tensor]
DRAWS = ("dropout", "own noise", *RANDOM)


class Model(nn.Module):
    """Blocks in a row, some of them around a shortcut."""

    def __init__(self, rng: random.Random, first: Mapping[str, Block] | None = None) -> None:
        super().__init__()
        apart = rng.random() < 0.7  # blocks and axes that keep records apart
        known = sorted(BLOCKS.keys() - MIXES if apart else BLOCKS)
        self.names = tuple(rng.choice(known) for _ in range(rng.randint(3, 6)))
        if first:
            self.names = (rng.choice(sorted(first)), *self.names[1:])
        every = BLOCKS | HABITS | CUSTOMS
        self.inside = nn.Linear(D, D)
        self.blocks = nn.ModuleList(every[name](rng.choice((1, 2, -1) if apart else (0, 1, 2))) for name in self.names)
        self.shortcut = [rng.random() < 0.4 for _ in self.names]
        self.last = nn.Linear(D, CLASSES)
        if rng.random() < 0.2:  # a weight that two layers share
            self.inside.weight = nn.Parameter(self.inside.weight.detach())
            self.also = nn.Linear(D, D)
            self.also.weight = self.inside.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.inside(x)
        for each, shortcut in zip(self.blocks, self.shortcut, strict=True):
            h = h + each(h) if shortcut else each(h)
        if hasattr(self, "also"):
            h = self.also(h)
        return self.last(h.mean(1))


LOSSES: dict[str, Loss] = {
    "cross-entropy": lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="none"),
    "label smoothing": lambda m, b: F.cross_entropy(m(b[0]), b[1], reduction="none", label_smoothing=0.1),
    "squares": lambda m, b: (m(b[0]) - F.one_hot(b[1], CLASSES)).square().sum(1),
    "focal": lambda m, b: _focal(F.cross_entropy(m(b[0]), b[1], reduction="none")),
    "margin": lambda m, b: F.multi_margin_loss(m(b[0]), b[1], reduction="none"),
    "likelihood": lambda m, b: F.nll_loss(m(b[0]).log_softmax(1), b[1], reduction="none"),
    "chances": lambda m, b: F.binary_cross_entropy(
        m(b[0])[:, 0].sigmoid(), (b[1] > 0).to(b[0].dtype), reduction="none"
    ),
    "by a loop": lambda m, b: torch.cat([F.cross_entropy(m(x[None]), y[None])[None] for x, y in zip(*b, strict=True)]),
    "weighed by the batch": lambda m, b: _weighed(F.cross_entropy(m(b[0]), b[1], reduction="none")),
}


def _focal(losses: Tensor) -> Tensor:
    return (1 - (-losses).exp()).square() * losses


def _weighed(losses: Tensor) -> Tensor:
    return losses * losses.detach().softmax(0) * len(losses)


def drawn(seed: int) -> tuple[Model, str, tuple[Tensor, Tensor]]:
    """The model, the loss and the batch of a seed."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model = Model(rng, CUSTOMS if seed >= CUSTOMS_FROM else HABITS if seed >= HABITS_FROM else None)
    name = rng.choice(sorted(LOSSES))
    count = rng.randint(2, 7)
    x = torch.randn(count, T, D)
    if rng.random() < 0.5:
        x[rng.randrange(count)] *= rng.choice(STRANGE)
    return model, name, (x, torch.randint(0, CLASSES, (count,)))


def total(clip: Clipper, batch: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
    """The sum, with the same random numbers every time."""
    torch.manual_seed(1)
    return torch.cat([part.double().flatten() for part in clip(batch, mask).sums.values()])


def clipper(model: nn.Module, loss: Loss, norm: float) -> Clipper:
    return Clipper(model, loss, dict(model.named_parameters()), norm)


def by_a_loop(model: nn.Module, loss: Loss, batch: tuple[Tensor, Tensor], norm: float) -> tuple[Tensor, list[float]]:
    """The clipped sum over records by ordinary autograd in float64, and their norms. A record that raises adds nothing.

    A record's gradient that float32 cannot hold is left out by the engine; here it is infinite or far larger.
    """
    wide = copy.deepcopy(model).double()
    found = torch.zeros(sum(one.numel() for one in wide.parameters()), dtype=torch.float64)
    norms = []
    for place in range(len(batch[1])):
        fresh = copy.deepcopy(wide)
        x, y = batch[0][place : place + 1].double(), batch[1][place : place + 1]
        try:
            parts = torch.autograd.grad(loss(fresh, (x, y)).sum(), list(fresh.parameters()), allow_unused=True)
        except (RuntimeError, IndexError, ValueError):
            continue
        pairs = zip(parts, fresh.parameters(), strict=True)
        gradient = torch.cat([torch.zeros_like(of).flatten() if one is None else one.flatten() for one, of in pairs])
        length = float(gradient.norm())
        if length <= 2.0**64:
            found += gradient * min(1.0, norm / max(length, 1e-300))
            norms.append(length)
    return found, norms


def furthest(clip: Clipper, batch: tuple[Tensor, Tensor], *, draws: bool) -> dict[str, float]:
    """How far one record moves the sum, in clip norms, in three ways."""
    count = len(batch[1])
    whole = torch.ones(count, dtype=torch.bool)
    base = total(clip, batch, whole)
    found = {"masked": 0.0, "cut": 0.0, "replaced": 0.0}
    for place in range(count):
        kept = torch.arange(count) != place
        other = (batch[0].clone(), batch[1].clone())
        other[0][place], other[1][place] = 3.0 * torch.randn(T, D, generator=torch.Generator().manual_seed(place)), 0
        found["masked"] = max(found["masked"], far(base, total(clip, batch, kept), clip))
        found["replaced"] = max(found["replaced"], far(base, total(clip, other, whole), clip))
        if not draws and count > 1:
            less = total(clip, (batch[0][kept], batch[1][kept]), whole[1:])
            found["cut"] = max(found["cut"], far(base, less, clip))
    return found


def far(one: Tensor, other: Tensor, clip: Clipper) -> float:
    return float((one - other).norm()) / float(clip.clip_norm)


def tried(seed: int) -> dict[str, Any]:
    """One model: whether and how it is taken, and what its records move."""
    model, name, batch = drawn(seed)
    loss = LOSSES[name]
    row: dict[str, Any] = {"blocks": model.names, "loss": name, "records": len(batch[1])}
    _, norms = by_a_loop(model, loss, batch, 1.0)
    norm = sorted(norms)[len(norms) // 2] / 2 if norms else 1.0
    norm = norm if norm > 1e-6 else 1.0
    clip = clipper(model, loss, norm)
    try:
        structure = clip.structure(batch)
    except TacitError as error:
        return {**row, "way": "refused", "why": error.message[:90]}
    draws = any(one in DRAWS for one in model.names)
    moved = furthest(clip, batch, draws=draws)
    room = 1 + ROUNDING["float32"]
    row |= {"way": "at once" if structure.together else "one by one", "why": structure.reason[:90], **moved}
    row["within"] = max(moved["masked"], moved["cut"]) <= room and moved["replaced"] <= 2 * room
    row["off"] = None if draws else off(clip, model, loss, batch)
    return row


def off(clip: Clipper, model: nn.Module, loss: Loss, batch: tuple[Tensor, Tensor]) -> float:
    """How far the sum is from the loop's, in clip norms; in float64 on both sides where it is far in float32."""
    whole = torch.ones(len(batch[1]), dtype=torch.bool)
    # by design, numbers that float32 cannot square leave their record out: only such a record may be missing
    huge = ~(batch[0].abs().amax((1, 2)) <= 2.0**60)
    taken = clip(batch, whole).norms.isfinite() | ~huge
    expected, _ = by_a_loop(model, loss, (batch[0][taken], batch[1][taken]), float(clip.clip_norm))
    found = far(total(clip, batch, whole), expected, clip)
    if found <= 1e-4:
        return found
    twin = clipper(copy.deepcopy(model).double(), loss, float(clip.clip_norm))
    return far(total(twin, (batch[0].double(), batch[1]), whole), expected, clip)


def bad(row: Mapping[str, Any]) -> bool:
    """Whether a model that was accepted breaks what is promised."""
    return row["way"] != "refused" and (not row["within"] or (row["off"] or 0.0) > 1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    path = RESULTS / f"{NAME}.json"
    rows: dict[str, Any] = json.loads(path.read_text())["rows"] if path.is_file() and not given.quick else {}
    for seed in range(given.start, given.start + (40 if given.quick else given.count)):
        if str(seed) in rows:
            continue
        rows[str(seed)] = row = tried(seed)
        if bad(row):
            print("BROKEN", seed, row, flush=True)
        if not given.quick and seed % 20 == 19:
            keep(NAME, describe("torch"), rows)
    if not given.quick:
        keep(NAME, describe("torch"), rows)
    ways = Counter(row["way"] for row in rows.values())
    print(dict(ways), "broken:", [seed for seed, row in rows.items() if bad(row)])


if __name__ == "__main__":
    main()
