"""One record at a time: whatever user code keeps, and wherever, no later record sees it."""

import collections
import contextlib
import enum
import logging
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
from tacit.train.clip import clipper as clipping
from tacit.train.clip.capture.probe import Structure
from tacit.train.clip.capture.watch import Capture
from tacit.train.clip.isolation import Surroundings
from tacit.train.clip.isolation.settings import InForce
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
    more_ways,
    third_ways,
    unwatchable,
    ways,
)  # fmt: skip
from train_kept_deep import fifth_ways
from train_kept_in_c import seventh_ways
from train_mixing import CLASSES, attribute_bank, each, inside
from train_zoo import naive

pytestmark = pytest.mark.filterwarnings("ignore")
WAYS = ways() | more_ways() | third_ways() | fifth_ways() | seventh_ways()


GENERATOR = torch.Generator().manual_seed(3)
RECORDS = torch.randn(2, WIDTH, generator=GENERATOR).clamp(max=2), torch.randint(CLASSES, (2,), generator=GENERATOR)
RECORDS[0][0] = 3.0


def clipper_of(way: str) -> Clipper:
    torch.manual_seed(0)
    model = Net()
    model.kept["add"], model.kept["last"] = enclosing()
    return Clipper(model, keeping(*WAYS[way]), dict(model.named_parameters()), 0.1)


def known(clipper: Clipper) -> Clipper:
    """Without the probe, which finds that this loss decides by values, whatever it keeps and wherever."""
    structure = Structure(together=False)
    clipper.structures[clipper.key(RECORDS)] = structure
    clipper._check_reach(structure, RECORDS)
    return clipper


def moved_by_others(clipper: Clipper) -> float:
    """How far a record's part of the sum is from what it is without a record before it, in clip norms."""
    found = []
    for keep in ([False, True], [True, False], [True, True]):
        torch.manual_seed(1)
        sums = clipper(RECORDS, torch.tensor(keep)).sums
        found.append(torch.cat([part.double().flatten() for part in sums.values()]))
    assert found[0].norm() > 0
    return float((found[2] - found[1] - found[0]).norm()) / clipper.clip_norm


