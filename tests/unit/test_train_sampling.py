"""Training under every sampling: who takes part, accumulation, restoring, the account; projection and progress."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import Augment, Progress, Speed, ball, fit, private
from train_zoo import CLASSES

DATA = torch.randn(120, 5, generator=torch.Generator().manual_seed(0)), torch.arange(120) % CLASSES
PLANS = {
    "poisson": Plan(120, 0.25, 8, 1.0),
    "fixed-size": Plan(120, 0.25, 8, 1.0, adjacency="replace", sampling="fixed-size"),
    "shuffled": Plan(120, 0.25, 8, 1.0, adjacency="replace", sampling="shuffled"),
    "allocation": Plan(120, 0.25, 8, 1.0, sampling="allocation"),
    "full": Plan(120, 1.0, 8, 1.0, sampling="full"),
    "cyclic": Plan(120, 0.25, 8, 1.0, adjacency="zero-out", sampling="cyclic", bands=3),
}


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in model.parameters()])


def made(model: nn.Module, plan: Plan, **more: object) -> object:
    return private(model, torch.optim.SGD(model.parameters(), lr=0.5), plan, **{"rng": 0, **more})


@pytest.mark.parametrize("name", PLANS)
def test_batches_are_those_of_the_plan(name: str) -> None:
    step = made(small(), PLANS[name])
    seen = []
    for batch in step.batches(DATA):
        seen.append(batch.index)
        step(batch)
    assert len(seen) == 8
    sizes = [len(index) for index in seen]
    if name in ("shuffled", "allocation", "cyclic"):
        for first in (0, 4):
            assert sorted(np.concatenate(seen[first : first + 4])) == list(range(120))
        assert np.array_equal(seen[0], seen[4]) is (name == "cyclic")
    assert (sizes == [30] * 8) is (name in ("fixed-size", "shuffled", "cyclic"))
    assert (sizes == [120] * 8) is (name == "full")
    evidence = step.evidence(1e-4)
    assert evidence.claim.event == PLANS[name].event
    assert evidence.provenance["sampling"] == name


@pytest.mark.parametrize("name", PLANS)
def test_a_run_restored_in_the_middle_of_a_pass_continues_bit_for_bit(name: str) -> None:
    model = small()
    step = made(model, PLANS[name])
    state = None
    for batch in step.batches(DATA):
        step(batch)
        if step.done == 2:
            state = {**step.state_dict(), "model": {k: v.clone() for k, v in model.state_dict().items()}}
    again = small(seed=3)
    resumed = made(again, PLANS[name])
    resumed.load_state_dict(state)
    for batch in resumed.batches(DATA):
        resumed(batch)
    assert torch.equal(flat(model), flat(again))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("clipping", ["flat", "adaptive"])
def test_physical_batches_change_nothing(name: str, clipping: str) -> None:
    """The noise key is pinned: physical batches change it by the rounding of norms."""
    clipping = "per-layer" if name == "cyclic" and clipping == "adaptive" else clipping
    plan = replace(PLANS[name], clipping=clipping)
    found = []
    for physical in (None, 7):
        model = small()
        step = made(model, plan, speed=Speed(physical_batch=physical))
        step.parted.noise_key = lambda *_: bytes(32)
        for batch in step.batches(DATA):
            step(batch)
        found.append(flat(model))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_fit_trains_on_users() -> None:
    plan = Plan(40, 0.5, 5, 1.0, unit="user")
    users = np.arange(120) // 3
    trained = fit(small(), DATA, plan, users=users, records_per_user=2, rng=0)
    assert trained.evidence.claim.bound.unit == "user"
    assert len(trained.history) == 5


def test_a_projection_sees_released_parameters_only_and_holds() -> None:
    model, norms = small(), []
    keep = ball(0.7)

    def project(seen: nn.Module) -> None:
        keep(seen)
        norms.append(float(flat(seen).norm()))

    before = flat(model).norm()
    step = made(model, PLANS["poisson"], project=project)
    for batch in step.batches(DATA):
        step(batch)
    assert before > 0.7
    assert len(norms) == 8
    assert norms[0] == pytest.approx(0.7, abs=1e-6)
    assert max(norms) < 0.7 + 1e-6
    inside = small()
    inner = flat(inside).clone()
    ball(100.0)(inside)
    assert torch.equal(flat(inside), inner)
    with pytest.raises(BadInput):
        ball(0.0)


def test_progress_is_ten_lines_in_a_file_and_a_hook_sees_every_step() -> None:
    stream = io.StringIO()
    plan = Plan(120, 0.25, 50, 1.0)
    fit(small(), DATA, plan, rng=0, progress=Progress(1e-4, stream))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith(f"step 50/50  epsilon {plan.bound(1e-4).epsilon:<5.3g}  loss ")
    assert "examples/s" in lines[0]
    seen = []
    trained = fit(small(), DATA, plan, rng=0, progress=lambda step, info: seen.append((step.done, info)))
    assert [done for done, _ in seen] == list(range(1, 51))
    assert tuple(info for _, info in seen) == trained.history
    assert sum(info.examples for info in trained.history) > 1000


def test_progress_on_a_terminal_is_one_line(capsys) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    fit(small(), DATA, PLANS["poisson"], rng=0, progress=Progress(1e-4, stream))
    assert stream.getvalue().count("\n") == 1
    fit(small(), DATA, PLANS["poisson"], rng=0)
    assert capsys.readouterr() == ("", "")
    fit(small(), DATA, PLANS["poisson"], rng=0, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "step 8/8" in shown.err


def test_augmentation_does_not_go_with_users() -> None:
    step = made(small(), Plan(40, 0.5, 5, 1.0, unit="user"), augment=Augment(lambda batch: batch, 2))
    with pytest.raises(BadInput, match="single records"):
        next(step.batches(DATA, users=np.arange(120) // 3, records_per_user=2))


def test_missing_ids_are_nobodys_and_equal_numbers_are_one_user() -> None:
    from tacit.train.sample.users import Users

    class Unknown:
        """As pandas.NA: to ask whether it is anything has no answer."""

        def __eq__(self, other):
            return self

        def __bool__(self):
            raise TypeError("ambiguous")

        __hash__ = None

    ids = np.array(
        [1, "a", Unknown(), None, float("nan"), 1.0, np.datetime64("NaT"), "a", np.int64(1), "1.5", 1.5], object
    )
    found = Users.of(ids, 2, len(ids))
    assert sorted(sorted(own.tolist()) for own in found.records) == [[0, 5, 8], [1, 7], [9, 10]]


@pytest.mark.needs("pandas")
def test_ids_from_a_pandas_column_with_missing_values() -> None:
    import pandas as pd

    from tacit.train.sample.users import Users

    for column in (pd.Series([3, pd.NA, 3, 4], dtype="Int64"), pd.Series(["x", pd.NA, "x", "y"], dtype="string")):
        found = Users.of(column, 2, 4)
        assert [own.tolist() for own in found.records] == [[0, 2], [3]]


@pytest.mark.parametrize("name", ["shuffled", "allocation", "cyclic"])
@pytest.mark.parametrize("form", ["tensors", "in place", "records"])
def test_a_pass_does_not_go_on_with_records_in_another_order(name: str, form: str) -> None:
    """Who takes part in it was drawn at its start: somebody would take part twice, and the account says once."""
    x, y = (tensor.clone() for tensor in DATA)
    data = list(zip(x, y.tolist(), strict=True)) if form == "records" else (x, y)
    model = small()
    step = private(model, torch.optim.SGD(model.parameters(), lr=0.1), PLANS[name], rng=3)
    step(next(step.batches(data)))
    step(next(step.batches(data)))  # the same data, taken up again
    if form == "in place":
        x.copy_(x.flip(0))
    other = data if form == "in place" else (x.flip(0), y.flip(0)) if form == "tensors" else data[::-1]
    with pytest.raises(BadInput, match="other data, or on the same in another order"):
        step.batches(other)


def test_a_list_that_is_shuffled_within_a_pass_is_drawn_from_as_it_was() -> None:
    """A record that changed its place took part twice in a pass, or never."""
    plan = Plan(8, 0.25, 4, 1.0, sampling="shuffled", adjacency="replace")
    data = [(torch.eye(8)[row], row % 2) for row in range(8)]
    model = nn.Linear(8, 2)
    step, seen = private(model, torch.optim.SGD(model.parameters(), lr=0.1), plan, rng=0), []
    for batch in step.batches(data):
        seen += batch.examples.rows(batch.index)[0].argmax(1).tolist()
        step(batch)
        data.reverse()
        del data[-1]
    assert sorted(seen) == [*range(8)]
