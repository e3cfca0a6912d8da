"""What a model keeps for a picture or a second loss: nothing of the records stays in it after a step."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tacit
from tacit.train import Speed
from tacit.train.clip import clipper
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
    from contextlib import nullcontext

    monkeypatch.setattr(clipper, "taken_back", lambda _: nullcontext())
    model, _ = trained(Speed(compile=False))
    assert "shares" in vars(model)
    with pytest.raises(NotImplementedError):
        copy.deepcopy(model)
