"""What one unit moves the clipped sum by, on every path of a step: users, augmentation, precisions, parts, noise."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Augment, PrivateStep, Speed, private
from tacit.train.clip.arrays import ordinary_modes
from tacit.train.clip.capture.coins import drawn_from
from tacit.train.clip.weigh import Weigh
from tacit.train.sample.units import units

pytestmark = pytest.mark.filterwarnings("ignore")
UNITS, LENGTH, WIDTH, CLASSES, WORDS, CLIP = 6, 5, 4, 3, 7, 0.1
PLACES = {2: ("nothing", "others", "larger"), UNITS - 1: ("nothing", "larger")}
Data = dict[str, Tensor]


class Tied(nn.Module):
    """One table for words that go in and words that come out."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.hidden = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.table.weight

    def forward(self, batch: Data) -> Tensor:
        return self.head(torch.tanh(self.hidden(self.table(batch["words"])))).mean(1)[:, :CLASSES]


class LayerDrop(nn.Module):
    """A coin, the same for all records, decides whether a layer is skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, batch: Data) -> Tensor:
        x = batch["x"]
        for layer in self.layers:
            if torch.rand([]) < 0.5:
                x = x + torch.tanh(layer(x))
        return self.head(x).mean(1)


class Experts(nn.Module):
    """Every position goes to one expert, whose share of all positions depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.head = nn.Linear(WIDTH, 3), nn.Linear(WIDTH, CLASSES)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, batch: Data) -> Tensor:
        rows = batch["x"].reshape(-1, WIDTH)
        share, chosen = self.gate(rows).softmax(-1).max(-1)
        out = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            own = (chosen == number).nonzero().squeeze(1)
            given = expert(rows[own]) * share[own, None]
            out = out.index_add(0, own, given.to(out.dtype))
        return self.head(out.view(batch["x"].shape)).mean(1)


class ExpertsInTwoTypes(Experts):
    """Its code adds up numbers of two types in bfloat16, which torch refuses under autocast."""

    def forward(self, batch: Data) -> Tensor:
        rows = batch["x"][:, 0]
        own = (self.gate(rows).argmax(-1) == 0).nonzero().squeeze(1)
        return self.head(torch.zeros_like(rows)) + self.gate(rows).index_add(0, own, rows[own, :3])


class Rotary(nn.Module):
    """Attention with rotated positions; the table of angles is kept from the first call on."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.head, self.kept = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, CLASSES), {}

    def angles(self, x: Tensor) -> Tensor:
        if x.dtype not in self.kept:
            angles = torch.arange(LENGTH)[:, None] * 0.3 ** (torch.arange(WIDTH) % (WIDTH // 2))
            self.kept[x.dtype] = angles.to(x.dtype)
        return self.kept[x.dtype]

    def forward(self, batch: Data) -> Tensor:
        angles = self.angles(batch["x"])
        query, key, value = self.project(batch["x"]).chunk(3, -1)
        query, key = (
            x * angles.cos() + torch.cat((-x[..., WIDTH // 2 :], x[..., : WIDTH // 2]), -1) * angles.sin()
            for x in (query, key)
        )
        return self.head(F.scaled_dot_product_attention(query, key, value, is_causal=True)).mean(1)


class Checkpointed(nn.Module):
    """A transformer's block with dropout, computed again in the backward pass."""

    def __init__(self, dropout: float = 0.3) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=dropout, batch_first=True)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, batch: Data) -> Tensor:
        return self.head(checkpoint(self.block, batch["x"], use_reentrant=False)).mean(1)


class Written(nn.Module):
    """A weight that is written in place from two parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Parameter(torch.randn(1, WIDTH)), nn.Parameter(torch.randn(CLASSES - 1, WIDTH))

    def forward(self, batch: Data) -> Tensor:
        weight = torch.zeros(CLASSES, WIDTH, dtype=self.one.dtype)
        weight[:1], weight[1:] = self.one, 2 * self.two
        return F.linear(batch["x"].mean(1), weight)


class Turned(nn.Module):
    """A loss that branches on values, which runs one unit at a time, with dropout in a checkpointed part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.3))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, batch: Data) -> Tensor:
        x = batch["x"] if float(batch["x"].abs().max()) < 1e9 else -batch["x"]
        return self.head(checkpoint(self.part, x, use_reentrant=False)).mean(1)


