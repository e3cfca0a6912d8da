"""A private fleet is total: whatever one record holds, it stops nothing and touches no other record and no other model.

Truth is the same fleet in which that record is nobody's, bit for bit.
"""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from tacit import BadInput
from tacit.fleet import Epochs, Fleet, Runs
from tacit.fleet.certified import Clip
from tacit.fleet.device import Batch, Compiled
from tacit.fleet.failing_records import WithoutFailing
from tacit.fleet.stack import stack, stacked
from tacit.loss import Plan

RECORDS, MODELS, ODD = 8, 3, 5
PLAN = Plan(RECORDS, 0.9, 2, 1.0)
IDS, LABELS = [[float(i % 4)] for i in range(RECORDS)], [i % 2 for i in range(RECORDS)]


def layers():
    return nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 2))


class Looking(nn.Module):
    """A table of ten rows, and a layer."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(self.table(x.long()[:, 0]))


class Moving(Looking):
    """Its weights, too, say where it looks."""

    def forward(self, x):
        return self.layer(self.table.weight[(x[:, 0] + 100 * self.layer.bias[0]).long()])


class Rooting(nn.Module):
    """Raises at a number that makes a matrix indefinite, which its weights have a part in."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        side = (x[:, 0] * (1 + self.layer.bias[0])).expand(2, 2)
        root = torch.linalg.cholesky(5 * torch.eye(2) + side * (1 - torch.eye(2)))
        return self.layer(root[:1])


class Dropping(Rooting):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.3, self.training)


class Taming(Rooting):
    """Makes large numbers smaller where they stand, by the same share each time."""

    def forward(self, x):
        usual = x.clone()
        x.mul_(torch.where(x.abs() > 0.5, 0.3, 1.0))
        return super().forward(usual) * x


def trained(make, x, y, member, order="shared", schedule=PLAN):
    fleet = Fleet(make, lambda parameters: torch.optim.SGD(parameters, lr=0.5, momentum=0.5), order=order)
    models = fleet.train(x, y, member, schedule, rng=7)
    return torch.cat([value.flatten(1) for value in models.stacks[0].parameters.values()], dim=1)


def everybody(out=(), models=range(MODELS)):
    member = np.ones((RECORDS, MODELS), dtype=bool)
    for k in models:
        member[list(out), k] = False
    return member


def with_odd(values, odd):
    return [odd if row == ODD else value for row, value in enumerate(values)]


FEATURES = {"nan": [float("nan")], "infinite": [float("inf")], "none": [None], "text": ["a"], "two": [1.0, 2.0]}
BEYOND = {"beyond": [12.0], "last": [10.0], "negative": [-1.0], "huge": [3e38], "nan": [float("nan")], "none": [None]}
NO_LABEL = {"negative": -3, "beyond": 2, "fraction": 0.5, "nan": float("nan"), "text": "b", "none": None, "huge": 2**70}
USUAL = IDS[ODD], LABELS[ODD]
CASES = (
    [(layers, odd, USUAL[1]) for odd in FEATURES.values()]
    + [(Looking, odd, USUAL[1]) for odd in BEYOND.values()]
    + [(make, USUAL[0], odd) for make in (layers, Looking) for odd in NO_LABEL.values()]
    + [(make, [odd], USUAL[1]) for make in (Rooting, Taming, Dropping) for odd in (1e3, -1e3)]
)


@cache
def usual(make, order, out):
    return trained(make, IDS, LABELS, everybody(out), order)


@pytest.mark.parametrize(("make", "feature", "label"), CASES)
def test_an_odd_record_gives_nothing_and_touches_nobody(make, feature, label):
    order = "own" if make in (Looking, Rooting, Taming) else "shared"
    right = usual(make, order, (ODD,))
    assert torch.equal(trained(make, with_odd(IDS, feature), with_odd(LABELS, label), everybody(), order), right)
    assert not torch.equal(usual(make, order, ()), right)


@pytest.mark.parametrize(("make", "order"), [(layers, "own"), (Looking, "shared"), (Rooting, "shared")])
def test_an_odd_record_touches_nobody_in_another_order_either(make, order):
    odd = [float("nan")] if make is not Rooting else [1e3]
    found = trained(make, with_odd(IDS, odd), with_odd(LABELS, LABELS[ODD]), everybody(), order)
    assert torch.equal(found, usual(make, order, (ODD,)))


def lopsided():
    """Models of which the second alone raises at the number 4."""
    made = []

    def make():
        made.append(Rooting())
        with torch.no_grad():
            made[-1].layer.bias[0] = 1.0 if len(made) == 2 else 0.0
        return made[-1]

    return make


@pytest.mark.parametrize("order", ["shared", "own"])
def test_a_record_at_which_one_model_raises_is_learnt_by_the_others(order):
    x, still = with_odd(IDS, [4.0]), Plan(RECORDS, 0.9, 1, 1.0)
    found = trained(lopsided(), x, LABELS, everybody(), order, still)
    right = trained(lopsided(), x, LABELS, everybody([ODD], models=[1]), order, still)
    assert torch.equal(found, right)
    assert not torch.equal(found, trained(lopsided(), IDS, LABELS, everybody([ODD]), order, still))


