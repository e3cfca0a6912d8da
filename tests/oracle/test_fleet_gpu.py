"""Fleets on a GPU against the same on the processor, against sequential training, and in parts of another size."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

from tacit import Plan
from tacit.fleet import Epochs, Fleet
from tacit.fleet import fleet as room
from tacit.fleet.device import Compiled
from tacit.fleet.failing_records import WithoutFailing
from tacit.fleet.fused import Fused
from tacit.fleet.memory import BLOCK, at_once
from tacit.fleet.order import Draws
from tacit.fleet.spread import spread
from tacit.fleet.stack import copies, stack

pytestmark = [pytest.mark.needs("gpu"), pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 784)).astype(np.float32)
Y = RNG.integers(0, 10, 2000)
MEMBER = RNG.random((2000, 130)) < 0.5
PLAN = Plan(1000, rate=0.1, steps=60, noise_multiplier=1.0)


class DrawsOfTheProcessor(Draws):
    """Sent to where the models are trained, which draws numbers of its own otherwise."""

    def __init__(self, seeds, device, block=BLOCK):
        super().__init__(seeds, "cpu", block)
        self.there = device

    def _draw(self, *args, **more):
        return super()._draw(*args, **more).to(self.there)


def mlp():
    return nn.Sequential(nn.Linear(784, 32), nn.Tanh(), nn.Linear(32, 10))


def pictures():
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 4, 8, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
    )


def convolutions():
    return nn.Sequential(nn.Conv2d(1, 4, 8, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10))


def trained(make, schedule, x=X, member=MEMBER, device="cuda", **more):
    fleet = Fleet(make, lambda p: torch.optim.SGD(p, lr=0.1), device=device, **more)
    return fleet.train(x, Y, member, schedule, rng=3)


@pytest.mark.parametrize("order", ["shared", "own"])
@pytest.mark.parametrize(("make", "shape"), [(mlp, (784,)), (convolutions, (1, 28, 28))])
def test_an_epoch_is_the_sequential_one_in_float32(make, shape, order, monkeypatch):
    made, batches = [], []
    original_make, original_take = room._make, room.Pool.take
    monkeypatch.setattr(room, "_make", lambda *args: made.append(original_make(*args)) or made[-1])

    def noted(pool, rows):
        batches.append(rows.cpu())
        return original_take(pool, rows)

    monkeypatch.setattr(room.Pool, "take", noted)
    x, member = X.reshape(-1, *shape), MEMBER[:, :5]
    found = trained(make, Epochs(1, 256), x, member, order=order).logits(x[:50])
    for k, model in enumerate(made):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for rows in batches:
            mine = rows[k] if order == "own" else rows[: 2000 % 256] if len(rows) < 256 else rows
            mine = mine[torch.as_tensor(member[:, k])[mine]]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(torch.as_tensor(x)[mine]), torch.as_tensor(Y)[mine]).backward()
            optimizer.step()
        with torch.no_grad():
            assert np.abs(found[:, k] - model(torch.as_tensor(x[:50])).numpy()).max() < 1e-4


@pytest.mark.parametrize(
    ("make", "shape", "precision", "error"),
    [(mlp, (784,), "float32", 1e-4), (mlp, (784,), "tf32", 2e-2), (convolutions, (1, 28, 28), "float32", 1e-4)],
)
@pytest.mark.parametrize("schedule", [PLAN, Epochs(1, 256)])
def test_fast_steps_are_the_eager_ones_with_the_same_noise(make, shape, precision, error, schedule, monkeypatch):
    x = X.reshape(-1, *shape)
    fast = trained(make, schedule, x, precision=precision).logits(x[:50])
    monkeypatch.setattr(room, "takes", lambda *args, **more: False)
    monkeypatch.setattr(room, "Compiled", lambda gradients, *rest: gradients)
    assert np.abs(fast - trained(make, schedule, x, precision=precision).logits(x[:50])).max() < error


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_noise_does_not_depend_on_how_many_are_trained_at_once(precision):
    few, many = (trained(mlp, PLAN, models_at_once=size, precision=precision).logits(X[:50]) for size in (64, 192))
    assert np.abs(few - many).max() < (1e-4 if precision == "float32" else 2e-2)
    parts = spread(
        Fleet(mlp, lambda p: torch.optim.SGD(p, lr=0.1), 64, "cuda", precision=precision), X, Y, MEMBER, PLAN, rng=3
    )
    assert np.array_equal(parts.logits(X[:50]), few)


def test_every_network_gets_its_fast_path():
    fleet, data = Fleet(mlp, device="cuda", precision="tf32"), room.Pool.of(X, Y, MEMBER, ()).to("cuda")
    kinds = []
    for make in (mlp, pictures, lambda: nn.Sequential(nn.Linear(784, 10))):
        net = make().cuda()
        how = room._how(fleet, stack(net, copies(net, 2)), data, PLAN)
        kinds.append(type(how.gradients if isinstance(how, WithoutFailing) else how))
    assert kinds == [Fused, Compiled, Compiled]


def test_what_is_said_to_fit_does_fit():
    """A step of as many models takes at most what is free."""
    net = convolutions().cuda()
    models = stack(net, copies(net, 1))
    step = functools.partial(room._gradients, clip_norm=1.0)
    size = at_once(models, torch.Size((1, 28, 28)), 256, step, torch.device("cuda"))
    assert size % 64 == 0
    assert 64 <= size <= 4096
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    big, x = stack(net, copies(net, size)), torch.randn(256, 1, 28, 28, device="cuda")
    batch = room.Batch(x, torch.zeros(256, dtype=torch.long, device="cuda"), torch.ones(size, 256, device="cuda") > 0)
    step(big, batch)
    assert torch.cuda.max_memory_allocated() - before < torch.cuda.mem_get_info()[1] / 2


@pytest.mark.parametrize("start", ["a module", "a function"])
@pytest.mark.parametrize(
    "schedule",
    [Epochs(3, 16), Plan(80, 0.2, 20, 1.0), Plan(80, 0.2, 60, 1.0)],
    ids=["plain", "private", "private and compiled"],
)
def test_models_are_the_processors(schedule, start: str, monkeypatch) -> None:
    """Logits within 1e-4 of their size: same starts, batches and, drawn on the processor for both, noise."""
    monkeypatch.setattr(room, "Draws", DrawsOfTheProcessor)
    rng = np.random.default_rng(0)
    x, y, member = rng.normal(size=(80, 6)).astype(np.float32), rng.integers(0, 3, 80), rng.random((80, 70)) < 0.5
    torch.manual_seed(0)

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.2, momentum=0.9)

    begin = make() if start == "a module" else make
    found = [
        Fleet(begin, optimizer, device=device).train(x, y, member, schedule, own=[3, 5], rng=1).logits(x)
        for device in ("cuda", "cpu")
    ]
    assert np.abs(found[0] - found[1]).max() <= 1e-4 * np.abs(found[1]).max()
