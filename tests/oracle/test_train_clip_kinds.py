"""Per-layer and automatic clipping against a loop over examples, eager and traced."""

import math

import pytest
import torch

from tacit.core import BadInput
from tacit.loss import Automatic, PerLayer, Plan
from tacit.train import Speed, private
from tacit.train.clip import Clipper, Compiled, Weigh
from train_zoo import ZOO, furthest, gradients, length, trainable

NAMES = ["mlp", "tied layer", "unused layer", "frozen layer", "convolutions", "lstm", "tied words", "low rank"]
C = 0.5


def by_hand(row: dict, clipping: object) -> dict:
    """One example's contribution, from its gradient alone."""
    if isinstance(clipping, Automatic):
        factor = C / (length(row.values()) + clipping.gamma)
        return {name: piece * factor for name, piece in row.items()}
    layers = {name: name.rpartition(".")[0] for name in row}
    weights = dict(clipping.weights) or dict.fromkeys(layers.values(), 1.0)
    total = math.sqrt(sum(weight**2 for weight in weights.values()))
    found = {}
    for name, piece in row.items():
        limit = C * weights[layers[name]] / total
        norm = length([row[other] for other in row if layers[other] == layers[name]])
        found[name] = piece * min(1.0, limit / norm) if norm else piece
    return found


def compare(name: str, clipping: object, *, traced: bool = False) -> None:
    torch.manual_seed(1)
    case = ZOO[name]
    model, batch = case.make(), case.batch(6)
    clipper = Clipper(model, case.loss, trainable(model), C, weigh=Weigh.of(clipping, trainable(model)))
    found = (Compiled(clipper) if traced else clipper)(batch, torch.ones(6, dtype=torch.bool))
    parts = [by_hand(row, clipping) for row in gradients(model, case.loss, batch)]
    expected = {key: sum(part[key] for part in parts) for key in parts[0]}
    assert furthest(found.sums, expected) < 1e-5
    assert all(length(part.values()) <= C * (1 + 1e-6) for part in parts)


@pytest.mark.parametrize("clipping", [PerLayer(), Automatic(), Automatic(gamma=2.0)], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_sums_equal_the_loop(name: str, clipping: object) -> None:
    compare(name, clipping)


def test_layers_may_have_budgets_of_their_own() -> None:
    compare("mlp", PerLayer({"0": 3.0, "2": 1.0}))


@pytest.mark.parametrize("clipping", [PerLayer({"0": 3.0, "2": 1.0}), Automatic()], ids=repr)
def test_the_traced_graph_clips_alike(clipping: object, monkeypatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda graph, **_: graph)
    compare("mlp", clipping, traced=True)


def test_a_block_covers_what_lies_below_it() -> None:
    names = ["body.0.weight", "body.0.bias", "body.1.weight", "head.weight"]
    weigh = Weigh.of(PerLayer({"body": 3.0, "head": 4.0}), names)
    assert weigh.shares == (0.6, 0.8)
    assert [weigh.group(name) for name in names] == [0, 0, 0, 1]
    assert Weigh.of(PerLayer({"body": 1.0, "body.1": 1.0, "head": 1.0}), names).group("body.1.weight") == 1


def test_weights_that_do_not_fit_the_model_are_refused() -> None:
    with pytest.raises(BadInput, match="lies in no layer"):
        Weigh.of(PerLayer({"head": 1.0}), ["body.weight", "head.weight"])
    with pytest.raises(BadInput, match="No trained parameter lies in 'tail'"):
        Weigh.of(PerLayer({"head": 1.0, "tail": 2.0}), ["head.weight"])


@pytest.mark.parametrize("clipping", ["per-layer", "automatic", "adaptive"])
def test_non_finite_examples_contribute_zero(clipping: str) -> None:
    torch.manual_seed(0)
    case = ZOO["mlp"]
    model, (x, y) = case.make(), case.batch(5)
    x[2] = float("nan")
    weigh = Weigh.of(Plan(10, 0.5, 1, 1.0, clipping=clipping).clipping, trainable(model))
    clipper = Clipper(model, case.loss, trainable(model), C, weigh=weigh)
    kept = [0, 1, 3, 4]
    found, fewer = clipper((x, y), torch.ones(5, dtype=bool)), clipper((x[kept], y[kept]), torch.ones(4, dtype=bool))
    assert furthest(found.sums, fewer.sums) < 1e-6


@pytest.mark.parametrize("clipping", ["per-layer", "automatic", "adaptive"])
def test_a_large_sample_is_accumulated_with_one_noise(clipping: str) -> None:
    """The noise key is pinned: physical batches change it by the rounding of norms."""
    case = ZOO["mlp"]
    found = []
    for physical in (None, 7):
        torch.manual_seed(0)
        model = case.make()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        plan = Plan(100, 0.4, 4, 1.0, clipping=clipping)
        step = private(model, optimizer, plan, rng=0, speed=Speed(physical_batch=physical))
        step.parted.noise_key = lambda *_: bytes(32)
        for batch in step.batches(case.batch(100)):
            step(batch)
        found.append(torch.cat([tensor.detach().flatten() for tensor in model.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
