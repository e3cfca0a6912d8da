"""A step done at once gives the gradients of the step done part by part, not recorded here for want of a GPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Augment, PrivateStep, Speed, flip_and_crop, private
from tacit.train.clip.compile.replay import Replay, recordable
from tacit.train.noise.gaussian import on_processor
from tacit.train.sample.examples import Batch
from tacit.train.scale.execution import Recorded
from tacit.train.scale.recorded import Whole


def trained(
    start: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    at_once: bool,
    before: Callable[[nn.Module, Tensor, int], object] = lambda model, x, number: None,
    loss: Any = None,
    augment: Augment | None = None,
) -> tuple[list[Tensor], int]:
    """Parameters after some steps, and how many of them were done at once; `before` runs before each step."""
    model = copy.deepcopy(start)
    plan, speed = (
        Plan(40, 0.3, 8, 1.0, 0.5),
        Speed(physical_batch=14 if augment is None else 14 * augment.times, compile=True),
    )
    step = private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), plan, loss=loss, rng=5, speed=speed, augment=augment
    )
    step.parted.noise_key, recorded = step.parted.device_key, Recorded(step.parted, graphs=False)
    done = 0
    for batch in step.batches((x, y)):
        before(model, x, batch.order)
        step.recorded = recorded if at_once else None
        done += at_once and recorded.takes(batch)
        step(batch)
    return [parameter.detach() for parameter in model.parameters()], done


@pytest.mark.parametrize("broken", [False, True], ids=["finite", "not finite"])
def test_at_once_is_part_by_part(broken: bool) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    if broken:
        x[::4] = torch.inf
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    (theirs, none), (ours, done) = (trained(model, x, y, at_once=way) for way in (False, True))
    assert none == 0
    assert done >= 3
    for one, other in zip(ours, theirs, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)


@pytest.mark.parametrize("ladder", [(3,), (5, 9), (2, 4, 8), (6, 14)])
def test_parts_of_several_sizes_at_once_are_those_part_by_part(ladder: tuple[int, ...], monkeypatch) -> None:
    """A sample in several parts, the last one of the smallest size that holds it; norms come back in their order."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    monkeypatch.setattr("tacit.train.sample.units.part_sizes", lambda *_: ladder)
    torch.manual_seed(0)
    x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    (theirs, _), (ours, done) = (trained(model, x, y, at_once=way) for way in (False, True))
    assert done == 8
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


def test_all_sizes_are_compiled_before_the_first_step(monkeypatch) -> None:
    """Whichever the first samples need: when one is compiled, and that it can be, tells nothing about the data."""
    made = []
    monkeypatch.setattr(torch, "compile", lambda graph, **_: made.append(graph) or graph)
    monkeypatch.setattr("tacit.train.sample.units.part_sizes", lambda *_: (2, 5, 30))
    model = nn.Linear(6, 3)
    step = private(
        model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.3, 8, 1.0), rng=5, speed=Speed(compile=True)
    )
    for batch in step.batches((torch.randn(40, 6), torch.arange(40) % 3)):
        step(batch)
        assert len(made) == 3


def test_augmented_versions_at_once_are_those_part_by_part(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    x, y = torch.randn(40, 1, 6, 6), torch.randint(0, 3, (40,))
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    ends = []
    for way in (False, True):
        torch.manual_seed(1)
        ends.append(trained(model, x, y, at_once=way, augment=Augment(flip_and_crop(1), 3)))
    (theirs, _), (ours, done) = ends
    assert done == 8
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


def test_a_function_of_the_users_is_not_recorded(monkeypatch) -> None:
    """Its own random numbers would be the same in every step."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    jitter = Augment(lambda batch: (batch[0] + torch.randn_like(batch[0]), batch[1]), 2)
    _, done = trained(nn.Linear(6, 3), x, y, at_once=True, augment=jitter)
    assert done == 0


@pytest.mark.parametrize(("precision", "room"), [("float32", 1 + 2**-12 + 2**-6), ("bfloat16", 1 + 2**-7 + 2**-6)])
def test_gradients_are_the_clipped_sum_and_noise_of_its_scale_over_the_expected_batch(
    precision: str, room: float, monkeypatch
) -> None:
    """Number by number, noise from the processor's own stream; a clip norm that moved moves clipping and noise."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    x, y, model, plan = torch.randn(40, 6), torch.randint(0, 3, (40,)), nn.Linear(6, 3), Plan(40, 0.3, 4, 1.5)
    speed = Speed(physical_batch=40, compile=True, precision=precision)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, rng=5, speed=speed)
    step.recorded = Recorded(step.parted, graphs=False)
    for batch in step.batches((x, y)):
        step._clipper.clip_norm = 1.0 if batch.order < 2 else 0.25
        every = [step._clipper(rows, mask).sums.values() for rows, mask in batch.parts()]
        sums = [sum(same) for same in zip(*every, strict=True)]
        step.gradients(batch)
        noise = on_processor(step.recorded.whole.key.numpy().tobytes(), 21)
        right = torch.cat([one.flatten() for one in sums]) + 1.5 * step.clip_norm * room * noise
        found = torch.cat([one.grad.flatten() for one in model.parameters()])
        torch.testing.assert_close(found, right / 12, rtol=0, atol=1e-5 if precision == "float32" else 2e-4)


