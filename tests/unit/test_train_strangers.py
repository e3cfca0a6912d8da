"""Models and losses as people bring them: none is refused needlessly, and no record moves the sum by more than C."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import private
from tacit.train.clip import Clipper
from tacit.train.clip.capture.ranges import Inside
from tacit.train.clip.rounding import ROUNDING
from train_strangers import CLASSES, HONEST, REFUSED, ROWS, WIDTH, Rounding, Two, each

pytestmark = pytest.mark.filterwarnings("ignore")
C = 0.1
ROOM = C * (1 + ROUNDING["float32"])
WHOLE = torch.ones(ROWS, dtype=torch.bool)
DRAWN = ("randomised slopes",)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(ROWS, WIDTH, generator=generator), torch.randint(0, CLASSES, (ROWS,), generator=generator)
    x[0] = 3.5
    return x, y


def clipper_of(make: Any, loss: Any) -> Clipper:
    torch.manual_seed(0)
    model = make()
    clipper = Clipper(model, loss, {name: one for name, one in model.named_parameters() if one.requires_grad}, C)
    clipper.structure(data())
    with torch.no_grad():
        for tensor in clipper.parameters.values():
            tensor.add_(0.3 * torch.randn(tensor.shape))
    return clipper


def total(clip: Any, batch: Any, mask: torch.Tensor = WHOLE) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.cat([part.double().flatten() for part in clip(batch, mask).sums.values()])


def furthest(clip: Any, *, drawn: bool = False) -> float:
    """The most that a record moves the sum, or twice a replaced one, or later sums by any amount; in clip norms."""
    batch = data()
    whole = total(clip, batch)
    assert whole.norm() > 0
    found = [0.0]
    for row, value in ((0, torch.nan), (2, 50.0)):
        out = WHOLE.clone()
        out[row] = False
        left = total(clip, batch, out)
        other = batch[0].clone()
        other[row] = value
        found += [float((whole - left).norm()), float((whole - total(clip, (other, batch[1]))).norm()) / 2]
        found.append(100 * float((total(clip, (other, batch[1]), out) - left).norm()))
    if not drawn:
        gone = total(clip, (batch[0][1:], batch[1][1:]), WHOLE[1:])
        found += [float((whole - gone).norm()), 100 * float((whole - total(clip, batch)).norm())]
    return max(found) / C


@pytest.mark.parametrize("name", HONEST)
def test_no_record_moves_the_sum_by_more_than_the_clip_norm(name: str) -> None:
    assert furthest(clipper_of(*HONEST[name]), drawn=name in DRAWN) <= ROOM / C


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_told_what_to_do(name: str) -> None:
    make, loss, told = REFUSED[name]
    with pytest.raises(BadInput) as refused:
        clipper_of(make, loss)
    assert told in refused.value.fix


class Within:
    """A clipper inside a mode that somebody entered around the whole training."""

    def __init__(self) -> None:
        self.clipper = clipper_of(Two, each)

    def __call__(self, batch: Any, mask: torch.Tensor) -> Any:
        with Rounding():
            return self.clipper(batch, mask)


def test_a_mode_around_the_training_is_given_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    assert furthest(Within()) <= ROOM / C
    monkeypatch.setattr("tacit.train.clip.capture.onlookers.function_modes", list)
    assert furthest(Within()) > 1.1


def test_a_record_at_which_torch_raises_leaves_the_coins_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert furthest(clipper_of(*HONEST["a coin, and a loss that raises"])) <= ROOM / C
    monkeypatch.setattr("tacit.train.clip.clipper.rewound", lambda: None)
    assert furthest(clipper_of(*HONEST["a coin, and a loss that raises"])) > 1.1


def rooted(model: nn.Module, batch: Any) -> torch.Tensor:
    """Torch raises for all records where one's number is below -40; losses may be infinite, gradients are not."""
    x, constant = batch
    root = torch.linalg.cholesky((40 + x[:, :1, None]) * torch.eye(2))
    return model(x).square().sum(1) * root[:, 0, 0] + constant


