"""A stack of models computes what each of its models would, one example at a time."""

import pytest
import torch
from torch import nn

from tacit.fleet.stack import AnyStack, LinearStack, stack, stacked

MODELS, BATCH = 3, 5


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3, bias=False), nn.ReLU(), nn.Linear(3, 3)
    )


def convolution():
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


def data(shape):
    torch.manual_seed(0)
    return torch.randn(BATCH, *shape), torch.randint(0, 3, (BATCH,))


def naive(models, x, y):
    """Per model, per example: the gradients by autograd."""
    found = []
    for model in models:
        rows = []
        for k in range(BATCH):
            loss = nn.functional.cross_entropy(model(x[k : k + 1]), y[k : k + 1])
            rows.append(
                dict(
                    zip(
                        dict(model.named_parameters()), torch.autograd.grad(loss, list(model.parameters())), strict=True
                    )
                )
            )
        found.append(rows)
    return found


@pytest.mark.parametrize(("make", "shape", "kind"), [(mlp, (2, 3), LinearStack), (convolution, (1, 3, 3), AnyStack)])
def test_logits_norms_and_weighted_sums_equal_the_naive_ones(make, shape, kind):
    torch.manual_seed(1)
    models = [make() for _ in range(MODELS)]
    x, y = data(shape)
    made = stack(models[0], stacked(models))
    assert type(made) is kind
    with torch.no_grad():
        assert torch.allclose(made.logits(x), torch.stack([model(x) for model in models]), atol=1e-6)
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


@pytest.mark.parametrize(("make", "shape"), [(mlp, (2, 3)), (convolution, (1, 3, 3))])
def test_an_example_that_is_not_finite_with_weight_zero_contributes_nothing(make, shape):
    torch.manual_seed(1)
    models = [make() for _ in range(MODELS)]
    x, y = data(shape)
    x[0] = float("inf")
    sums = stack(models[0], stacked(models)).gradients(x, y, lambda norms: torch.where(norms.isfinite(), 1.0, 0.0))
    clean = stack(models[0], stacked(models)).gradients(x[1:], y[1:], lambda norms: torch.ones_like(norms))
    assert all(torch.allclose(sums[name], clean[name], atol=1e-5) for name in sums)
