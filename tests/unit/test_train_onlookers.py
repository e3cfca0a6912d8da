"""Code to which torch would hand the tensors of all records from below a level: the model runs one record at a time."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from tacit.train.clip import Clipper, clipper
from tacit.train.clip.capture import watch
from train_mixing import CLASSES, WIDTH, each
from train_zoo import furthest, naive

pytestmark = pytest.mark.filterwarnings("ignore")
C = 0.1
GENERATOR = torch.Generator().manual_seed(3)
X, Y = torch.randn(4, WIDTH, generator=GENERATOR).clamp(max=2), torch.randint(CLASSES, (4,), generator=GENERATOR)
X[0] = 3.0


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


def shortened(tensor: Tensor, most: float = 6.0) -> Tensor:
    """No longer than `most`, as a whole: made-up records are too small to show it."""
    return tensor * min(1.0, most / max(float(tensor.norm()), 1e-9)) if tensor.is_floating_point() else tensor


def saving(m: nn.Module, b: Any) -> Tensor:
    """Compresses what is kept for the backward pass."""
    with torch.autograd.graph.saved_tensors_hooks(shortened, lambda kept: kept):
        return each(m.last((3 * torch.tanh(m.first(b[0])).square()).square()), b[1])


class Centred(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.tanh.default and float(found.abs().max()) > 0.97:
            found = found - found.mean(0, keepdim=True)
        return found


def dispatching(m: nn.Module, b: Any) -> Tensor:
    if len(b[0]) > 1:
        return each(m(b[0]), b[1])
    with Centred():
        return each(m(b[0]), b[1])


class Rounded(torch.Tensor):
    """A quantised weight that rounds what it is multiplied with by the largest number there."""

    @staticmethod
    def __new__(cls, held: Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def plain(one: Any) -> Any:
            if isinstance(one, Rounded):
                return one.held
            large = isinstance(one, Tensor) and one.is_floating_point() and float(one.abs().max()) > 1.5
            return torch.round(one / one.abs().max() * 7) * one.abs().max() / 7 if large else one

        if func in (torch.ops.aten.detach.default, torch.ops.aten.t.default, torch.ops.aten.clone.default):
            return cls(func(args[0].held, *args[1:]))
        return func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))


WEIGHT = Rounded(torch.randn(WIDTH, WIDTH, generator=GENERATOR))


def quantised(m: nn.Module, b: Any) -> Tensor:
    return each(m.last(nn.functional.linear(m.first(b[0]), WEIGHT) if len(b[0]) == 1 else m.first(b[0])), b[1])


def texted(m: nn.Module, b: Any) -> Tensor:
    return each(m(b[0] * (f"{b[0]}".count("3.0000") + 1 if len(b[0]) == 1 else 1)), b[1])


LOSSES: dict[str, Callable[..., Tensor]] = {
    "saved tensors": saving, "a dispatch mode": dispatching, "a tensor class": quantised, "text": texted,
}  # fmt: skip


def moved(loss: Any) -> tuple[float, Clipper]:
    """The most that a record moves the sum, in clip norms."""
    torch.manual_seed(0)
    model = Net()
    clip = Clipper(model, loss, dict(model.named_parameters()), C)

    def total(rows: list[int]) -> Tensor:
        sums = clip((X[rows], Y[rows]), torch.ones(len(rows), dtype=torch.bool)).sums
        return torch.cat([part.double().flatten() for part in sums.values()])

    whole = total([0, 1, 2, 3])
    return max(float((whole - total([i for i in range(4) if i != row])).norm()) for row in range(4)) / C, clip


@pytest.mark.parametrize("name", LOSSES)
def test_who_would_see_all_records_sees_one(name: str) -> None:
    far, clip = moved(LOSSES[name])
    assert far < 1.02
    assert "all records" in next(iter(clip.structures.values())).reason


@pytest.mark.parametrize("name", ["saved tensors", "a dispatch mode"])
def test_mutant_nobody_asks_who_looks_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "onlooker", lambda func, tensors: "")
    assert moved(LOSSES[name])[0] > 1.1


def hooked(loss: Any) -> float:
    torch.manual_seed(0)
    model = Net()
    model.last.register_full_backward_pre_hook(lambda _, given: tuple(one.clamp(-1, 1) for one in given))
    found = Clipper(model, loss, dict(model.named_parameters()), C)((X, Y), torch.ones(4, dtype=torch.bool)).sums
    return furthest(found, naive(model, loss, (X, Y), C)[0])


def test_hooks_of_the_backward_pass_run_for_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook shortens what no made-up record has, so the comparison with records alone does not see it."""

    def loss(m: nn.Module, b: Any) -> Tensor:
        return each(m(b[0]), b[1]) * (1 + 9 * (b[0][:, 0] > 2.9))

    assert hooked(loss) < 1e-5
    monkeypatch.setattr(clipper, "backward_hooks", lambda model, parameters: False)
    assert hooked(loss) > 1e-3
