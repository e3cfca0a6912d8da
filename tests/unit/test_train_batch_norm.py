"""Batch normalisation: replaced with all that its layer does, or exact with frozen statistics, or refused."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train import fit, freeze_batch_norm, private, replace_batch_norm, rules
from tacit.train.clip import Clipper, Compiled
from train_zoo import CLASSES, classify, frozen_batch_norm, furthest, naive, trainable

PLAN = Plan(60, 0.2, 4, 1.0)
DATA = torch.randn(60, 5), torch.randint(0, CLASSES, (60,))


class Active(nn.BatchNorm2d):
    """As timm's BatchNormAct2d: dropout and activation are modules of the normalisation."""

    def __init__(self, features: int, act: nn.Module | None = None, drop: nn.Module | None = None) -> None:
        super().__init__(features)
        self.drop = drop or nn.Identity()
        self.act = act or nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.drop(super().forward(x)))


class InCode(nn.BatchNorm2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(super().forward(x))


class WhenTraining(nn.BatchNorm1d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = super().forward(x)
        return found + torch.randn_like(found) if self.training else found


class BeforeIt(nn.BatchNorm2d):
    """Its module runs before the normalisation, so it cannot be run after it."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.act(x))


class Upcast(nn.BatchNorm2d):
    """Nothing but its normalisation, written anew."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.float()).to(x.dtype)


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, CLASSES))


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)


def test_replacement_keeps_scale_and_shift_and_nesting() -> None:
    inner = nn.Sequential(nn.Conv2d(3, 48, 3), nn.BatchNorm2d(48, affine=True))
    nn.init.normal_(inner[1].weight)
    inner[1].bias.requires_grad_(False)
    weight = inner[1].weight.clone()
    found = replace_batch_norm(nn.ModuleDict({"body": inner, "end": nn.BatchNorm1d(7, affine=False)}))
    assert found["body"][1].num_groups == 3
    assert torch.equal(found["body"][1].weight, weight)
    assert found["body"][1].weight.requires_grad
    assert not found["body"][1].bias.requires_grad
    assert found["end"].num_groups == 1
    assert found["end"].weight is None
    assert not any(isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d) for module in found.modules())


@pytest.mark.parametrize("training", [True, False])
def test_replacement_keeps_what_a_layer_does_beside_normalising(training: bool) -> None:
    layer = Active(6, nn.Hardswish(), nn.Dropout(0.5)).train(training)
    nn.init.normal_(layer.weight)
    x = torch.randn(3, 6, 4, 4)
    plain = replace_batch_norm(nn.BatchNorm2d(6))
    plain.load_state_dict({"weight": layer.weight, "bias": layer.bias})
    names = set(layer.state_dict()) - {"running_mean", "running_var", "num_batches_tracked"}
    drop, act = layer.drop, layer.act
    found = replace_batch_norm(nn.Sequential(layer))[0]
    assert isinstance(found, nn.GroupNorm)
    assert set(found.state_dict()) == names
    assert found.training == found.drop.training == training
    torch.manual_seed(3)
    ours = found(x)
    torch.manual_seed(3)
    assert torch.equal(ours, act(drop(plain(x))))


def test_a_layer_in_two_places_stays_one_layer() -> None:
    shared = nn.BatchNorm1d(4)
    model = nn.Module()
    model.a, model.b, model.c = shared, shared, nn.Sequential(shared)
    replace_batch_norm(model)
    assert model.a is model.b is model.c[0]
    assert isinstance(model.a, nn.GroupNorm)


@pytest.mark.parametrize("layer", [InCode(4), WhenTraining(4), BeforeIt(4)])
def test_a_layer_with_code_of_its_own_is_refused_and_nothing_is_replaced(layer: nn.Module) -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), layer)
    before = torch.get_rng_state()
    with pytest.raises(BadInput, match="does more than normalise"):
        replace_batch_norm(model)
    assert isinstance(model[0], nn.BatchNorm1d)
    assert torch.equal(before, torch.get_rng_state())
    assert int(layer.num_batches_tracked) == 0


def test_a_forward_that_only_normalises_is_replaced() -> None:
    assert isinstance(replace_batch_norm(nn.Sequential(Upcast(4)))[0], nn.GroupNorm)


