"""Validation data: read before the first step, named for what they measure, and never the end of a paid training."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, SubsetRandomSampler, TensorDataset, random_split

import tacit
from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import fit
from tacit.train.held_out import within
from tacit.train.validation import accuracy

PLAN = Plan(60, 0.2, 3, 1.0)
X, Y = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


class Items(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 30

    def __getitem__(self, row: int):
        return X[row], int(Y[row])


def squares(model: nn.Module, batch) -> torch.Tensor:
    return (model(batch[0]).squeeze(1) - batch[1]).square()


def net(outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(5, outputs), nn.Dropout(0.5))


class Charged:
    def __init__(self) -> None:
        self.times = 0

    def charge(self, *_, **__) -> None:
        self.times += 1


@pytest.mark.parametrize(
    "validation",
    [(X[:30], Y[:30]), [X[:30], Y[:30]], TensorDataset(X[:30], Y[:30]), Items(), (X[:30].numpy(), Y[:30].numpy())],
    ids=["tuple", "list", "TensorDataset", "Dataset", "arrays"],
)
def test_any_form_of_data_gives_the_accuracy(validation) -> None:
    found = fit(net(), (X.clone(), Y.clone()), PLAN, rng=0, validation=validation)
    right = (found.model(X[:30]).argmax(1) == Y[:30]).float().mean()
    assert found.evidence.utility == {"accuracy": pytest.approx(float(right))}


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        ((X, Y, Y), "pairs"),
        ({"x": X}, "pairs"),
        ((X[:, :4], Y), "shapes cannot be multiplied"),
        ((X, Y[:7]), "same number of rows"),
        ((X[:0], Y[:0]), "empty"),
        ((X, Y.float()), "whole-number labels"),
        ("held-out.csv", "map-style"),
    ],
)
def test_bad_data_are_found_before_anything_is_paid(validation, said: str) -> None:
    ledger, model = Charged(), net()
    before = [one.clone() for one in model.parameters()]
    with pytest.raises(BadInput, match=said):
        fit(model, (X, Y), PLAN, validation=validation, ledger=ledger)
    assert ledger.times == 0
    assert all(torch.equal(one, now) for one, now in zip(before, model.parameters(), strict=True))


PAIRS = TensorDataset(X, Y)
RECORDS = [(X[row], int(Y[row])) for row in range(60)]
BESIDE = np.random.default_rng(0).normal(size=(60, 6))
WINDOWS = X.flatten().unfold(0, 24, 1)
ONE = torch.zeros(1)


class Wrapped(torch.utils.data.Dataset):
    def __init__(self, dataset, count: int | None = None) -> None:
        self.dataset, self.count = dataset, count

    def __len__(self) -> int:
        return len(self.dataset) if self.count is None else self.count

    def __getitem__(self, row: int):
        return self.dataset[row]


def loader(rows: list[int] | None = None) -> DataLoader:
    return DataLoader(PAIRS, sampler=None if rows is None else SubsetRandomSampler(rows))


@pytest.mark.parametrize(
    ("validation", "data"),
    [
        ((X, Y), (X, Y)),
        ((X, Y.clone()), {"x": X, "y": Y}),
        (PAIRS, (X, Y)),
        ((X.numpy(), Y.numpy()), PAIRS),
        (Subset(PAIRS, [3, 5]), PAIRS),
        ((X[:5], Y[:5]), (X, Y)),
        ((X[54:], Y[54:]), (X[:55], Y[:55])),
    ],
    ids=["itself", "a column", "a data set", "arrays", "a part", "a slice", "one record in common"],
)
def test_a_model_is_not_judged_by_its_training_data(validation, data) -> None:
    """Its accuracy would stand in the evidence without noise."""
    ledger = Charged()
    with pytest.raises(BadInput, match="figures without noise"):
        fit(net(), data, PLAN, validation=validation, ledger=ledger)
    assert ledger.times == 0


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ((X, Y), (X[:30], Y[:30])),
        (Subset(PAIRS, [1, 2]), Subset(PAIRS, [2, 3])),
        (PAIRS, Subset(PAIRS, range(40))),
        (Wrapped(Subset(PAIRS, [1, 2])), Wrapped(Subset(PAIRS, [2]))),
        (Wrapped(PAIRS, 7), PAIRS),
        (RECORDS[:31], RECORDS[30:]),
        (loader([1, 2]), Subset(PAIRS, [2])),
        (ConcatDataset([Subset(PAIRS, range(10)), Subset(PAIRS, range(20, 30))]), Subset(PAIRS, [25])),
        (Subset(ConcatDataset([PAIRS, PAIRS]), [60]), Subset(PAIRS, [0])),
        ((BESIDE[:31, :5], BESIDE[:31, 5]), (BESIDE[30:, :5], BESIDE[30:, 5])),
        (X.numpy()[::2], X.numpy()[::3]),
        (Subset(PAIRS, [3]), (X[:10], Y[:10])),
        (X[:31], X.numpy()[::-1][:30]),
    ],
)
def test_records_in_common_are_found(given, data) -> None:
    assert within(given, data)
    assert within(data, given)


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ((X[:30], Y[:30]), (X[30:], Y[30:])),
        tuple(random_split(PAIRS, [40, 20])),
        (Wrapped(Subset(PAIRS, [1])), Wrapped(Subset(PAIRS, [2]))),
        (Wrapped(PAIRS, 7), Wrapped(PAIRS, 7)),
        (RECORDS[:30], RECORDS[30:]),
        (loader([1, 2]), Subset(PAIRS, [3])),
        (ConcatDataset([Subset(PAIRS, range(10)), Subset(PAIRS, range(20, 30))]), Subset(PAIRS, [15])),
        ((BESIDE[:30, :5], BESIDE[:30, 5]), (BESIDE[30:, :5], BESIDE[30:, 5])),
        (X[::2], X[1::2]),
        (WINDOWS[:10], WINDOWS[10:]),
        ((X[:30], ONE.expand(30)), (X[30:], ONE.expand(30))),
        (Subset(PAIRS, [40]), (X[:10], Y[:10])),
        (None, PAIRS),
    ],
)
def test_records_held_out_of_the_same_table_are_taken(given, data) -> None:
    assert not within(given, data)
    assert not within(data, given)


@pytest.mark.parametrize("targets", [Y.float(), Y])
def test_a_regression_is_judged_by_its_loss(targets: torch.Tensor) -> None:
    found = fit(net(1), (X, targets), PLAN, rng=0, loss=squares, validation=(X.clone(), targets.clone()))
    expected = float(squares(found.model, (X, targets)).mean().detach())
    assert found.evidence.utility == {"loss": pytest.approx(expected, rel=1e-5)}


def test_shares_of_classes_are_labels() -> None:
    shares = F.one_hot(Y, 3).float()
    assert fit(net(), (X, shares), PLAN, rng=0, validation=(X.clone(), shares.clone())).evidence.utility.keys() == {
        "accuracy"
    }


@pytest.mark.filterwarnings("ignore::tacit.core.errors.SlowWarning")  # its code decides by the values of a tensor
def test_a_record_that_stops_the_model_does_not_lose_the_training() -> None:
    def loss(model: nn.Module, batch) -> torch.Tensor:
        if bool((batch[0] > 1e6).any()):
            raise ValueError("a value of somebody")
        return F.cross_entropy(model(batch[0]), batch[1], reduction="none")

    def judged(model: nn.Module, batch) -> torch.Tensor:
        return loss(model, (batch[0], batch[1].long()))

    odd = X.clone()
    odd[7] = 1e7
    with pytest.warns(UserWarning, match=r"could not be judged .* \(ValueError\)") as told:
        found = fit(net(), (X, Y), PLAN, rng=0, loss=judged, validation=(odd, Y.float()))
    assert found.evidence.utility == {}
    assert found.evidence.claim is not None
    assert not any("somebody" in str(one.message) for one in told)


def test_the_check_leaves_modes_and_random_numbers_as_they_were() -> None:
    def after(validation) -> torch.Tensor:
        torch.manual_seed(0)
        model = net()
        fit(model, (X, Y), PLAN, rng=0, validation=validation)
        return model[0].weight.detach()

    assert torch.equal(after(None), after((X.clone(), Y.clone())))


def test_accuracy_leaves_out_ignored_labels() -> None:
    model = nn.Identity()
    model.register_parameter("p", nn.Parameter(torch.zeros(1)))
    outputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert accuracy(model, (outputs, torch.tensor([0, -100, 1]))) == 0.5
    assert accuracy(model, (outputs.numpy(), np.array([0, 7, 1]))) == pytest.approx(1 / 3)


def test_delta_of_the_plan_is_the_delta_of_the_claim() -> None:
    plan = tacit.plan(60, epsilon=4.0, delta=1e-3, epochs=2)
    found = fit(net(), (X, Y), plan, rng=0)
    assert found.evidence.claim.bound.delta == 1e-3
    assert found.evidence.claim.bound.epsilon <= 4.0
    assert plan == Plan(60, plan.rate, plan.steps, plan.noise_multiplier)
    assert repr(plan) == repr(Plan(60, plan.rate, plan.steps, plan.noise_multiplier))
    assert fit(net(), (X, Y), PLAN, rng=0).evidence.claim.bound.delta == 1e-5
    assert fit(net(), (X, Y), plan, rng=0, delta=1e-6).evidence.claim.bound.delta == 1e-6