def loss(model: nn.Module, batch: Data) -> Tensor:
    return F.cross_entropy(model(batch), batch["y"], reduction="none")


def jitter(batch: Data) -> Data:
    return {**batch, "x": batch["x"] + torch.randn_like(batch["x"])}


@dataclass(frozen=True)
class Path:
    """How a step is made, and how many records every user has (none: records are the units)."""

    speed: Speed = field(default_factory=Speed)
    users: tuple[int, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)
    clipping: str = "flat"

    def plan(self) -> Plan:
        unit = "user" if self.users else "record"
        return Plan(UNITS, 1.0, 1, 1.0, CLIP, sampling="full", unit=unit, clipping=self.clipping)

    def owners(self) -> np.ndarray:
        """The unit of every record."""
        return np.repeat(np.arange(UNITS), self.users or 1)


SEVERAL = (3, 1, 3, 1, 2, 3)
PATHS = {
    "parts": Path(Speed(physical_batch=3)),
    "users": Path(Speed(physical_batch=6), SEVERAL),
    "users in bfloat16": Path(Speed(physical_batch=8, precision="bfloat16"), SEVERAL),
    "compiled": Path(Speed(physical_batch=4, compile=True)),
    "compiled users": Path(Speed(physical_batch=8, compile=True), SEVERAL),
    "augmented": Path(Speed(physical_batch=8), more={"augment": Augment(jitter, 4)}),
    "augmented in bfloat16": Path(Speed(precision="bfloat16"), more={"augment": Augment(jitter, 4)}),
    "grid": Path(Speed(physical_batch=4), more={"noise": "grid"}),
    "users on a grid": Path(users=SEVERAL, more={"noise": "grid"}),
    "by layer": Path(Speed(physical_batch=4), clipping="per-layer"),
}


def records(count: int) -> Data:
    generator = torch.Generator().manual_seed(0)
    return {
        "x": 3 * torch.randn(count, LENGTH, WIDTH, generator=generator),
        "words": torch.randint(WORDS, (count, LENGTH), generator=generator),
        "y": torch.randint(CLASSES, (count,), generator=generator),
    }


def changed(data: Data, rows: np.ndarray, kind: str) -> Data:
    """The data with other values in these rows: no numbers and no words, others, or far larger ones."""
    data = {name: values.clone() for name, values in data.items()}
    none = kind == "nothing"
    data["x"][rows] *= torch.nan if none else 1e6 if kind == "larger" else -1
    data["words"][rows] = 10**6 if none else data["words"][rows].flip(1)
    data["y"][rows] = -100 if none else (data["y"][rows] + 1) % CLASSES
    return data


def made(make: Callable[[], nn.Module], path: Path) -> PrivateStep:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return private(model, optimizer, path.plan(), loss=loss, rng=1, speed=path.speed, **path.more)


def clipped_sum(step: PrivateStep, path: Path, data: Data) -> Tensor:
    """The sum to which a step adds its noise, always with the same random numbers."""
    totals, grid = step.parted.totals, step._release.grid
    drawn = units(
        data, path.plan(), users=path.owners() if path.users else None, most=3 if path.users else None,
        augment=step.augment, physical=path.speed.physical_batch, processes=1, fixed=totals.compiled is not None,
    )  # fmt: skip
    batch = drawn(0, bytes(32), bytes(32))
    with ordinary_modes(step.device), drawn_from(step._chance(0), step.device, read=False):
        coins = step._coins()
        found = totals.settled(batch, totals(batch, coins), coins).total
    return (1.0 if grid is None else grid.spacing) * torch.cat([part.double().flatten() for part in found])