@pytest.mark.needs("timm")
@pytest.mark.needs("torchvision")
def test_every_activation_of_an_efficientnet_is_kept() -> None:
    import timm

    model = timm.create_model("test_efficientnet", num_classes=CLASSES)
    count = sum(isinstance(module, nn.SiLU | nn.ReLU) for module in model.modules())
    replace_batch_norm(model)
    assert sum(isinstance(module, nn.SiLU | nn.ReLU) for module in model.modules()) == count
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())


def test_frozen_statistics_give_the_same_outputs_and_never_change() -> None:
    model = freeze_batch_norm(net())
    model[1].running_mean.uniform_(-1, 1)
    before = copy.deepcopy(model)
    trained = fit(model, DATA, PLAN, rng=1)
    assert torch.equal(trained.model[1].running_mean, before[1].running_mean)
    assert torch.equal(trained.model[1].running_var, before[1].running_var)
    assert int(trained.model[1].num_batches_tracked) == 0
    assert not torch.equal(trained.model[1].weight, before[1].weight)
    assert ("1.weight", "normalisation with frozen statistics") in rules(model)


def test_frozen_layers_stay_frozen_when_the_model_is_put_in_training_mode() -> None:
    model = freeze_batch_norm(net())
    step = private(model, sgd(model), PLAN, rng=1)
    for batch in step.batches(DATA):
        model.train()
        step(batch)
        assert not model[1].training
        assert model[0].training
    assert int(model[1].num_batches_tracked) == 0


def test_mutant_a_layer_that_is_not_put_back_is_refused_by_the_operation(monkeypatch) -> None:
    """The second line: without `keep`, the operation itself is seen to mix examples."""
    monkeypatch.setattr("tacit.train.batch_norm.Frozen.keep", lambda self: None)
    model = freeze_batch_norm(net())
    step = private(model, sgd(model), PLAN, rng=1)
    batch = next(step.batches(DATA))
    model.train()
    with pytest.raises(BadInput, match="mixes the examples"):
        step(batch)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_sums_equal_the_loop_where_only_the_layer_itself_is_trained(precision: str) -> None:
    torch.manual_seed(0)
    model = frozen_batch_norm()
    for name, one in model.named_parameters():
        one.requires_grad_(name.startswith("1."))
    batch = torch.randn(6, 2, 5, 5), torch.randint(0, CLASSES, (6,))
    found = Clipper(model, classify, trainable(model), 0.5, precision)(batch, torch.ones(6, dtype=torch.bool))
    sums, _ = naive(model, classify, batch, 0.5)
    assert set(found.sums) == {"1.weight", "1.bias"}
    assert furthest(found.sums, sums) < {"float32": 1e-5, "bfloat16": 5e-2}[precision]


def test_aten_batch_norm_is_the_same() -> None:
    torch.manual_seed(0)
    model = frozen_batch_norm()

    def run(layer, x):
        kept = layer.running_mean, layer.running_var
        return torch.batch_norm(x, layer.weight, layer.bias, *kept, False, 0.1, layer.eps, True)

    other = copy.deepcopy(model)
    other[1].forward = lambda x: run(other[1], x)
    batch = torch.randn(6, 2, 5, 5), torch.randint(0, CLASSES, (6,))
    ones = torch.ones(6, dtype=torch.bool)
    found = [Clipper(one, classify, trainable(one), 0.5)(batch, ones).sums for one in (model, other)]
    assert furthest(*found) < 1e-6


@pytest.mark.slow
def test_frozen_statistics_compile(monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    torch.manual_seed(0)
    model = frozen_batch_norm()
    batch = torch.randn(6, 2, 5, 5), torch.randint(0, CLASSES, (6,))
    found = Compiled(Clipper(model, classify, trainable(model), 0.5))(batch, torch.ones(6, dtype=torch.bool))
    assert furthest(found.sums, naive(model, classify, batch, 0.5)[0]) < 1e-5


def test_what_mixes_examples_is_refused_with_both_ways_out() -> None:
    model = net()
    with pytest.raises(BadInput, match=r"training mode") as told:
        private(model, sgd(model), PLAN)
    assert "replace_batch_norm" in str(told.value.fix)
    assert "freeze_batch_norm" in str(told.value.fix)
    with pytest.raises(BadInput, match="training mode"):
        fit(model, DATA, PLAN)
    bare = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, CLASSES)).eval()
    with pytest.raises(BadInput, match="without kept statistics"):
        private(bare, sgd(bare), PLAN)
