"""Code writes into its records, and reads memory that nobody wrote: neither carries anything to other records."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.core import BadInput
from tacit.train.clip import Clipper
from tacit.train.clip.capture.level import Level
from tacit.train.clip.capture.ranges import InRange, Inside
from tacit.train.clip.capture.watch import Capture

pytestmark = pytest.mark.filterwarnings("ignore")
WIDTH, CLASSES, ROWS, C = 6, 4, 8, 0.1
Batch = tuple[Tensor, ...]
Losses = Callable[[nn.Module, Batch], Tensor]


def each(model: nn.Module, batch: Batch) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def tamed(model: nn.Module, batch: Batch) -> Tensor:
    """Large records become smaller in place, by the same share each time; torch raises where a number is below -40."""
    x = batch[0]
    root = torch.linalg.cholesky((40 + x[:, :1, None]) * torch.eye(2))
    x.mul_(torch.where(x.abs().amax(1, keepdim=True) > 10, 0.3, 1.0))
    return each(model, batch) + 0 * root.sum((1, 2))


def centred(model: nn.Module, batch: Batch) -> Tensor:
    x, y = batch
    x -= x.mean(1, keepdim=True)
    y += 1
    return each(model, (x.mul_(0.5), y % CLASSES))


def clipper(losses: Losses) -> Clipper:
    torch.manual_seed(0)
    model = nn.Linear(WIDTH, CLASSES)
    return Clipper(model, losses, dict(model.named_parameters()), C)


def records() -> Batch:
    x = 30 * torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1)).abs()
    return x, torch.arange(ROWS) % CLASSES


def total(clip: Clipper, batch: Batch, *, without: Sequence[int] = ()) -> Tensor:
    torch.manual_seed(1)
    mask = torch.tensor([row not in without for row in range(len(batch[0]))])
    return torch.cat([one.double().flatten() for one in clip(batch, mask).sums.values()])


def test_what_code_writes_into_its_records_is_gone_when_the_batch_runs_again() -> None:
    clip, batch = clipper(tamed), records()
    assert clip.structure(batch).together
    batch[0][2, 0] = -100.0
    assert torch.equal(total(clip, batch), total(clip, batch, without=[2]))


def test_a_model_that_writes_into_its_records_runs_all_at_once_and_leaves_them_as_they_were() -> None:
    clip, batch = clipper(centred), records()
    assert clip.structure(batch).together
    found = total(clip, batch)
    expected = 0.0
    for row in range(ROWS):
        one = tuple(part[row : row + 1].clone() for part in records())
        loss = centred(clip.model, one)
        grads = torch.autograd.grad(loss.sum(), list(clip.parameters.values()))
        gradient = torch.cat([grad.double().flatten() for grad in grads])
        expected = expected + gradient * min(1.0, C / float(gradient.norm()))
    assert float((found - expected).norm()) < 1e-4 * C
    assert all(torch.equal(one, other) for one, other in zip(batch, records(), strict=True))


def mixed(model: nn.Module, batch: Batch) -> Tensor:
    x = batch[0]
    x.mul_(0.5)
    return each(model, (0.7 * x + 0.3 * x.flip(0), batch[1]))


def test_a_loss_that_writes_into_its_records_and_mixes_them_is_refused() -> None:
    with pytest.raises(BadInput, match="depends on the other examples"):
        clipper(mixed).structure(records())


SIZE = 64
UNWRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "empty": lambda x: torch.empty(SIZE),
    "empty_like": lambda x: torch.empty_like(x),
    "empty_strided": lambda x: torch.empty_strided((SIZE,), (1,)),
    "empty_permuted": lambda x: torch.empty_permuted((8, 8), (1, 0)),
    "new_empty": lambda x: x.new_empty(len(x), SIZE),
    "new_empty_strided": lambda x: x.new_empty_strided((SIZE,), (1,)),
    "resize_": lambda x: torch.zeros(0).resize_(SIZE),
    "of a parameter": lambda x: torch.empty_like(PARAMETER),
    "an operator": lambda x: torch.ops.aten.empty.memory_format([SIZE]),
}
PARAMETER = nn.Parameter(torch.ones(SIZE))


def captured(use: Callable[[Tensor], Any], x: Tensor) -> Any:
    level = Level(len(x))
    capture = Capture({"weight": PARAMETER}, level)
    with torch.enable_grad(), level.entered():
        one = capture.enter(x)
        with capture:
            found = use(one)
        return level.all(found)


def alone(use: Callable[[Tensor], Any], x: Tensor) -> Any:
    with Inside():
        return use(x[:1])


def made_up(use: Callable[[Tensor], Any], x: Tensor) -> Any:
    with InRange():
        return use(x)


@pytest.mark.parametrize("run", [captured, alone, made_up])
@pytest.mark.parametrize("name", UNWRITTEN)
def test_memory_that_nobody_wrote_holds_zeros(run: Callable[..., Any], name: str) -> None:
    """Torch gives the same memory again that was freed last, with what it held."""
    x = torch.ones(3, SIZE)
    for _ in range(20):
        held = [torch.full((rows, SIZE), 7.0) for rows in (1, 1, 3, 3)]
        del held
        assert not run(UNWRITTEN[name], x).any()


def test_what_was_written_before_a_tensor_grows_stays() -> None:
    assert made_up(lambda x: torch.ones(4).resize_(SIZE), torch.zeros(1)).sum() == 4
    assert made_up(lambda x: x.new([1.0, 2.0]), torch.zeros(1)).sum() == 3


def half_filled(model: nn.Module, batch: Batch) -> Tensor:
    """Every third place of what is read was never written."""
    read = batch[0].new_empty(len(batch[0]), WIDTH)
    read[:, ::3], read[:, 1::3] = batch[0][:, ::3], batch[0][:, 1::3]
    return each(model, (read, batch[1]))


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_place_that_is_never_filled_is_the_same_for_all(one_by_one: bool) -> None:
    losses = (lambda m, b: half_filled(m, b) + 0 * float(b[0].sum())) if one_by_one else half_filled
    clip, batch = clipper(losses), records()
    assert clip.structure(batch).together != one_by_one
    whole = total(clip, batch)
    assert all(float((whole - total(clip, batch, without=[row])).norm()) <= 1.02 * C for row in range(ROWS))
    filled = clipper(lambda m, b: each(m, (b[0] * (torch.arange(WIDTH) % 3 < 2), b[1])))
    assert torch.allclose(whole, total(filled, batch), atol=1e-6)