def test_what_a_device_derives_keys_from_is_of_secret_step_plan_and_batch() -> None:
    """And two keys that have nothing in common: one hashes, the other gives the noise's."""
    model = nn.Linear(6, 3)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.3, 4, 1.5), rng=5)
    batch = next(step.batches((torch.randn(40, 6), torch.arange(40) % 3)))
    made = [step.keys(batch).two(), step.keys(replace(batch, index=batch.index[::-1].copy())).two()]
    step.done += 1
    made.append(step.keys(batch).two())
    step._plan += b" "
    made.append(step.keys(batch).two())
    step._secret.advance()
    made.append(step.keys(batch).two())
    assert len({half for both in made for half in (both[:32], both[32:])}) == 10


class Scaled(nn.Module):
    """With a buffer, and dropout within a part."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)
        self.part = nn.Sequential(nn.Dropout(0.5))
        self.register_buffer("factor", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.part(torch.tanh(self.first(x)))) * self.factor


KEPT: list[Tensor] = []


def examples_elsewhere(model: nn.Module, x: Tensor, number: int) -> None:
    KEPT.append(x.data)  # or the next ones might lie there
    x.data = x.data + 0.5


def another_buffer(model: nn.Module, x: Tensor, number: int) -> None:
    model.factor = torch.tensor(1.0 + number)


def a_part_in_another_mode(model: nn.Module, x: Tensor, number: int) -> None:
    model.part.train(number < 3)


def parameters_elsewhere(model: nn.Module, x: Tensor, number: int) -> None:
    KEPT.append(model.first.weight.data)
    model.first.weight.data = model.first.weight.data.clone()


@pytest.mark.parametrize(
    "before", [examples_elsewhere, another_buffer, a_part_in_another_mode, parameters_elsewhere]
)  # fmt: skip
def test_what_lies_elsewhere_is_read_there(before: Any, monkeypatch) -> None:
    """As the eager step does, whose losses are looked at: after every change the pieces of work are made anew."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    model, made = Scaled(), []
    build = Whole._build

    def counted(whole: Whole) -> None:
        build(whole)
        made.append(whole.first)

    monkeypatch.setattr(Whole, "_build", counted)
    ends = []
    for way in (False, True):
        torch.manual_seed(1)
        ends.append(trained(model, x.clone(), y, at_once=way, before=before))
    assert len({id(work) for work in made}) == (2 if before is a_part_in_another_mode else len(made))
    for one, other in zip(ends[0][0], ends[1][0], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("change", ["replaced", "frozen"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_parameter_that_is_no_longer_trained_is_refused(change: str, compiled: bool, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    model = nn.Linear(6, 3)
    speed = Speed(physical_batch=14, compile=compiled)
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.3, 8, 1.0), rng=5, speed=speed)
    batches = step.batches((torch.randn(40, 6), torch.arange(40) % 3))
    step(next(batches))
    if change == "frozen":
        model.bias.requires_grad_(False)
    else:
        model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()}, assign=True)
    with pytest.raises(BadInput, match="frozen or replaced"):
        step(next(batches))


def test_the_first_look_at_a_model_is_at_made_up_records(monkeypatch) -> None:
    """Also where made-up labels are out of range: they are moved inside, and that examples mix is seen."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x - x.mean(0))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1] - 5, reduction="none")

    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    with pytest.raises(BadInput, match="depends on the other examples"):
        trained(Mixed(), torch.randn(40, 6), torch.randint(5, 8, (40,)), at_once=True, loss=loss)


@pytest.mark.parametrize("when", ["first", "second", "hand_over"])
def test_an_interrupted_step_leaves_nothing_to_be_taken_for_gradients(when: str, monkeypatch) -> None:
    """Gradients of the last step lie where this one writes; done again, it gives what it would have given."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    x, y = torch.randn(40, 6), torch.randint(0, 3, (40,))
    start = nn.Linear(6, 3)
    ends = []
    for breaks in (False, True):
        model = copy.deepcopy(start)
        speed = Speed(physical_batch=40, compile=True)
        step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.3, 4, 1.0), rng=5, speed=speed)
        step.recorded = Recorded(step.parted, graphs=False)
        for batch in step.batches((x, y)):
            if breaks and batch.order == 2:
                interrupt(step, batch, when, monkeypatch)
                assert all(parameter.grad is None for parameter in model.parameters())
                assert not any(
                    one.any() for one in step.recorded.whole.sums
                )  # whoever kept the last gradients has these
            step(batch)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(*ends)