@pytest.mark.parametrize("constant", [0.0, float("inf")])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_record_at_which_torch_raises_changes_nothing_for_the_others(precision: str, constant: float) -> None:
    """To the last bit: one at a time, records are rounded otherwise, all of them at once and equal ones alike."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    clipper = Clipper(model, rooted, dict(model.named_parameters()), 1.0, precision)
    batch = torch.randn(1, 8).repeat(17, 1), torch.full((17,), constant)
    mask = torch.arange(17) != 5
    without = clipper(batch, mask)
    batch[0][5, 0] = -100.0
    for given in (mask, mask | True):
        found = clipper(batch, given)
        assert all(torch.equal(found.sums[name], total) for name, total in without.sums.items())
        assert found.norms.isinf().sum() == int(given[5])
        alone = clipper._alone(batch, given, shared=True).sums
        assert all(torch.allclose(alone[name], total, atol=0.5) for name, total in without.sums.items())
    assert min(float(total.norm()) for total in without.sums.values()) > 0


def all_small(m: nn.Module, b: Any) -> torch.Tensor:
    return each(m, (b[0] if torch._is_all_true(b[0] < 3.4) else -3 * b[0], b[1]))


def test_what_torch_computes_once_for_all_records_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert furthest(clipper_of(Two, all_small)) <= ROOM / C
    monkeypatch.setattr("tacit.train.clip.capture.watch.gives_shape", lambda func: True)
    assert furthest(clipper_of(Two, all_small)) > 1.1


def test_modules_of_torch_that_are_hooks_are_somebodys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "saved_tensors_hooks" in clipper_of(*HONEST["modules as hooks"]).alone_because
    by_name = lambda one: str(getattr(one, "__module__", "")).startswith("torch")  # noqa: E731
    monkeypatch.setattr("tacit.train.clip.capture.onlookers._believed", by_name)
    assert "saved_tensors_hooks" not in clipper_of(*HONEST["modules as hooks"]).alone_because


@pytest.mark.parametrize("given", [(CLASSES, 4, 1), (-1, 4, 1), (1, 5, 1), (1, 4, 3)])
def test_labels_and_lengths_of_an_alignment_are_looked_at_before_torch_reads_beside_the_table(given: Any) -> None:
    label, time, length = (torch.tensor([one]) for one in given)
    values = torch.zeros(4, 1, CLASSES).log_softmax(-1)
    with Inside(), pytest.raises(IndexError):
        F.ctc_loss(values, label[:, None].expand(1, 2), time, length, reduction="none")
    with Inside():
        F.ctc_loss(values, torch.ones(1, 2, dtype=torch.long), torch.tensor([4]), torch.tensor([2]))


def largest_after_steps(*, improved: bool) -> float:
    """The largest singular value that is left of a layer with spectral norm."""
    torch.manual_seed(0)
    model = Two()
    layer = nn.utils.parametrizations.spectral_norm(model.a)
    layer.parametrizations.eval()

    def improve(_: nn.Module) -> None:
        layer.parametrizations.train()
        layer.weight
        layer.parametrizations.eval()

    optimizer, plan = torch.optim.SGD(model.parameters(), 3.0), Plan(ROWS, 1.0, 8, 1e-3, C, sampling="full")
    step = private(model, optimizer, plan, loss=each, project=improve if improved else None, rng=1)
    for batch in step.batches(data()):
        step(batch)
    return float(torch.linalg.matrix_norm(layer.weight, 2))


def test_spectral_norm_rests_in_a_step_and_is_improved_between_steps() -> None:
    """As docs/training.md shows it."""
    assert largest_after_steps(improved=True) - 1 < 0.5 * (largest_after_steps(improved=False) - 1)


def test_there_are_enough_of_them() -> None:
    assert len(HONEST) + len(REFUSED) >= 35
    assert all(issubclass(type(make()), nn.Module) for make, _ in HONEST.values())