@contextlib.contextmanager
def nothing_is_put_back(clipper: Clipper, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the mutant leaves behind in the process is undone afterwards."""
    around, modes = Surroundings(clipper.model, clipper.loss, cached), InForce()
    with patch.context() as mutant:
        mutant.setattr(Surroundings, "run", lambda self, seed, function: function())
        yield
    modes.restore()
    around.run(0, lambda: None)
    for numbers in (LARGE, BY_NUMPY, VIEWED, ARRAY, LARGE_ARRAY):
        numbers[:] = 0


@pytest.fixture(autouse=True)
def usual_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some library may have changed them by now; a way of keeping a value counts on them."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


@pytest.mark.parametrize("way", WAYS)
def test_a_later_record_does_not_see_an_earlier_one(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And every place is one in which it would, if nothing were put back."""
    clipper = known(clipper_of(way))
    assert moved_by_others(clipper) < 1e-5
    assert elsewhere.SEEN == []
    assert elsewhere.TOTAL == 0
    with nothing_is_put_back(clipper, monkeypatch):
        assert moved_by_others(clipper) > 1e-3


@pytest.mark.parametrize("way", list(WAYS)[::20])
def test_a_loss_that_decides_by_values_runs_one_record_at_a_time(way: str) -> None:
    clipper = clipper_of(way)
    assert moved_by_others(clipper) < 1e-5
    assert not next(iter(clipper.structures.values())).together


@pytest.mark.parametrize("way", unwatchable())
def test_what_cannot_be_put_back_is_refused(way: str) -> None:
    model = Net()
    clipper = Clipper(model, unwatchable()[way], dict(model.named_parameters()), 0.1)
    with pytest.raises(BadInput, match="cannot be put back"):
        known(clipper) if way != "an iterator" else clipper.structure(RECORDS)


def test_evidence_says_what_is_not_held() -> None:
    def loss(m: nn.Module, b: Any) -> torch.Tensor:
        rows = [row if bool(row.sum() > 0) else -row for row in b[0]]
        return each(m(torch.stack(rows)), b[1])

    for given, told in ((loss, True), (lambda m, b: each(m(b[0]), b[1]), False)):
        model = nn.Linear(4, 3)
        step = private(model, torch.optim.SGD(model.parameters(), 0.1), Plan(20, 0.5, 1, 1.0), loss=given, rng=0)
        for batch in step.batches((torch.randn(20, 4), torch.zeros(20, dtype=torch.long))):
            step(batch)
        assert any("one record at a time" in line for line in step.evidence(1e-5).not_covered) == told


@pytest.mark.parametrize("way", unwatchable())
def test_mutant_what_cannot_be_put_back_is_not_refused(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clipper, "_check_reach", lambda self, structure, batch: None)
    torch.manual_seed(0)
    model = Net()
    loss = unwatchable()[way]
    clipper = Clipper(model, lambda m, b: loss(m, (b[0] + 3.0, b[1])), dict(model.named_parameters()), 0.1)
    assert moved_by_others(known(clipper)) > 1e-3


class Colour(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "one two")


class Odd(nn.Module):
    """An honest model with attributes of many kinds, that decides by values."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.lstm, self.colour = nn.Linear(4, 3), nn.LSTM(4, 4, batch_first=True), Colour.RED
        self.pair, self.log, self.lists = Pair([1], {}), logging.getLogger("odd"), collections.defaultdict(list)
        self.sparse = torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2))
        self.tied, self.view, self.nothing = self.a.weight, self.a.weight.data.view(-1), torch.empty(0)
        self.kinds = [torch.zeros(3, dtype=kind) for kind in (torch.complex64, torch.float16, torch.bool)]
        self.me = self

    def __setattr__(self, name: str, value: object) -> None:
        if name == "me":
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.lists["seen"].append(float(x.sum()))
        self.pair.one.append(2)
        out, _ = self.lstm(x[:, None])
        return torch.cat([self.a(row) if row.sum() > 0 else self.a(-row) for row in out])


def test_an_honest_model_of_many_kinds_is_exact_and_left_as_it_was() -> None:
    torch.manual_seed(0)
    model, x, y = Odd(), torch.randn(5, 4), torch.randint(0, 3, (5,))
    parameters = dict(model.named_parameters())
    clipper = Clipper(model, lambda m, b: each(m(b[0]), b[1]), parameters, 0.5)
    clipper.structure((x, y))
    before, places = len(model.lists["seen"]), [tensor.data_ptr() for tensor in parameters.values()]
    found = clipper((x, y), torch.ones(5, dtype=torch.bool)).sums
    assert (len(model.lists["seen"]), [tensor.data_ptr() for tensor in parameters.values()]) == (before, places)
    for name, expected in naive(model, lambda m, b: each(m(b[0]), b[1]), (x, y), 0.5)[0].items():
        torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-6)


class Shy:
    """An object that does not let itself be looked at."""

    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        raise RuntimeError("no")


def test_an_object_that_cannot_be_looked_at_is_opaque_and_stops_nothing() -> None:
    assert list(Surroundings(Shy()).opaque.values()) == ["Shy"]


def test_mutant_tensors_of_an_earlier_pass_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at who made a tensor, a pass would read what the model kept of the records of the last one."""
    torch.manual_seed(0)
    x, y = torch.randn(3, WIDTH), torch.zeros(3, dtype=torch.long)
    with pytest.raises(BadInput, match="kept from an earlier call"):
        Clipper(model := Net(), inside(attribute_bank), dict(model.named_parameters()), 0.1).structure((x, y))
    monkeypatch.setattr(Capture, "_own", lambda self, tensor: self.level.owns(tensor))
    monkeypatch.setattr(
        clipping, "taken_back", lambda _: contextlib.nullcontext(lambda: False)
    )  # or the model keeps nothing to be read
    model = Net()
    clipper = Clipper(model, inside(attribute_bank), dict(model.named_parameters()), 0.1)
    found = []
    for value in (0.0, 2.0):
        clipper.structures.clear()
        clipper.structures[clipper.key((x, y))] = Structure()
        model.kept.clear()
        clipper((x + value, y), torch.ones(3, dtype=torch.bool))
        found.append(clipper((x, y), torch.ones(3, dtype=torch.bool)).sums["last.weight"])
    assert (found[0] - found[1]).norm() > 1e-3