def moved(step: PrivateStep, path: Path) -> tuple[float, float]:
    """How far a unit moves the sum in clip norms, at most: by leaving it, and by being replaced."""
    owners = path.owners()
    data = records(len(owners))
    whole = clipped_sum(step, path, data)
    assert torch.equal(whole, clipped_sum(step, path, data))
    left, replaced = [], []
    for place, kinds in PLACES.items():
        rows = np.flatnonzero(owners == place)
        others = [clipped_sum(step, path, changed(data, rows, kind)) for kind in kinds]
        left += [float((other - others[0]).norm()) for other in (whole, *others[1:])]
        replaced += [float((other - whole).norm()) for other in others[1:]]
    return max(left) / CLIP, max(replaced) / CLIP


def by_loop(step: PrivateStep, path: Path) -> Tensor:
    """The clipped sum in float64, one unit after the other by ordinary autograd."""
    owners = path.owners()
    data = records(len(owners))
    model = step.model.double()
    parameters, total = list(model.parameters()), torch.zeros(())
    for unit in range(UNITS):
        rows = {name: values[owners == unit] for name, values in data.items()}
        value = loss(model, {name: one.double() if one.is_floating_point() else one for name, one in rows.items()})
        gradients = torch.autograd.grad(value.mean(), parameters)
        one = torch.cat([gradient.flatten() for gradient in gradients])
        total = total + one * min(1.0, CLIP / float(one.norm()))
    return total


MODELS = {"one at a time": Turned, "checkpointed": Checkpointed, "experts": Experts, "layer drop": LayerDrop}
CASES = [
    *[("one at a time", path) for path in ("users on a grid", "by layer")],
    *[("checkpointed", path) for path in ("parts", "users in bfloat16", "compiled", "users on a grid")],
    *[("experts", path) for path in ("users in bfloat16", "grid", "augmented in bfloat16", "compiled users")],
    *[("layer drop", path) for path in ("augmented", "users in bfloat16", "grid")],
]
EXACT = {"tied": Tied, "rotary": Rotary, "written": Written, "experts": Experts}
LOOPS = [("tied", "users"), ("tied", "compiled"), ("rotary", "compiled users"), ("rotary", "users on a grid"),
         ("written", "compiled users"), ("written", "grid"), ("experts", "users")]  # fmt: skip


@pytest.fixture(autouse=True)
def without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A traced graph runs as it is."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)


@pytest.mark.parametrize(("model", "path"), CASES)
def test_one_unit_moves_the_sum_by_no_more_than_the_noise_is_scaled_for(model: str, path: str) -> None:
    step = made(MODELS[model], PATHS[path])
    left, replaced = moved(step, PATHS[path])
    assert 0.9 < left <= 1 + step.rounding
    assert replaced <= 2 * (1 + step.rounding)


@pytest.mark.parametrize(("model", "path"), LOOPS)
def test_the_sum_is_that_of_a_loop_over_units(model: str, path: str) -> None:
    step = made(EXACT[model], PATHS[path])
    found = clipped_sum(step, PATHS[path], records(len(PATHS[path].owners())))
    near = 1e-3 if "grid" in path else 1e-4
    assert float((found - by_loop(step, PATHS[path])).norm()) < near * CLIP


@pytest.mark.parametrize("path", ["users", "grid", "augmented in bfloat16"])
def test_mutant_weights_that_are_a_tenth_too_large(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Weigh.__call__
    monkeypatch.setattr(Weigh, "__call__", lambda *given: 1.1 * exact(*given))
    step = made(Checkpointed, PATHS[path])
    if path == "grid":  # what is beyond the bound there counts as zero
        assert moved(step, PATHS[path])[0] < 0.9
    else:
        assert moved(step, PATHS[path])[0] > 1 + step.rounding


def test_code_that_raises_in_bfloat16_alone_is_refused_with_what_to_do() -> None:
    data = records(UNITS)
    step = made(ExpertsInTwoTypes, PATHS["augmented in bfloat16"])
    with pytest.raises(BadInput, match=r'raises in bfloat16 only, use Speed\(precision="float32"\)'):
        clipped_sum(step, PATHS["augmented in bfloat16"], data)
    assert bool(clipped_sum(made(ExpertsInTwoTypes, PATHS["parts"]), PATHS["parts"], data).any())
