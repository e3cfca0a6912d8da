"""Users and augmentations: averaged, clipped once, against a loop over units."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput, source
from tacit.loss import Plan
from tacit.train import Augment, Speed, flip_and_crop, private
from tacit.train.clip import Clipper, Compiled
from tacit.train.sample.augment import Several, averaged
from tacit.train.sample.users import Users
from train_zoo import CLASSES, KINDS, ZOO, classify, furthest, gradients, length, trainable

C = 0.5
UNITS, MANY = 5, 3


def by_hand(model: nn.Module, loss: object, rows: tuple, shares: torch.Tensor) -> dict:
    """Average the gradients of a unit's rows, clip the average, add."""
    total = {name: torch.zeros_like(tensor) for name, tensor in trainable(model).items()}
    for unit in range(len(shares)):
        own = gradients(model, loss, tuple(part[unit] for part in rows))
        mean = {name: sum(s * g[name] for s, g in zip(shares[unit], own, strict=True)) for name in total}
        norm = length(mean.values())
        for name, piece in mean.items():
            total[name] += piece * min(1.0, C / norm) if norm else piece
    return total


def grouped(name: str) -> tuple:
    case = ZOO[name]
    rows = tuple(part.unflatten(0, (UNITS, MANY)) for part in case.batch(UNITS * MANY))
    counts = torch.tensor([3, 1, 2, 3, 2])
    shares = (torch.arange(MANY) < counts[:, None]).float() / counts[:, None]
    return case, rows, shares


@pytest.mark.parametrize("name", KINDS)
def test_the_average_over_a_units_rows_is_clipped_once(name: str) -> None:
    torch.manual_seed(1)
    case, rows, shares = grouped(name)
    model = case.make()
    clipper = Clipper(model, averaged(case.loss), trainable(model), C)
    found = clipper(Several(rows, shares), torch.ones(UNITS, dtype=torch.bool))
    assert furthest(found.sums, by_hand(model, case.loss, rows, shares)) < 1e-5


def test_the_traced_graph_averages_too(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(1)
    case, rows, shares = grouped("convolutions")
    model = case.make()
    compiled = Compiled(Clipper(model, averaged(case.loss), trainable(model), C))
    found = compiled(Several(rows, shares), torch.ones(UNITS, dtype=torch.bool))
    assert furthest(found.sums, by_hand(model, case.loss, rows, shares)) < 1e-5


def summed(step: object, batch: object) -> dict:
    return dict(zip(step.parameters, step.parted.totals(batch).total, strict=True))


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, CLASSES))


IDS = np.array(["ann"] * 4 + ["bob"] + ["cyd"] * 2 + ["dan"] * 13)
RECORDS = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)), torch.arange(20) % CLASSES


@pytest.mark.parametrize("dataset", [False, True])
@pytest.mark.parametrize("physical", [None, 4])
def test_a_user_contributes_one_clipped_average(dataset: bool, physical: int | None) -> None:
    model = small()
    plan = Plan(4, 1.0, 1, 1.0, clip_norm=C, unit="user")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    step = private(model, optimizer, plan, loss=classify, rng=0, speed=Speed(physical_batch=physical))
    data = [tuple(part[row] for part in RECORDS) for row in range(20)] if dataset else RECORDS
    data = Rows(data) if dataset else data
    batch = next(step.batches(data, users=IDS, records_per_user=13))
    assert batch.physical == (1 if physical else 5)
    total = {name: torch.zeros_like(tensor) for name, tensor in trainable(model).items()}
    for user in np.unique(IDS):
        own = torch.from_numpy(np.flatnonzero(user == IDS))
        rows = tuple(part[own][None] for part in RECORDS)
        one = by_hand(model, classify, rows, torch.full((1, len(own)), 1 / len(own)))
        total = {name: total[name] + one[name] for name in total}
    assert furthest(summed(step, batch), total) < 1e-5


class Rows:
    def __init__(self, rows: list) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple:
        return self.rows[row]


def test_at_most_so_many_records_of_a_user_take_part() -> None:
    users = Users.of(IDS, 2, 20)
    seen = set()
    for seed in range(40):
        rows, shares = users.table(np.arange(4), source(seed))
        assert rows.shape == shares.shape == (4, 2)
        assert shares.sum(1).tolist() == [1.0] * 4
        assert all(IDS[row] == name for name, own in zip(np.unique(IDS), rows, strict=True) for row in own)
        assert shares[1].tolist() == [1.0, 0.0]
        seen |= set(rows[3])
    assert len(seen) == 13


