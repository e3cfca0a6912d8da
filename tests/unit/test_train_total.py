"""Whatever values do to an operation: the code runs to its end, and the other records contribute what they would."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.train import Augment
from tacit.train.clip import Clipper
from tacit.train.clip.capture import coins, keeping, watch
from tacit.train.clip.capture.errors import Remembered
from tacit.train.clip.capture.level import Level
from tacit.train.clip.capture.watch import Capture
from tacit.train.clip.replaced import Failed, drawn_alike, repeated
from tacit.train.clip.sums import Clipped, Forward, watched
from train_mixing import CLASSES, WIDTH, each

pytestmark = pytest.mark.filterwarnings("ignore")
C, ROWS = 0.1, 6
Loss = Callable[[nn.Module, Any], Tensor]


def clipper(loss: Loss) -> Clipper:
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, CLASSES)
    return Clipper(model, loss, dict(model.named_parameters()), C)


def batch(value: float | None = None) -> tuple[Tensor, Tensor]:
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    if value is not None:
        x[2] = value
    return x, torch.arange(ROWS) % CLASSES


def others(clip: Clipper, value: float | None) -> Tensor:
    """The sum of all records but the one that has the value."""
    given, kept = batch(value), torch.arange(ROWS) != 2
    torch.manual_seed(3)
    return torch.cat([one.double().flatten() for one in clip(given, kept).sums.values()])


def total_of(clip: Clipper, value: float) -> Tensor:
    torch.manual_seed(3)
    found = clip(batch(value), torch.ones(ROWS, dtype=torch.bool))
    assert found.norms.isinf().tolist() == [False, False, True, False, False, False]
    return torch.cat([one.double().flatten() for one in found.sums.values()])


def twice(m: nn.Module, b: Any) -> Tensor:
    """Two operations that raise, for other values, and a write in place that raises in the midst of writing."""
    x, y = b
    torch.bernoulli(((x.abs() < 50) * 2 - 1.0).clamp(max=0.5))
    whole = (x * 8).long().clone()
    whole.floor_divide_((x[:, :1].abs() < 40).long().expand_as(whole).contiguous())
    return each(m(x + F.dropout(whole.float(), 0.5)), y)


class Bent(torch.autograd.Function):
    """Sets something in its backward pass, and another call of it sets it back: torch's own code runs between."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, set_to: int) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_to = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        STATE["mode"] = ctx.set_to
        return gradient, None


STATE = {"mode": 0}


def between(m: nn.Module, b: Any) -> Tensor:
    return each(Bent.apply(Bent.apply(m(b[0]), 0) * 1.5, 1), b[1])


class Raised(torch.autograd.Function):
    """Gives nothing, and its backward pass raises at values above 60."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * 0

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return gradient + 0 * torch.linalg.cholesky((60 - x)[..., None, None])[..., 0, 0]


def backwards(m: nn.Module, b: Any) -> Tensor:
    return each(m(b[0]), b[1]) + Raised.apply(m(b[0]).sum(1) * 0 + b[0][:, 0])


RAISING: dict[str, tuple[Loss, tuple[float, ...]]] = {
    "several operations": (twice, (45.0, 99.0)), "in the backward pass": (backwards, (99.0,)),
}  # fmt: skip


@pytest.mark.parametrize("way", RAISING)
def test_a_record_at_which_an_operation_raises_changes_nothing_for_the_others(way: str) -> None:
    loss, values = RAISING[way]
    clip = clipper(loss)
    assert clip.structure(batch()).together
    for value in values:
        assert torch.equal(total_of(clip, value), others(clip, None))


def test_rows_that_make_a_run_raise_are_found_and_left_out() -> None:
    """In torch's own part of the backward pass nobody says who it was."""
    rows, mask, runs = torch.arange(7.0), torch.arange(7) != 6, list[int]()
    rows[[1, 4, 5]] = 99.0

    def tried(given: Tensor, kept: Tensor) -> Clipped | Failed:
        runs.append(1)
        if bool((given > 50).any()):
            return Failed()
        return Clipped({"sum": (given * kept).sum()}, given.clone(), given.clone(), kept)

    found = repeated(tried, lambda given: not bool((given > 50).any()), rows, mask, drawn_alike(rows.device))
    assert found is not None
    assert float(found.sums["sum"]) == 0 + 2 + 3
    assert found.norms.isinf().nonzero().flatten().tolist() == [1, 4, 5]
    assert len(runs) == 2
    assert repeated(tried, lambda given: False, rows, mask, drawn_alike(rows.device)) is None


def test_mutant_the_pass_that_raised_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = clipper(twice)
    monkeypatch.setattr(Capture, "check_caught", lambda self: None)
    torch.manual_seed(3)
    found = clip(batch(45.0), torch.ones(ROWS, dtype=torch.bool))
    assert not torch.equal(torch.cat([one.double().flatten() for one in found.sums.values()]), others(clip, None))


