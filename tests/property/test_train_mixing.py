"""Whatever user code does: one record moves the sum by at most the clip norm, or the code is refused."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from tacit.core import BadInput
from tacit.fleet.device import Batch
from tacit.fleet.fleet import _gradients
from tacit.fleet.stack import AnyStack, stack, stacked
from tacit.train import Augment
from tacit.train.clip import Clipper
from tacit.train.clip.rounding import ROUNDING
from train_mixing import CLASSES, HONEST, MIXING, ROWS, WIDTH, InAnObject, Net, each, in_a_buffer, in_a_closure, through

C = 0.1
ROOM = C * (1 + ROUNDING["float32"])
WHOLE = torch.ones(ROWS, dtype=torch.bool)
STRANGE = (3.0, -50.0, 3e38, float("nan"), float("inf"))
pytestmark = pytest.mark.filterwarnings("ignore")


def data(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.randint(0, CLASSES, (ROWS,), generator=generator)


def clipper_of(loss: Any) -> Clipper:
    torch.manual_seed(0)
    model = Net()
    clipper = Clipper(model, loss, dict(model.named_parameters()), C)
    clipper.structure(data())
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(0.5 * torch.randn(tensor.shape))
    return clipper


def total(clip: Any, batch: Any, mask: torch.Tensor) -> torch.Tensor:
    """The sum as one vector; the same random numbers each time."""
    torch.manual_seed(1)
    return torch.cat([part.double().flatten() for part in clip(batch, mask).sums.values()])


def without(batch: Any, row: int) -> Any:
    return tuple(torch.cat((tensor[:row], tensor[row + 1 :])) for tensor in batch)


def neighbours(clip: Any, *, drawn: bool = False) -> None:
    """Remove, leave out or replace any record, by ordinary and by strange values."""
    batch = data()
    whole = total(clip, batch, WHOLE)
    for row in range(ROWS):
        out = WHOLE.clone()
        out[row] = False
        left = total(clip, batch, out)
        assert (whole - left).norm() <= ROOM
        if not drawn:  # with one record less, the others would draw other numbers
            assert (whole - total(clip, without(batch, row), WHOLE[1:])).norm() <= ROOM
        value = STRANGE[row % len(STRANGE)]
        other = batch[0].clone(), batch[1].clone()
        other[0][row], other[1][row] = value, (other[1][row] + 1) % CLASSES
        changed = total(clip, other, WHOLE)
        assert changed.isfinite().all()
        assert (whole - changed).norm() <= 2 * ROOM
        assert (total(clip, other, out) - left).norm() <= 1e-6 * C  # who is left out has no part at all


DRAWN = ("noise", "coin", "mixup", "order", "dropout", "momentum", "bank")
REFUSED = (
    "mean of the batch in the inputs", "sorted over the batch", "attention over the batch", "batch norm", "contrastive",
    "mixup", "cutmix", "bank in a buffer", "mean of the losses", "cumulative sum", "a few hundredths of the mean",
)  # fmt: skip


@pytest.mark.parametrize("way", MIXING)
def test_one_record_moves_the_sum_by_at_most_the_clip_norm(way: str) -> None:
    try:
        clipper = clipper_of(MIXING[way])
    except BadInput:
        return
    assert way not in REFUSED
    neighbours(clipper, drawn=any(word in way for word in DRAWN))


@pytest.mark.parametrize("way", HONEST)
def test_honest_models_are_not_refused(way: str) -> None:
    neighbours(clipper_of(HONEST[way]), drawn=any(word in way for word in DRAWN))


def test_mutant_records_that_share_what_a_loss_keeps(monkeypatch) -> None:
    monkeypatch.setattr("tacit.train.clip.isolation.Surroundings.run", lambda self, seed, function: function())
    for loss in (in_a_closure(), in_a_buffer, InAnObject()):
        clipper = clipper_of(loss)
        with pytest.raises(AssertionError):
            neighbours(clipper)


def test_there_are_enough_ways() -> None:
    assert len(MIXING) >= 60
    assert len(HONEST) >= 20


def test_mutant_a_batch_whose_losses_are_clipped_after_mixing() -> None:
    """The assertions above would see a step that runs the batch as a batch."""
    clipper = clipper_of(through(lambda x: x))
    loss = through(lambda x: x - x.mean(0))

    def mixed(batch: Any, mask: torch.Tensor) -> Any:
        model = clipper.model
        found = copy.copy(clipper(batch, mask))
        losses = loss(model, batch)
        sums = {name: torch.zeros_like(tensor) for name, tensor in model.named_parameters()}
        for row in mask.nonzero().flatten():
            parts = torch.autograd.grad(losses[row], list(model.parameters()), retain_graph=True, allow_unused=True)
            norm = torch.stack([part.norm() for part in parts if part is not None]).norm()
            for name, part in zip(sums, parts, strict=True):
                sums[name] += 0 if part is None else part * min(1.0, C / float(norm))
        object.__setattr__(found, "sums", sums)
        return found

    with pytest.raises(AssertionError):
        neighbours(mixed)


MIXERS = {
    "mixup": lambda b: ((b[0] + b[0][torch.randperm(len(b[0]))]) / 2, b[1]),
    "flip": lambda b: ((b[0] + b[0].flip(0)) / 2, b[1]),
    "mean": lambda b: (b[0] - b[0].mean(0), b[1]),
    "labels": lambda b: (b[0], b[1].flip(0)),
    "running sum": lambda b: (b[0].cumsum(0), b[1]),
    "cutmix": lambda b: (torch.cat((b[0][:, :2], b[0].roll(1, 0)[:, 2:]), 1), b[1]),
    "fewer": lambda b: (b[0][:1], b[1][:1]),
}


@pytest.mark.parametrize("way", MIXERS)
def test_augmentations_that_mix_are_refused(way: str) -> None:
    with pytest.raises(BadInput, match=r"mixes the records|one record for each|shuffled"):
        Augment(MIXERS[way], 2).check(data())


def remembering() -> Any:
    last: list[torch.Tensor] = []

    def augment(batch: Any) -> Any:
        x = batch[0] + (last[-1] if last else 0)
        last[:] = [batch[0].clone()]
        return x, batch[1]

    return augment


def test_an_augmentation_that_remembers_records_is_refused() -> None:
    with pytest.raises(BadInput, match=r"keeps records|mixes the records|one record for each"):
        Augment(remembering(), 2).check(data())


APART = {
    "noise": lambda b: (b[0] + torch.randn_like(b[0]), b[1]),
    "a branch": lambda b: (b[0] if b[0].sum() > 0 else -b[0], b[1]),
    "raises": lambda b: (_raise() if bool((b[0] > 2.5).any()) else 2 * b[0], b[1]),
    "numpy": lambda b: (torch.from_numpy(b[0].numpy() * 2), b[1]),
    "shape by value": lambda b: (b[0][:, : 2 + 2 * int(bool((b[0] < 2.5).all()))], b[1]),
}


def _raise() -> None:
    raise ValueError("a value that this function does not take")


@pytest.mark.parametrize("way", APART)
def test_augmentations_see_one_record_at_a_time(way: str) -> None:
    augment = Augment(APART[way], 2)
    augment.check(data())
    first, other = data(), data()
    other[0][2] = 3.0
    found = []
    for batch in (first, other):
        torch.manual_seed(0)
        found.append(augment(batch))
    kept = torch.arange(ROWS) != 2
    assert torch.equal(found[0].rows[0][kept], found[1].rows[0][kept])
    assert torch.equal(found[0].shares[kept], found[1].shares[kept])
    assert found[0].shares[2].sum() == 1
    assert found[1].shares[2].sum() == (0 if way in ("raises", "shape by value") else 1)


def test_losses_are_still_those_of_single_records() -> None:
    """The tests' own loss is the ordinary one."""
    torch.manual_seed(0)
    model, (x, y) = Net(), data()
    assert torch.allclose(
        each(model(x), y), torch.stack([each(model(a[None]), b[None])[0] for a, b in zip(x, y, strict=True)])
    )


