"""A traced step rewritten for a GPU computes what the eager one does; here the rewriting is made to believe in one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.train.clip import Clipper, Compiled
from tacit.train.clip.compile import graph

MODELS = {
    "groups": lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, bias=False),
        nn.GroupNorm(4, 8), nn.Flatten(), nn.Linear(72, 4),
    ),
    "few channels": lambda: nn.Sequential(
        nn.Conv2d(2, 8, 4, 2, padding=1), nn.MaxPool2d(2, 1), nn.Conv2d(8, 6, 2), nn.Flatten(), nn.LazyLinear(4)
    ),
    "depthwise": lambda: nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=4), nn.GroupNorm(4, 4, affine=False), nn.Conv2d(4, 4, 1), nn.Flatten(),
        nn.LazyLinear(4),
    ),
}  # fmt: skip
CHANNELS = {"groups": 3, "few channels": 2, "depthwise": 4}


def classify(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


class Strided(nn.Module):
    """Strides written down by hand; their gradient is written into memory seen with those strides."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Linear(36, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x).contiguous().as_strided((len(x), 36), (144, 1))))


def test_strides_that_are_written_through_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "_is_image", lambda node: getattr(node.meta.get("val"), "ndim", 0) == 4)
    monkeypatch.setattr(torch, "compile", lambda traced, **_: traced)
    torch.manual_seed(0)
    model = Strided()
    batch, mask = (torch.randn(5, 2, 8, 8), torch.randint(0, 4, (5,))), torch.ones(5, dtype=torch.bool)
    clipper = Clipper(model, classify, dict(model.named_parameters()), 0.5)
    fast, slow = Compiled(clipper)(batch, mask), clipper(batch, mask)
    for parameter, total in slow.sums.items():
        torch.testing.assert_close(fast.sums[parameter], total, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_channels_last_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def image(node: torch.fx.Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, Tensor) and value.ndim == 4 and value.is_floating_point()

    def last(traced: torch.fx.GraphModule) -> None:
        seen.append(name)
        whole(traced)

    whole = graph._channels_last
    monkeypatch.setattr(graph, "_is_image", image)
    monkeypatch.setattr(graph, "_channels_last", last)
    monkeypatch.setattr(torch, "compile", lambda traced, **_: traced)
    torch.manual_seed(0)
    model = MODELS[name]()
    x, y = torch.randn(5, CHANNELS[name], 8, 8), torch.randint(0, 4, (5,))
    model(x)
    clipper = Clipper(model, classify, dict(model.named_parameters()), 0.5)
    mask = torch.arange(5) < 4
    fast, slow = Compiled(clipper)((x, y), mask), clipper((x, y), mask)
    assert seen == [name]
    torch.testing.assert_close(fast.norms, slow.norms, rtol=1e-5, atol=1e-6)
    for parameter, total in slow.sums.items():
        torch.testing.assert_close(fast.sums[parameter], total, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("affine", [True, False])
def test_the_normalisation_and_its_gradient_are_torchs(affine: bool) -> None:
    torch.manual_seed(1)
    x = torch.randn(3, 6, 4, 5, dtype=torch.float64) * 2 + 3
    weight, bias = torch.randn(2, 6, dtype=torch.float64) if affine else (None, None)
    sizes = (3, 6, 20, 2)
    ours, theirs = (f(x, weight, bias, *sizes, 1e-5) for f in (graph.group_norm, torch.native_group_norm))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other.view(one.shape))
    gradient = torch.randn_like(x)
    wanted = [True, affine, affine]
    arguments = (gradient, x, theirs[1], theirs[2], weight, *sizes, wanted)
    backward = torch.ops.aten.native_group_norm_backward
    for one, other in zip(graph.group_norm_backward(*arguments), backward(*arguments), strict=True):
        if other is None or one is None:
            assert one is None
        else:
            torch.testing.assert_close(one, other)
