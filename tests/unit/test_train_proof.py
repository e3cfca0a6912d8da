"""What a model's proof says: the rule of every parameter, how records run, and what that costs."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit import BadInput, SlowWarning
from tacit.loss import Plan
from tacit.train import private
from tacit.train.clip import slowness
from tacit.train.proof import proof
from train_zoo import Use

IMAGES = torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.long)


def branching(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([m.a(row[None]) if bool(row.sum() > 0) else m.a(-row[None]) for row in x])


def test_every_parameter_has_the_rule_of_the_operations_that_use_it() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(256, 3))
    model[3].bias.requires_grad_(False)
    found = {part.parameter: part for part in proof(model, IMAGES).parameters}
    assert found["0.weight"].rule.startswith("outer products of 64 positions")
    assert found["0.weight"].operations == ("conv2d",)
    assert found["1.weight"].operations == ("group_norm",)
    assert found["3.weight"].rule == "outer product of one position"
    assert found["3.bias"].rule == "frozen"


def test_words_that_are_tied_unused_or_viewed() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.spare = nn.Embedding(7, 4), nn.Linear(2, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return F.linear(self.words(ids).mean(1), self.words.weight)

    found = {
        part.parameter: part for part in proof(Tied(), (torch.zeros(4, 5).long(), torch.zeros(4).long())).parameters
    }
    assert "rows of a table, 5 of them" in found["words.weight"].rule
    assert set(found["words.weight"].operations) == {"embedding", "linear"}
    assert found["spare.weight"].rule.startswith("not used")


def test_only_shapes_of_the_batch_are_looked_at() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    wild = torch.full((4, 1, 8, 8), float("nan")), torch.full((4,), 99)
    assert proof(model, wild).parameters == proof(model, IMAGES).parameters


def test_a_batch_must_be_tensors() -> None:
    with pytest.raises(BadInput, match="one row per record"):
        proof(nn.Linear(2, 2), [(torch.zeros(2), 0)] * 3)


def test_a_slow_warning_tells_the_measured_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 6.0, 0.0, 2.0])
    monkeypatch.setattr(slowness.time, "perf_counter", lambda: next(clock))
    model = Use(branching, a=nn.Linear(5, 3))
    step = private(model, torch.optim.SGD(model.parameters(), 0.1), Plan(20, 0.5, 1, 1.0), rng=0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for batch in step.batches((torch.randn(20, 5), torch.zeros(20, dtype=torch.long))):
            step(batch)
    (slow,) = [one.message for one in seen if isinstance(one.message, SlowWarning)]
    assert slow.factor == 3.0
    assert "3 times the time of a plain batch" in str(slow)
    assert "decides by the values" in str(slow)
