"""A stack of models computes what each of its models would, one example at a time."""

import pytest
import torch
from torch import nn

from tacit import BadInput
from tacit.fleet import vmap_guard
from tacit.fleet.stack import AnyStack, LayerStack, stack, stacked

MODELS, BATCH = 3, 5


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 3)
    )


def convolution():
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, 3))


def deep():
    """Convolutions with few and with many positions, norms of both kinds, every kind of pooling."""
    return nn.Sequential(
        nn.Conv2d(2, 4, (3, 2), (2, 1), (1, 2)), nn.GroupNorm(2, 4), nn.Tanh(), nn.MaxPool2d(2, 1),
        nn.Conv2d(4, 3, 2, bias=False), nn.AvgPool2d((1, 2)), nn.Conv2d(3, 8, 1), nn.GroupNorm(1, 8),
        nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(), nn.Linear(16, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 3),
    )  # fmt: skip


def normed_first():
    return nn.Sequential(nn.GroupNorm(1, 2), nn.Conv2d(2, 3, 2), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(3, 3))


def dilated():
    return nn.Sequential(nn.Conv2d(2, 2, 2, dilation=2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))


def hooked():
    """A layer with a hook, and one with a `forward` of its own."""
    model = mlp()
    model[1].register_forward_hook(_doubled)
    model[5].forward = Doubling.forward.__get__(model[5])
    return model


def _doubled(layer, given, made):
    return 2 * made


class Doubling(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(2 * x, self.weight, self.bias)


CASES = [
    (mlp, (2, 3), LayerStack),
    (convolution, (1, 3, 3), LayerStack),
    (deep, (2, 7, 5), LayerStack),
    (normed_first, (2, 3, 3), LayerStack),
    (dilated, (2, 4, 6), AnyStack),
    (hooked, (2, 3), AnyStack),
]


def data(shape, own):
    torch.manual_seed(0)
    models = (MODELS,) if own else ()
    return torch.randn(*models, BATCH, *shape), torch.randint(0, 3, (*models, BATCH))


def naive(models, x, y):
    """Per model, per example: the gradients by autograd."""
    found = []
    for number, model in enumerate(models):
        rows = []
        for k in range(BATCH):
            place = (number, slice(k, k + 1)) if y.dim() == 2 else slice(k, k + 1)
            loss = nn.functional.cross_entropy(model(x[place]), y[place])
            rows.append(
                dict(
                    zip(
                        dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True
                    )
                )
            )
        found.append(rows)
    return found


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("make", "shape", "kind"), CASES)
def test_logits_norms_and_weighted_sums_equal_the_naive_ones(make, shape, kind, own):
    torch.manual_seed(1)
    models = [make() for _ in range(MODELS)]
    x, y = data(shape, own)
    made = stack(models[0], stacked(models))
    assert type(made) is kind
    one = x[0] if own else x
    with torch.no_grad():
        assert torch.allclose(made.logits(one), torch.stack([model(one) for model in models]), atol=1e-5)
    each = naive(models, x, y)
    norms = torch.tensor([[sum(g.square().sum() for g in row.values()) ** 0.5 for row in rows] for rows in each])
    seen = []

    def rule(found):
        seen.append(found)
        return 1 / (1 + found)

    weights = rule(norms)
    by_rule, given = made.gradients(x, y, rule), made.gradients(x, y, weights)
    assert torch.allclose(seen[1], norms, rtol=1e-4, atol=1e-6)
    for k, rows in enumerate(each):
        for name in rows[0]:
            expected = sum(weights[k, i] * row[name] for i, row in enumerate(rows))
            assert torch.allclose(by_rule[name][k], expected, atol=1e-5)
            assert torch.allclose(given[name][k], expected, atol=1e-5)


@pytest.mark.parametrize(("make", "shape", "kind"), CASES)
def test_an_example_that_is_not_finite_with_weight_zero_contributes_nothing(make, shape, kind):
    torch.manual_seed(1)
    models = [make() for _ in range(MODELS)]
    x, y = data(shape, own=False)
    x[0] = float("inf")
    sums = stack(models[0], stacked(models)).gradients(x, y, lambda norms: torch.where(norms.isfinite(), 1.0, 0.0))
    clean = stack(models[0], stacked(models)).gradients(x[1:], y[1:], lambda norms: torch.ones_like(norms))
    assert all(torch.allclose(sums[name], clean[name], atol=1e-5) for name in sums)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("branch_free", [False, True])
@pytest.mark.parametrize(("make", "shape", "kind"), CASES[:4])
def test_given_weights_of_zero_take_away_what_is_not_finite(make, shape, kind, branch_free, own):
    """Eagerly, and as it is compiled for a GPU: there unused inputs are zeros from the first layer on."""
    torch.manual_seed(1)
    models = [make() for _ in range(MODELS)]
    x, y = data(shape, own)
    weights = torch.rand(MODELS, BATCH) + 0.1
    weights[:, 1] = 0.0
    weights[2] = 0.0  # a model that uses nobody
    made = stack(models[0], stacked(models))
    wanted = made.gradients(x, y, weights)
    x[(slice(None), 1) if own else 1] = float("inf")
    made.branch_free = branch_free
    sums = made.gradients(x, y, weights)
    assert all(torch.allclose(sums[name], wanted[name], atol=1e-6) for name in sums)
    assert all(not sums[name][2].any() for name in sums)


def test_models_are_not_taken_for_records_where_there_are_as_many(monkeypatch):
    """Torch's own rule for the slopes of PReLU does so at two levels."""
    torch.manual_seed(1)
    models = [nn.Sequential(nn.Linear(6, 4), nn.PReLU(4), nn.Linear(4, 3)) for _ in range(BATCH)]
    for number, model in enumerate(models):
        nn.init.constant_(model[1].weight, 0.2 * number)
    (x, y), weights = data((6,), own=False), torch.rand(BATCH, BATCH)
    found = stack(models[0], stacked(models)).gradients(x, y, lambda _: weights)
    for k, rows in enumerate(naive(models, x, y)):
        for name in rows[0]:
            expected = sum(weights[k, i] * row[name] for i, row in enumerate(rows))
            assert torch.allclose(found[name][k], expected, atol=1e-5)
    monkeypatch.setattr(vmap_guard, "OF_OURS", {})  # the mutant: the comparison with autograd refuses it
    with pytest.raises(BadInput, match="what each gives alone"):
        stack(models[0], stacked(models)).gradients(x, y, lambda _: weights)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_rounding_of_a_coarse_dtype_is_no_disagreement(kind):
    torch.manual_seed(1)
    models = [nn.Sequential(nn.Conv1d(2, 4, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)).to(kind)
              for _ in range(MODELS)]  # fmt: skip
    x, y = torch.randn(BATCH, 2, 6).to(kind), torch.arange(BATCH) % 3
    sums = stack(models[0], stacked(models)).gradients(x, y, lambda norms: torch.ones_like(norms))
    assert all(value.isfinite().all() for value in sums.values())


def test_a_hook_in_the_backward_pass_is_refused():
    models = [mlp() for _ in range(MODELS)]
    models[0][1].register_full_backward_hook(lambda layer, given, found: None)
    with pytest.raises(BadInput, match="hook in the backward pass"):
        stack(models[0], stacked(models))


def test_a_picture_needs_flattening_before_a_linear_layer():
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Linear(2, 3))
    with pytest.raises(BadInput, match="Flatten"):
        stack(model, stacked([model])).logits(torch.zeros(4, 1, 3, 3))
