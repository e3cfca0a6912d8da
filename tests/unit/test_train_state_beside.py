"""State beside a model that counts passes: generators of a script, fresh ones, values of many types, augmentations."""

import os
import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.loss import Adaptive, Plan
from tacit.loss.clipping import SMALLEST
from tacit.train import Augment, private
from tacit.train.clip import Clipper
from tacit.train.clip.isolation.alike import alike
from tacit.train.sample.per_record import check_apart

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS, WIDTH = 4, 5
SETTINGS = types.SimpleNamespace(calls=0)
NUMPY, TORCH = np.random.default_rng(0), torch.Generator().manual_seed(0)
Loss = Callable[[nn.Module, Any], Tensor]


def plain(m: nn.Module, b: Any) -> Tensor:
    return F.cross_entropy(m(b[0]), b[1], reduction="none")


def numpy_of_the_script(m: nn.Module, b: Any) -> Tensor:
    return plain(m, (b[0] * NUMPY.uniform(-2, 2), b[1]))


def torch_of_the_script(m: nn.Module, b: Any) -> Tensor:
    return plain(m, (b[0] + torch.randn(b[0].shape, generator=TORCH), b[1]))


def fresh(m: nn.Module, b: Any) -> Tensor:
    return plain(m, (b[0] * np.random.default_rng().uniform(-2, 2), b[1]))


def settings(m: nn.Module, b: Any) -> Tensor:
    SETTINGS.calls += 1
    return plain(m, b) * (1 + 0.5 * np.cos(SETTINGS.calls))


def enclosed() -> Loss:
    numbers = np.random.default_rng(0)
    return lambda m, b: plain(m, (b[0] * numbers.uniform(-2, 2), b[1]))


def rows() -> tuple[Tensor, Tensor]:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)), torch.zeros(ROWS, dtype=torch.long)


def why(loss: Loss) -> str:
    model = nn.Linear(WIDTH, 3)
    return Clipper(model, loss, dict(model.named_parameters()), 0.1).structure(rows()).reason


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        (numpy_of_the_script, "changes NUMPY"),
        (torch_of_the_script, "changes TORCH"),
        (enclosed(), "changes numbers in enclosed"),
        (settings, "changes SETTINGS.calls"),
        (fresh, "other losses from call to call"),
    ],
)
def test_what_counts_passes_beside_the_model_makes_records_run_one_at_a_time(loss: Loss, named: str) -> None:
    assert named in why(loss)


def test_a_model_that_draws_from_torch_alone_runs_at_once() -> None:
    assert why(lambda m, b: plain(m, (b[0] + torch.randn_like(b[0]), b[1]))) == ""


@dataclass(slots=True)
class Slotted:
    calls: int


def one() -> int:
    return 1


def two() -> int:
    return 2


DIFFERENT = [
    (np.int64(1), np.int64(2)), (np.float32(1), np.float32(2)), (Decimal(1), Decimal(2)), (Fraction(1), Fraction(2)),
    (range(1), range(2)), (timedelta(1), timedelta(2)), (Slotted(1), Slotted(2)), (one, two), (slice(1), slice(2)),
    ([np.int64(1)], [np.int64(2)]), (object(), object()),
]  # fmt: skip


@pytest.mark.parametrize("pair", DIFFERENT, ids=lambda pair: type(pair[0]).__name__)
def test_different_values_are_told_apart(pair: tuple[Any, Any]) -> None:
    assert not alike(*pair)


@pytest.mark.parametrize("make", [lambda: np.int64(3), lambda: Slotted(3), lambda: [3.0, "a"], lambda: lambda: 3])
def test_equal_values_are_alike(make: Callable[[], Any]) -> None:
    assert alike(make(), make())


class Counting:
    """An augmentation that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, b: Any) -> Any:
        self.calls += 1
        return b[0].roll(self.calls, -1), b[1]


class Drawing(Counting):
    """An augmentation with a generator of its own."""

    def __call__(self, b: Any) -> Any:
        return b[0] * NUMPY.uniform(-2, 2), b[1]


def noisy(b: Any) -> Any:
    return b[0] + torch.randn_like(b[0]), b[1]


def fresh_noise(b: Any) -> Any:
    return b[0] * np.random.default_rng().uniform(-2, 2), b[1]


def test_an_augmentation_that_keeps_something_runs_one_record_at_a_time_and_keeps_nothing() -> None:
    assert check_apart(noisy, rows())
    assert not check_apart(Drawing(), rows())
    assert not check_apart(fresh_noise, rows())
    counting = Counting()
    augment = Augment(counting, 1)
    augment.check(rows())
    counting.calls = 0
    for _ in range(2):  # the second part of a step as the first
        assert torch.equal(augment(rows()).rows[0][:, 0], rows()[0].roll(1, -1))
    assert counting.calls == 0


def test_buffers_whose_memory_cannot_be_exchanged_are_not_said_to_be_written() -> None:
    model = nn.Linear(WIDTH, 3)
    model.register_buffer("links", torch.eye(WIDTH).to_sparse())
    loss: Loss = lambda m, b: plain(m, (b[0] @ m.links.to_dense(), b[1]))  # noqa: E731
    assert Clipper(model, loss, {"weight": model.weight, "bias": model.bias}, 0.1).structure(rows()).together


def test_a_forked_process_does_not_go_on() -> None:
    model = nn.Linear(WIDTH, 3)
    step = private(model, torch.optim.SGD(model.parameters(), 0.1), Plan(ROWS, 1.0, 1, 1.0), loss=plain, rng=1)
    step._process = os.getpid() + 1
    with pytest.raises(BadInput, match="made in another process"):
        step.check_unbroken()


def test_a_clip_norm_stays_where_noise_is_not_lost() -> None:
    norm = SMALLEST * 2
    for _ in range(9):
        norm = Adaptive().next(norm, 1e9, ROWS)  # all records are shorter
    assert norm == SMALLEST
    with pytest.raises(BadInput, match="single precision"):
        Plan(ROWS, 1.0, 1, 1.0, 1e-30)
