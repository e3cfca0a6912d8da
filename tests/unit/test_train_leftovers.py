"""What a model keeps for a picture or a second loss: nothing of the records stays in it after a step."""

import copy
import io
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tacit
from tacit.train import Speed
from tacit.train.clip import Clipper, clipper
from tacit.train.clip.leftovers import taken_back
from tacit.train.step import cross_entropy as default_loss
from train_zoo import naive, trainable

RECORDS = 12
X = torch.randn(RECORDS, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(RECORDS) % 3
PLAN = tacit.Plan(RECORDS, 1.0, 2, 1e-9, sampling="full")


class Keeping(nn.Module):
    """Keeps what people look at afterwards, in attributes of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)
        self.states: dict[str, Tensor] = {}
        self.both: tuple[Tensor, ...] | None = None

    def forward(self, x: Tensor) -> Tensor:
        self.shares = self.a(x).softmax(-1)
        self.states["last"] = self.shares
        self.both = x, self.shares
        self.outputs = []
        self.outputs.append(self.b(self.shares))
        return self.outputs[0]


def with_shares(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """A loss that reads them within its own pass, as deep supervision does."""
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none") + model.shares.square().sum(1)


def trained(speed: Speed) -> tuple[Keeping, Tensor]:
    model = Keeping()
    step = tacit.private(model, torch.optim.SGD(model.parameters(), lr=0.0), PLAN, loss=with_shares, rng=1, speed=speed)
    for batch in step.batches((X, Y)):
        step(batch)
    assert not step.alone_because
    return model, torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None]) * RECORDS


@pytest.mark.parametrize("speed", [Speed(compile=False), Speed(compile=True)], ids=["eager", "compiled"])
def test_no_record_stays_in_a_model(speed: Speed, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model, found = trained(speed)
    assert "shares" not in vars(model)
    assert "outputs" not in vars(model)
    assert model.states == {}
    assert model.both is None
    copy.deepcopy(model)  # best models, averages and whole models in a file are made like this
    torch.save(model, io.BytesIO())
    fresh = Keeping()
    sums, _ = naive(fresh, with_shares, (X, Y), 1.0)
    assert float((found - torch.cat([sums[name].flatten() for name in trainable(fresh)])).norm()) < 1e-4


def test_what_was_kept_before_stays() -> None:
    model = Keeping()
    with torch.no_grad():
        model(X[:2])
    shares, both = model.shares, model.both
    step = tacit.private(model, torch.optim.SGD(model.parameters(), lr=0.0), PLAN, loss=with_shares, rng=1)
    for batch in step.batches((X, Y)):
        step(batch)
    assert model.shares is shares
    assert model.both is both
    assert model.states["last"] is shares


def test_mutant_without_tidying_a_model_holds_its_last_records(monkeypatch) -> None:
    monkeypatch.setattr(clipper, "taken_back", lambda _: nullcontext(lambda: False))
    model, _ = trained(Speed(compile=False))
    assert "shares" in vars(model)
    with pytest.raises(NotImplementedError):
        copy.deepcopy(model)


class First(nn.Module):
    """Runs other code where no earlier pass has left something; counts how often that was."""

    def __init__(self, late: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 3)
        self.last: Tensor | None = None
        self.late, self.count = late, 0

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if self.last is None and self.count >= self.late:
            h = 10 * h
        if self.last is None and self.late:
            self.count += 1
        self.last = h
        ways = torch.where(x.mean(1) > 50, -1.0, 1.0)  # a matrix that has no root, for some records
        return self.b(torch.linalg.cholesky(ways[:, None, None] * torch.eye(5)).sum(1) * h)


def moved_by_a_failing_record(late: int = 0) -> tuple[Clipper, float]:
    """How far a record that contributes nothing moves the sum of seven others, in clip norms."""
    model = First(late)
    clip = Clipper(model, default_loss, trainable(model), 0.01)
    failing = X[:8].clone()
    failing[0] = 100.0
    sums = []
    for x, first in ((X[:8], False), (failing, True)):
        mask = torch.arange(8) >= (0 if first else 1)
        sums.append(torch.cat([one.flatten() for one in clip((x, Y[:8]), mask).sums.values()]))
    return clip, float((sums[0] - sums[1]).norm()) / 0.01


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 40])
def test_code_that_asks_whether_it_has_run_before_runs_one_record_at_a_time(late: int) -> None:
    clip, moved = moved_by_a_failing_record(late)
    assert moved == 0
    assert "call" in clip.alone_because


def test_every_pass_begins_as_the_first_one_did(monkeypatch) -> None:
    """By construction, whether or not the look at made-up records finds something."""
    monkeypatch.setattr(clipper, "keeps", lambda *_: "")
    clip, moved = moved_by_a_failing_record()
    assert not clip.alone_because
    assert moved == 0


def test_mutant_passes_that_are_tidied_once_for_a_batch(monkeypatch) -> None:
    monkeypatch.setattr(clipper, "keeps", lambda *_: "")
    whole = Clipper._clipped

    def once(self: Clipper, batch: object, mask: Tensor) -> object:
        self.structure(batch)
        with taken_back(self.model.modules()), monkeypatch.context() as patch:
            patch.setattr(clipper, "taken_back", lambda _: nullcontext(lambda: False))
            return whole(self, batch, mask)

    monkeypatch.setattr(Clipper, "_clipped", once)
    assert moved_by_a_failing_record()[1] > 1.05


def test_a_model_that_runs_one_record_at_a_time_can_be_copied_too() -> None:
    def by_value(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return with_shares(model, batch) * torch.tensor([2.0 if float(row.sum()) > 0 else 1.0 for row in batch[0]])

    model = Keeping()
    clip = Clipper(model, by_value, trainable(model), 1.0)
    clip((X, Y), torch.ones(RECORDS, dtype=torch.bool))
    assert clip.alone_because
    copy.deepcopy(model)
    assert model.states == {}
