"""Models for tables by name, and a learning rate that follows from a plan.

Records of a `Schema` have features of magnitude at most 1, so one rule serves all tables. With T steps of expected
batch size b and noise multiplier z, the accumulated noise in every weight is lr sqrt(T) z / b. The rule makes that
equal to NOISE, but keeps the distance that clipped gradients can cover, lr T, at most WAY. It depends on public numbers
only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ...core import BadInput, check

if TYPE_CHECKING:
    from ...loss import Plan

HIDDEN = 64
NOISE, WAY = 0.05, 800.0
"""Found on five public tables (benchmarks/tables.py): from half to twice of either, AUC changes by less than 0.01."""


def linear(features: int, classes: int) -> nn.Module:
    """Logistic regression, which starts at zero."""
    layer = nn.Linear(features, classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return nn.Sequential(layer)  # fleets train a sequence of known layers fastest


def mlp(features: int, classes: int) -> nn.Module:
    """A network with one hidden layer."""
    return nn.Sequential(nn.Linear(features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, classes))


class Shortened(nn.Module):
    """A linear model of rows that are shortened to norm `most` where they are longer, as they were in training."""

    def __init__(self, features: int, classes: int, most: float) -> None:
        super().__init__()
        self.layer, self.most = nn.Linear(features, classes), most

    def forward(self, x: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return self.layer(x * (self.most / norms.clamp(min=self.most)))


KINDS: dict[str, Callable[[int, int], nn.Module]] = {"linear": linear, "mlp": mlp}


def network(kind: str, features: int, classes: int) -> nn.Module:
    """A model by the name of its kind."""
    if kind not in KINDS:
        raise BadInput(f"A model of kind {kind!r} is not known.", fix=f"Use one of: {', '.join(KINDS)}.")
    check.whole("features", features)
    return KINDS[kind](features, check.whole("classes", classes, least=2))


def learning_rate(plan: Plan) -> float:
    """The learning rate of plain SGD for a table under this plan."""
    scale = math.sqrt(plan.steps) * plan.noise_multiplier / plan.expected_batch
    return min(NOISE / scale, WAY / plan.steps) if scale > 0 else WAY / plan.steps