def broken(make, value):
    """Models of which the second starts with numbers that are not finite."""
    made = []

    def start():
        made.append(make())
        if len(made) == 2 and value is not None:
            with torch.no_grad():
                for parameter in made[-1].parameters():
                    parameter.fill_(value)
        return made[-1]

    return start


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e38])
@pytest.mark.parametrize(("make", "order"), [(layers, "shared"), (layers, "own"), (Moving, "own"), (Rooting, "shared")])
def test_a_model_that_is_not_finite_touches_no_other(make, value, order):
    found = trained(broken(make, value), IDS, LABELS, everybody(), order)[[0, 2]]
    right = usual(make, order, ())[[0, 2]]
    assert torch.equal(found, right)
    assert right.isfinite().all()


def test_an_index_that_weights_choose_reads_no_other_models_table():
    """The second model's weights point far beyond its table."""
    models = [Moving() for _ in range(2)]
    with torch.no_grad():
        models[0].layer.bias[0] = 0.08
    x, y, clip = torch.tensor([[0.0], [3.0]]), torch.tensor([0, 1]), Clip(torch.ones(2, 2, dtype=torch.bool), 1.0)
    for change in (0.0, 1.0):
        with torch.no_grad():
            models[1].table.weight += change
        sums = stack(models[0], stacked(models)).gradients(x, y, clip)
        alone = stack(models[0], stacked(models[:1])).gradients(x, y, Clip(torch.ones(1, 2, dtype=torch.bool), 1.0))
        assert all(torch.allclose(value[0], alone[name][0]) for name, value in sums.items())
        assert not sums["table.weight"][0, 9].any()


def test_how_one_models_sum_is_rounded_does_not_hang_on_another_model():
    """The second model's gradients are so long that its sum needs float64; then it has none, and needs none."""
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(20, 2)) for _ in range(2)]
    x, y, mask = torch.randn(400, 20), torch.arange(400) % 2, torch.ones(2, 400, dtype=torch.bool)
    with torch.no_grad():
        models[0][0].weight *= 1e-3
    small, few = 1e-3 * x, torch.stack((torch.arange(400) < 100, mask[0]))
    found = []
    for other in (few, few & torch.tensor([[True], [False]])):
        summed = stack(models[0], stacked(models)).gradients(
            torch.where(other[0, :, None], small, x), y, Clip(other, 1.0)
        )
        assert all(value.dtype == torch.float32 for value in summed.values())
        found.append(summed["0.weight"][0])
    assert torch.equal(*found)


def test_runs_of_an_audit_are_total_too():
    fit = Runs(Fleet(layers), PLAN)
    generators = [np.random.default_rng(k) for k in range(MODELS)]
    same = [np.random.default_rng(k) for k in range(MODELS)]
    x, y = np.array(IDS), np.array(LABELS)
    found = fit.many(x, with_odd(LABELS, -7), everybody(), generators)(x)
    assert np.isfinite(found).all()
    with pytest.raises(BadInput, match="labels from 0"):
        Runs(Fleet(layers), Epochs(1, 4)).many(x, with_odd(LABELS, -7), everybody(), same)
    assert y.min() == 0


def test_a_model_that_raises_at_any_record_says_so_at_once():
    """Nobody's values are the reason, so the error may be told: training in vain would not be seen."""

    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(7, 2)

        def forward(self, x):
            return self.layer(x)

    with pytest.raises(RuntimeError, match=r"shapes|size"):
        trained(Wrong, IDS, LABELS, everybody())


def test_data_that_are_no_numbers_are_refused():
    for x, y in ((IDS, ["a", "b"] * 4), (["a"] * RECORDS, LABELS), (IDS, LABELS[:-1]), (IDS, IDS)):
        with pytest.raises(BadInput):
            trained(layers, x, y, everybody())


def test_a_compiled_step_is_compared_on_made_up_records(monkeypatch):
    """A check that looks at private records and stops is a release (soundness rule 26)."""
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    models = stack(layers(), stacked([layers() for _ in range(MODELS)]))
    x, y = torch.full((4, 1), float("nan")), torch.zeros(4, dtype=torch.long)
    batch = Batch(x, y, torch.ones(MODELS, 4, dtype=torch.bool))

    def gradients(made, rows):
        return {name: value * rows.x.sum() for name, value in made.parameters.items()}

    sums = Compiled(gradients, "x", 4)(models, batch)
    assert all(value.isnan().all() for value in sums.values())


def test_mutant_a_fleet_that_does_not_look_for_who_raises(monkeypatch):
    monkeypatch.setattr(WithoutFailing, "__call__", lambda self, models, batch: self.gradients(models, batch))
    with pytest.raises(RuntimeError, match="cholesky"):
        trained(Rooting, with_odd(IDS, [1e3]), LABELS, everybody())


class Mixing(torch.optim.Optimizer):
    """Divides by the length of all numbers together, as layer-wise rates do."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.data -= 0.1 * parameter.grad / parameter.grad.norm()


def test_an_optimizer_in_which_models_could_meet_is_refused_in_private_training():
    fleet = Fleet(layers, Mixing)
    with pytest.raises(BadInput, match="Mixing may mix the models"):
        fleet.train(IDS, LABELS, everybody(), PLAN, rng=1)
    with pytest.raises(BadInput, match="Mixing may mix the models"):
        Runs(fleet, PLAN)(IDS, LABELS, np.random.default_rng(0))
    fleet.train(IDS, LABELS, everybody(), Epochs(1, 4), rng=1)