def test_what_is_changed_while_the_backward_pass_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "STATE.mode is changed while the backward pass runs" in clipper(between).structure(batch()).reason
    monkeypatch.setattr(keeping, "looked_backwards", lambda run, look: run())
    assert clipper(between).structure(batch()).together


def sideways(x: Tensor) -> Tensor:
    """(1, 1, width): a convolution with weights of the record's own lies with the records inside."""
    return F.conv1d(x[:, None], x[:, :1, None])


def by_row(x: Tensor, shaped: Callable[[Tensor], Tensor]) -> Tensor:
    """(batch, 1): how long a tensor is that is made of every row."""
    return torch.tensor([[float(len(shaped(x[row])))] for row in range(len(x))])


ASKING: dict[str, Loss] = {
    "strides": lambda m, b: each(m(b[0] * (3 if sideways(b[0]).stride(0) > 5 * WIDTH else -3)), b[1]),
    "contiguous": lambda m, b: each(m(b[0] * (3 if sideways(b[0]).is_contiguous() else -3)), b[1]),
    "an address": lambda m, b: each(m(b[0] * (3 if b[0]._cdata else -3)), b[1]),
    "how many are not zero": lambda m, b: each(m(b[0] * by_row(b[0], lambda row: row.round().argwhere())), b[1]),
    "counts": lambda m, b: each(m(b[0] * by_row(b[0], lambda row: torch.bincount(row.abs().long()))), b[1]),
    "memory": lambda m, b: each(m(b[0] * (1 + torch.cuda.memory_allocated())), b[1]),
}
HONEST: dict[str, Loss] = {
    "strides of a record": lambda m, b: each(m(b[0].as_strided(b[0].shape, b[0].stride())), b[1]),
    "contiguous": lambda m, b: each(m(b[0] if b[0].is_contiguous() else b[0].contiguous()), b[1]),
    "a loop over a tensor": lambda m, b: each(m(torch.stack(list(b[0]))), b[1]),
    "shape and kind": lambda m, b: each(m(b[0] * b[0].size(0) * b[0].is_floating_point() * b[0].nbytes), b[1]),
}


@pytest.mark.parametrize("way", ASKING)
def test_what_hangs_on_how_many_records_there_are_is_not_told(way: str) -> None:
    found = clipper(ASKING[way]).structure(batch())
    assert not found.together
    assert any(word in found.reason for word in ("how many records", "values of records"))


@pytest.mark.parametrize("way", HONEST)
def test_what_is_a_records_own_may_be_asked(way: str) -> None:
    assert clipper(HONEST[way]).structure(batch()).together


def test_mutants_that_tell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "unanswered", lambda *_: "")
    monkeypatch.setattr(watch, "shaped_by_values", lambda *_: False)
    monkeypatch.setattr(coins, "MEMORY", ())
    assert all(clipper(ASKING[way]).structure(batch()).together for way in ("strides", "contiguous", "memory"))
    clip = clipper(ASKING["strides"])
    more = clip(batch(), torch.ones(ROWS, dtype=torch.bool)).sums["weight"]
    less = clip(tuple(one[:-1] for one in batch()), torch.ones(ROWS - 1, dtype=torch.bool)).sums["weight"]
    assert float((more - less).norm()) > 1.1 * C


def caught(b: Any) -> Any:
    """An augmentation that takes another way where an operation raises."""
    try:
        torch.linalg.cholesky((60 - b[0].amax())[None, None])
    except RuntimeError:
        return -b[0], b[1]
    return b


def test_a_record_at_which_an_augmentation_catches_something_changes_nothing_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Augment(caught, 1)(batch(99.0))
    kept = torch.arange(ROWS) != 2
    assert torch.equal(found.rows[0][kept, 0], batch()[0][kept])
    assert torch.equal(found.shares[:, 0] > 0, kept)
    monkeypatch.setattr(watch, "with_constants", lambda *_: None)
    monkeypatch.setattr(Capture, "check_caught", lambda self: None)
    assert torch.equal(Augment(caught, 1)(batch(99.0)).rows[0][kept, 0], -batch()[0][kept])


def test_what_code_returns_was_made_in_this_pass() -> None:
    kept: list[Tensor] = []

    def stale(b: Any) -> Tensor:
        kept.append(b[0].sum(1))
        return kept[0]

    def old(b: Any) -> Any:
        kept.append(b[0] * 2)
        return kept[0], b[1]

    forward = Forward(stale, batch(), {})
    watched(forward, Capture({}, Level(ROWS)))
    with pytest.raises(Remembered):
        watched(forward, Capture({}, Level(ROWS)))
    kept.clear()
    Augment(old, 1)(batch())
    with pytest.raises(BadInput, match="from call to call"):
        Augment(old, 1)(batch())
