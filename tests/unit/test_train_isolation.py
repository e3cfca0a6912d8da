"""One record at a time: whatever user code keeps, and wherever, no later record sees it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import train_kept_elsewhere as elsewhere
from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import private
from tacit.train.clip import Clipper
from tacit.train.clip.isolation import Surroundings
from train_keeping import (
    ARRAY,
    BY_NUMPY,
    LARGE,
    LARGE_ARRAY,
    VIEWED,
    WIDTH,
    Net,
    cached,
    enclosing,
    keeping,
    unwatchable,
    ways,
)  # fmt: skip
from train_mixing import CLASSES, each

pytestmark = pytest.mark.filterwarnings("ignore")
WAYS = ways()


def clipper_of(way: str) -> Clipper:
    torch.manual_seed(0)
    model = Net()
    model.kept["add"], model.kept["last"] = enclosing()
    return Clipper(model, keeping(*WAYS[way]), dict(model.named_parameters()), 0.1)


def moved_by_others(clipper: Clipper) -> float:
    """How far a record's part of the sum is from what it is without a record before it, in clip norms."""
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(2, WIDTH, generator=generator).clamp(max=2), torch.randint(CLASSES, (2,), generator=generator)
    x[0] = 3.0
    found = []
    for keep in ([False, True], [True, False], [True, True]):
        torch.manual_seed(1)
        sums = clipper((x, y), torch.tensor(keep)).sums
        found.append(torch.cat([part.double().flatten() for part in sums.values()]))
    assert found[0].norm() > 0
    return float((found[2] - found[1] - found[0]).norm()) / clipper.clip_norm


@pytest.mark.parametrize("way", WAYS)
def test_a_later_record_does_not_see_an_earlier_one(way: str) -> None:
    clipper = clipper_of(way)
    assert moved_by_others(clipper) < 1e-5
    assert not next(iter(clipper.structures.values())).together
    assert elsewhere.SEEN == []
    assert elsewhere.TOTAL == 0


@contextlib.contextmanager
def put_back(around: Surroundings) -> Iterator[None]:
    """For what a mutant leaves behind in the process."""
    try:
        yield
    finally:
        around.run(0, lambda: None)
        for numbers in (LARGE, BY_NUMPY, VIEWED, ARRAY, LARGE_ARRAY):
            numbers[:] = 0


@pytest.mark.parametrize("way", WAYS)
def test_mutant_nothing_is_put_back(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place above is one in which a record is seen by the next, if nothing is done about it."""
    clipper = clipper_of(way)
    around = Surroundings(clipper.model, clipper.loss, cached)
    own = Surroundings.run
    with put_back(around):
        monkeypatch.setattr(Surroundings, "run", lambda self, seed, function: function())
        try:
            assert moved_by_others(clipper) > 1e-3
        finally:
            monkeypatch.setattr(Surroundings, "run", own)


@pytest.mark.parametrize("way", unwatchable())
def test_what_cannot_be_put_back_is_refused(way: str) -> None:
    model = Net()
    with pytest.raises(BadInput, match="cannot be put back"):
        Clipper(model, unwatchable()[way], dict(model.named_parameters()), 0.1).structure(
            (torch.randn(3, WIDTH), torch.zeros(3, dtype=torch.long))
        )


def test_evidence_says_what_is_not_held() -> None:
    def loss(m: nn.Module, b: Any) -> torch.Tensor:
        return each(m(b[0] if bool(b[0].sum() > 0) else -b[0]), b[1])

    for given, told in ((loss, True), (lambda m, b: each(m(b[0]), b[1]), False)):
        model = nn.Linear(4, 3)
        step = private(model, torch.optim.SGD(model.parameters(), 0.1), Plan(20, 0.5, 1, 1.0), loss=given, rng=0)
        for batch in step.batches((torch.randn(20, 4), torch.zeros(20, dtype=torch.long))):
            step(batch)
        assert any("one record at a time" in line for line in step.evidence(1e-5).not_covered) == told
