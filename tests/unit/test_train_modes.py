"""Attributes of a model that are set between steps lead to other code, which is looked at before it runs."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Speed, private
from tacit.train.clip import Clipper, modes
from tacit.train.clip.compile import compiled
from tacit.train.clip.compile.compiled import Compiled
from tacit.train.scale.totals import Totals

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, CLIP, COUNT = 4, 0.1, 16


class Net(nn.Module):
    """Counts its calls, once it is warm; scales by a number."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.calls, self.warm, self.scale = nn.Linear(WIDTH, 3), 0, True, 1.0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += not self.warm
        out: Tensor = self.a(x) * (-1.0) ** self.calls * self.scale
        return out


def loss(model: nn.Module, rows: Any) -> Tensor:
    return F.cross_entropy(model(rows[0]), rows[1], reduction="none")


def sums(more: int) -> tuple[list[Tensor], Any]:
    """Clipped sums of three steps in parts of four; the model's switch is set after the first."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(COUNT, WIDTH, generator=generator), torch.randint(3, (COUNT,), generator=generator)
    x, y = torch.cat((torch.ones(more, WIDTH), x)), torch.cat((torch.zeros(more, dtype=torch.long), y))
    torch.manual_seed(0)
    model, found, summed = Net(), [], Totals._summed
    plan = Plan(COUNT, 1.0, 3, 1e-3, CLIP, sampling="full")
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    step = private(model, sgd, plan, loss=loss, rng=1, speed=Speed(physical_batch=4))

    def tapped(self: Totals, *given: Any) -> Any:
        one = summed(self, *given)
        found.append(torch.cat([part.double().flatten() for part in one.total]))
        return one

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Totals, "_summed", tapped)
        for batch in step.batches((x, y)):
            step(batch)
            model.warm = False
    return found, step


def moved() -> tuple[float, Clipper]:
    """How far one record more moves the sum of a step, in clip norms."""
    (without, step), (with_it, _) = sums(0), sums(1)
    pairs = zip(without, with_it, strict=True)
    return max(float((one - other).norm()) for one, other in pairs) / CLIP, step._clipper


def test_code_behind_a_switch_that_counts_calls_runs_one_record_at_a_time() -> None:
    by, clipper = moved()
    assert by < 1.02
    assert "calls" in clipper.alone_because


def test_mutant_a_switch_leads_to_code_that_nobody_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "SWITCHES", frozenset())
    assert moved()[0] > 1.1


def test_a_hook_that_is_registered_between_steps_has_the_model_run_one_record_at_a_time() -> None:
    model = nn.Linear(WIDTH, 3)
    clipper, rows = Clipper(model, loss, dict(model.named_parameters()), CLIP), _rows(2)
    assert clipper.structure(rows).together
    model.register_full_backward_hook(lambda module, given, made: None)
    assert not clipper.structure(rows).together


def _rows(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, WIDTH), torch.zeros(count, dtype=torch.long)


def _compiled() -> tuple[Net, Clipper, Compiled]:
    model = Net()
    clipper = Clipper(model, loss, dict(model.named_parameters()), 10.0)
    return model, clipper, Compiled(clipper)


def test_a_compiled_step_follows_a_number_that_is_set_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)  # what was traced tells enough
    model, clipper, fast = _compiled()
    rows, mask = _rows(4), torch.ones(4, dtype=torch.bool)
    for scale in (1.0, 0.5):
        model.scale = scale
        found, expected = fast(rows, mask), clipper(rows, mask)
        assert torch.allclose(found.sums["a.weight"], expected.sums["a.weight"], rtol=1e-4, atol=1e-6)


def test_a_number_that_changes_in_every_step_is_not_compiled_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, fast = _compiled()
    monkeypatch.setattr(compiled, "MOST_MODES", 2)
    monkeypatch.setattr(Compiled, "_made", lambda self, batch, mask, exact: None)
    mask = torch.ones(4, dtype=torch.bool)
    for number in range(2):
        model.scale = float(number)
        fast.graph(_rows(4), mask)
    model.scale = 2.0
    with pytest.raises(BadInput, match="register_buffer"):
        fast.graph(_rows(4), mask)


def test_what_attributes_and_hooks_say_is_read_anew_where_it_changed() -> None:
    model = Net()
    listed, before = modes.Listed(list(model.modules())), modes.modes(model.modules())
    assert listed.now() == before
    hook = model.a.register_forward_hook(lambda *_: None)
    assert listed.now() == modes.modes(model.modules()) != before
    hook.remove()
    model.warm = False
    assert listed.now() == modes.modes(model.modules()) != before
    model.warm, model.fresh = True, "yes"
    assert listed.now() == modes.modes(model.modules()) != before


CALLS: list[int] = []


class Flipping(nn.Module):
    """In a place where `nn.Tanh` was: no attribute tells them apart."""

    def forward(self, x: Tensor) -> Tensor:
        return -torch.tanh(x)


class Counting(nn.Module):
    """It counts its calls beside the model."""

    def forward(self, x: Tensor) -> Tensor:
        CALLS.append(1)
        return torch.tanh(x) * (-1) ** len(CALLS)


def exchanged(new: nn.Module, *, compile: bool) -> tuple[Tensor, str]:
    """The gradient after a module was exchanged between two steps, and why records then ran one at a time."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
    speed, sgd = Speed(physical_batch=COUNT, compile=compile), torch.optim.SGD(model.parameters(), 0.0)
    step = private(model, sgd, Plan(COUNT, 1.0, 2, 1e-7, CLIP, sampling="full"), loss=loss, rng=1, speed=speed)
    for batch in step.batches((torch.randn(COUNT, WIDTH, generator=torch.Generator().manual_seed(0)), LABELS)):
        step(batch)
        model[1] = new
    return torch.cat([part.grad.flatten() for part in model.parameters()]), step._clipper.alone_because


LABELS = torch.arange(COUNT) % 3


def test_a_compiled_step_follows_a_module_that_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    eager, compiled_ = (exchanged(Flipping(), compile=way)[0] for way in (False, True))
    assert torch.allclose(eager, compiled_, atol=1e-6)
    assert not torch.allclose(eager, exchanged(nn.Tanh(), compile=True)[0], atol=1e-3)


def test_a_module_that_is_exchanged_is_looked_at_before_it_runs() -> None:
    assert exchanged(Flipping(), compile=False)[1] == ""
    assert "CALLS" in exchanged(Counting(), compile=False)[1]