class Kept(nn.Module):
    """Adds what it saw in the last pass to what it sees in this one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(WIDTH, CLASSES), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.layer(x if self.last is None else x + 10 * self.last)
        self.last = x.detach()
        return found


class Centred(nn.Module):
    """Takes the mean of the batch away."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x - x.mean(0)) + x.sum() + torch.arange(len(x))[:, None]


FLEETS: dict[str, Any] = {
    "linear": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES)),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2, padding=1), nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(27, 3)
    ),
    "mean of the batch": Centred,
    "kept from the last pass": Kept,
    "dropout": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5), nn.Linear(WIDTH, CLASSES)),
}


def fleet_of(way: str) -> Any:
    """The clipped sum of two models of a fleet, as one vector, as a function of (batch, mask)."""
    torch.manual_seed(0)
    models = stack(FLEETS[way](), stacked([FLEETS[way]() for _ in range(2)]))

    def clip(batch: Any, mask: torch.Tensor) -> Any:
        found = _gradients(models, Batch(*batch, mask.expand(2, -1)), clip_norm=C)
        return SimpleNamespace(sums={name: values[1] for name, values in found.items()})

    return clip


@pytest.mark.parametrize("way", FLEETS)
def test_one_record_moves_a_fleets_sum_by_at_most_the_clip_norm(way: str) -> None:
    neighbours(fleet_of(way), drawn="dropout" in way)


def test_labels_outside_move_a_fleets_sum_by_at_most_the_clip_norm() -> None:
    for way in ("linear", "mean of the batch"):
        clip, batch = fleet_of(way), data()
        batch[1][1] = 77
        out = torch.arange(ROWS) != 1
        assert (total(clip, batch, WHOLE) - total(clip, batch, out)).norm() <= ROOM


def test_mutant_a_fleet_that_keeps_what_a_model_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnyStack, "_kept_apart", lambda self, run, x: run())
    with pytest.raises((AssertionError, RuntimeError)):
        neighbours(fleet_of("kept from the last pass"))
