"""Some parameters of a public model: they alone are clipped, noised and moved."""

import pytest
import torch
from torch import nn

from tacit.loss import Plan
from tacit.train import fit, rules
from tacit.train.clip import Clipper
from train_zoo import CLASSES, classify, furthest, naive, trainable

DATA = torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), torch.arange(60) % CLASSES
PLAN = Plan(60, 0.5, 3, 1.0)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def probe() -> nn.Module:
    model = net()
    model[0].requires_grad_(False)
    return model


def biases() -> nn.Module:
    model = net()
    for name, tensor in model.named_parameters():
        tensor.requires_grad_(name.endswith("bias"))
    return model


def adapters(**options):
    import peft

    return peft.get_peft_model(net(), peft.LoraConfig(r=2, target_modules=["0"], **options))


def scaled():
    import peft

    return peft.get_peft_model(net(), peft.IA3Config(target_modules=["0"], feedforward_modules=[]))


WAYS = {
    "linear probe": (probe, 2),
    "biases": (biases, 2),
    "LoRA": (adapters, 2),
    "LoRA and a head": (lambda: adapters(modules_to_save=["2"]), 4),
    "DoRA": (lambda: adapters(use_dora=True), 3),
    "IA3": (scaled, 1),
}


OURS = ("linear probe", "biases")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "way", [way if way in OURS else pytest.param(way, marks=pytest.mark.needs("peft")) for way in WAYS]
)
def test_what_is_trainable_is_trained_and_nothing_else(way: str) -> None:
    make, count = WAYS[way]
    model = make()
    wanted = {name for name, tensor in model.named_parameters() if tensor.requires_grad}
    before = {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
    batch = DATA[0][:4], DATA[1][:4]
    found = Clipper(model, classify, trainable(model), 0.5)(batch, torch.ones(4, dtype=torch.bool))
    sums, norms = naive(model, classify, batch, 0.5)
    assert len(found.sums) == len(wanted) == count
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    fit(model, DATA, PLAN, rng=0)
    moved = {name for name, tensor in model.named_parameters() if not torch.equal(tensor, before[name])}
    assert moved == wanted
    assert {name for name, rule in rules(model) if rule != "frozen"} == wanted