class Recording:
    """As a CUDA graph: what was recorded is done again on the tensors it was recorded with, whatever names say now."""

    capturing = False

    def __init__(self, whole: Whole, work: Callable[[], None], sums: list[Tensor] | None) -> None:
        self.whole, self.work, self.sums = whole, work, sums

    def replay(self) -> None:
        if self.sums is None:  # adds a part or the noise, which reads tables and does not set them
            with self.while_capturing():
                self.work()
            return
        self.work()
        for kept, made in zip(self.sums, self.whole.sums, strict=True):
            kept.copy_(made)
        self.whole.sums = self.sums

    @classmethod
    @contextmanager
    def while_capturing(cls) -> Iterator[None]:
        cls.capturing = True
        yield
        cls.capturing = False

    @classmethod
    def all(cls, whole: Whole, summed: Callable[[], None], *others: Callable[[], None]) -> list[Recording]:
        """Warm up, then record the first, where the sums lie from then on, then those that add to them."""
        for _ in range(3):
            for work in (summed, *others):
                work()
        with cls.while_capturing():
            before = whole.sums  # kept, or the next might lie there
            summed()
            assert before[0].data_ptr() != whole.sums[0].data_ptr()
        return [cls(whole, summed, whole.sums), *(cls(whole, work, None) for work in others)]


def test_noise_goes_to_the_sums_that_were_recorded(monkeypatch) -> None:
    """Not to those of a warm-up: tables are set after recording, to what a replay writes."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: Recording.capturing)
    monkeypatch.setattr(Whole, "_mark", lambda whole: None)
    torch.manual_seed(0)
    x, y, start = torch.randn(40, 6), torch.randint(0, 3, (40,)), nn.Linear(6, 3)
    ends = []
    for records in (False, True):
        model = copy.deepcopy(start)
        step = private(
            model, torch.optim.SGD(model.parameters(), lr=0.1), Plan(40, 0.3, 6, 1.0), rng=5,
            speed=Speed(physical_batch=40, compile=True),
        )  # fmt: skip
        step.recorded = Recorded(step.parted, graphs=False)
        for batch in step.batches((x, y)):
            whole = step.recorded.whole = step.recorded.whole or Whole(
                step.parted.totals, step.parted.release, batch, recorded=False
            )
            monkeypatch.setattr(
                "tacit.train.scale.recorded.recorded", lambda device, *works, whole=whole: Recording.all(whole, *works)
            )
            whole.recorded = records
            step(batch)
            places = [parameter.grad.data_ptr() for parameter in model.parameters()]
            assert whole.joined.places.tolist() == places == [one.data_ptr() for one in whole.sums]
        ends.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    assert torch.equal(*ends)


def test_a_sum_that_is_not_finite_still_meets_noise_of_its_own(monkeypatch) -> None:
    """Records whose losses and norms do not tell their labels: the key is of the sum without the broken one."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    x, y = torch.zeros(8, 4), torch.tensor([0, 1, 0, 1, 0, 1, 0, 1])
    x[:, 0], x[0] = 1.0, torch.inf
    released = []
    for labels in (y, torch.cat((y[:1], 1 - y[1:]))):
        for at_once in (False, True):
            model = nn.Linear(4, 2)
            nn.init.zeros_(model.weight)
            nn.init.zeros_(model.bias)
            step = private(
                model, torch.optim.SGD(model.parameters(), lr=1.0), Plan(8, 1.0, 1, 1.0), rng=5,
                speed=Speed(physical_batch=8, compile=True),
            )  # fmt: skip
            for batch in step.batches((x, labels)):
                step.recorded = Recorded(step.parted, graphs=False) if at_once else None
                step(batch)
            released.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    same, again, other, too = released
    assert torch.equal(same, again)
    assert torch.equal(other, too)
    assert ((same - other)[1:4].abs() > 1e-3).all()  # weights that no record moves: noise alone


def interrupt(step: PrivateStep, batch: Batch, when: str, monkeypatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        whole = step.recorded.whole
        pieces = dict.fromkeys(whole.first, stop) if when == "first" else stop
        patch.setattr(whole.release if when == "hand_over" else whole, when, pieces)
        with pytest.raises(KeyboardInterrupt):
            step(batch)


def test_work_for_a_device_that_is_not_the_current_one_is_not_recorded(monkeypatch) -> None:
    """What torch records then is nothing, and replaying it would leave the sums of the first batch."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert not recordable(torch.device("cuda:0"))
    assert recordable(torch.device("cuda:1"))
    given = [torch.zeros(3)] * 3
    made = Replay(lambda trained, public, batch, mask, clip_norm: batch + 1)
    assert torch.equal(made({}, {}, *given), torch.ones(3))
