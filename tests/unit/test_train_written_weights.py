"""Weights that a forward pass writes together: from several parameters, from their entries, and again between uses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.train.clip import Clipper
from tacit.train.clip.capture import kept
from tacit.train.clip.capture.watch import Capture
from train_mixing import CLASSES, each

ROWS, WIDTH, C = 4, 3, 0.1
Run = Callable[[Any, Tensor], Tensor]


class Written(nn.Module):
    """A layer whose weight is made of two parameters in each forward pass."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.one, self.other = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Parameter(torch.randn(WIDTH, WIDTH))
        self.last, self.run = nn.Linear(WIDTH, CLASSES), run

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(torch.tanh(self.run(self, x)))
        return found


def added(m: Any, x: Tensor) -> Tensor:
    weight = m.one.clone()
    weight += m.other
    return x @ weight


def beside_a_view(m: Any, x: Tensor) -> Tensor:
    weight = m.one.clone()
    row = weight[0]
    weight.add_(m.other)
    return x @ weight + row


def entries(m: Any, x: Tensor) -> Tensor:
    """A symmetric matrix from the entries above its diagonal."""
    weight, (i, j) = torch.eye(WIDTH), torch.triu_indices(WIDTH, WIDTH)
    weight[i, j] = m.one.flatten()[: len(i)]
    return x @ (weight + weight.T)


def two_parts(m: Any, x: Tensor) -> Tensor:
    weight = torch.zeros(2, WIDTH, WIDTH)
    weight[0], weight[1] = m.one, m.other
    return x @ weight[0] + x @ weight[1].T


def diagonal(m: Any, x: Tensor) -> Tensor:
    weight = m.one.clone()
    weight.diagonal().fill_(1.0)
    weight.T.add_(m.other)
    return x @ weight


def decayed(m: Any, x: Tensor) -> Tensor:
    """The weight is changed after it was used, and used again."""
    weight = m.one.clone()
    first = x @ weight
    weight.mul_(0.1)
    return first + x @ weight


def classify(m: nn.Module, b: Any) -> Tensor:
    return each(m(b[0]), b[1])


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(ROWS, WIDTH, generator=generator), torch.arange(ROWS) % CLASSES


def made(run: Run) -> Clipper:
    torch.manual_seed(0)
    model = Written(run)
    return Clipper(model, classify, dict(model.named_parameters()), C)


def off(clip: Clipper) -> float:
    """How far the sums are from a loop over records by ordinary autograd, in clip norms."""
    parameters = list(clip.parameters.values())
    expected = torch.zeros(sum(one.numel() for one in parameters))
    for x, y in zip(*batch(), strict=True):
        loss = clip.loss(clip.model, (x[None], y[None])).sum()
        parts = torch.autograd.grad(loss, parameters, allow_unused=True)
        pairs = zip(parts, parameters, strict=True)
        whole = torch.cat([(torch.zeros_like(of) if part is None else part).flatten() for part, of in pairs])
        expected += whole * min(1.0, C / float(whole.norm()))
    found = clip(batch(), torch.ones(ROWS, dtype=torch.bool)).sums
    return float((torch.cat([found[name].flatten() for name in clip.parameters]) - expected).norm()) / C


@pytest.mark.parametrize("run", [added, beside_a_view, entries, two_parts, diagonal])
def test_a_weight_may_be_written_together_from_parameters(run: Run) -> None:
    clip = made(run)
    assert clip.structure(batch()).together
    assert off(clip) < 1e-5


@pytest.mark.parametrize("run", [added, beside_a_view, two_parts])
def test_mutant_what_is_written_into_a_weight_is_not_noted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capture, "_mixed", lambda *_: None)
    clip = made(run)
    assert not clip.structure(batch()).together  # only the comparison with autograd sees it
    assert off(clip) < 1e-5


def test_a_weight_that_is_changed_between_two_uses_runs_one_at_a_time() -> None:
    clip = made(decayed)
    assert "writes into a tensor" in clip.structure(batch()).reason
    assert off(clip) < 1e-5


def test_mutant_a_change_between_two_uses_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept.Record, "overwritten", False)
    assert "writes into a tensor" not in made(decayed).structure(batch()).reason
    monkeypatch.setattr("tacit.train.clip.clipper.agrees", lambda *_: True)
    clip = made(decayed)
    assert clip.structure(batch()).together
    assert off(clip) > 1e-3


def test_weights_may_be_negated_or_rectified_in_place() -> None:
    clip = made(lambda m, x: x @ F.relu(m.one * 1, inplace=True) + x @ m.other.clone().neg_())
    assert clip.structure(batch()).together
    assert off(clip) < 1e-5