def test_one_user_moves_the_sum_by_at_most_the_clip_norm() -> None:
    """However many records: dan with 13, with 1, or absent."""
    model = small()
    totals = []
    for kept in (IDS != "eve", IDS != "dan"):
        plan = Plan(len(np.unique(IDS[kept])), 1.0, 1, 1.0, clip_norm=C, unit="user")
        step = private(model, torch.optim.SGD(model.parameters(), lr=1.0), plan, loss=classify, rng=0)
        rows = tuple(part[torch.from_numpy(kept)] * 100 if part.ndim > 1 else part[kept] for part in RECORDS)
        totals.append(summed(step, next(step.batches(rows, users=IDS[kept], records_per_user=20))))
    moved = length(totals[0][name] - totals[1][name] for name in totals[0])
    assert 0.1 * C < moved <= C * (1 + 1e-5)


def test_records_of_nobody_are_left_out() -> None:
    ids = np.array([1.0, np.nan, 1.0, 2.0])
    assert [own.tolist() for own in Users.of(ids, 2, 4).records] == [[0, 2], [3]]
    assert [own.tolist() for own in Users.of(["a", None, "b", "a"], 2, 4).records] == [[0, 3], [2]]


def test_users_and_units_must_agree() -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(BadInput, match="unit is 'user', and users were not given"):
        next(private(model, optimizer, Plan(20, 1.0, 1, 1.0, unit="user")).batches(RECORDS))
    with pytest.raises(BadInput, match="unit is 'record', and users were given"):
        next(private(model, optimizer, Plan(20, 1.0, 1, 1.0)).batches(RECORDS, users=IDS, records_per_user=3))
    step = private(model, optimizer, Plan(4, 1.0, 1, 1.0, unit="user"))
    with pytest.raises(BadInput, match="records_per_user"):
        next(step.batches(RECORDS, users=IDS))
    with pytest.raises(BadInput, match="one id for every record"):
        next(step.batches(RECORDS, users=IDS[:3], records_per_user=3))


IMAGES = torch.randn(12, 2, 8, 8, generator=torch.Generator().manual_seed(2)), torch.arange(12) % CLASSES


FLIPS = {"ours": flip_and_crop(1), "a user's": lambda batch: flip_and_crop(1)(batch)}


@pytest.mark.parametrize("function", FLIPS.values(), ids=FLIPS)
@pytest.mark.parametrize("physical", [None, 8])
def test_augmentations_are_averaged_before_they_are_clipped(physical: int | None, function: Any, monkeypatch) -> None:
    torch.manual_seed(0)
    model = ZOO["convolutions"].make()
    seen = []

    run = Augment.__call__

    def watched(augment: Augment, rows: tuple) -> Any:
        seen.append(run(augment, rows))
        return seen[-1]

    monkeypatch.setattr(Augment, "__call__", watched)
    plan = Plan(12, 1.0, 1, 1.0, clip_norm=C, sampling="full")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    speed = Speed(physical_batch=physical)
    step = private(model, optimizer, plan, loss=classify, rng=0, augment=Augment(function, 4), speed=speed)
    batch = next(step.batches(IMAGES))
    assert batch.physical == (2 if physical else 16)
    total = summed(step, batch)
    rows = torch.cat([several.rows[0] for several in seen])
    stacked = rows, IMAGES[1][:, None].expand(12, 4)
    assert not torch.equal(rows[:, 0], rows[:, 1])
    assert furthest(total, by_hand(model, classify, stacked, torch.full((12, 4), 0.25))) < 1e-5


def test_an_augmentation_that_mixes_records_is_refused() -> None:
    model = ZOO["convolutions"].make()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for function in (lambda b: ((b[0] + b[0].flip(0)) / 2, b[1]), lambda b: (b[0] - b[0].mean(), b[1])):
        step = private(model, optimizer, Plan(12, 1.0, 1, 1.0), loss=classify, augment=Augment(function, 2))
        batch = next(step.batches(IMAGES))
        with pytest.raises(BadInput, match="mixes the records"):
            step(batch)


def test_flips_and_shifts_are_what_they_say() -> None:
    x = torch.arange(1.0, 65.0).view(1, 1, 8, 8).expand(400, 1, 8, 8)
    torch.manual_seed(0)
    moved, y = flip_and_crop(2)((x, torch.zeros(400)))
    wide = torch.nn.functional.pad(x[:1], (2, 2, 2, 2))
    allowed = {}
    for flip in (0, 1):
        for down in range(5):
            for right in range(5):
                piece = wide[0, 0, down : down + 8, right : right + 8]
                allowed[tuple((piece.flip(1) if flip else piece).flatten().tolist())] = (flip, down, right)
    seen = [allowed[tuple(image.flatten().tolist())] for image in moved]
    assert len(set(seen)) == 50
    assert y.shape == (400,)
