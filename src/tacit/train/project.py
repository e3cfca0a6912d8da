"""Projections of the parameters after each step: post-processing, free in privacy."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..core import check


def ball(radius: float) -> Callable[[nn.Module], None]:
    """Project all trainable parameters together onto the Euclidean ball of this radius around zero.

    It keeps a convex problem on a set of diameter 2 `radius`, as theorems about the last iterate ask.
    """
    limit = check.positive("radius", radius)

    def project(model: nn.Module) -> None:
        moved: list[Tensor] = [tensor for tensor in model.parameters() if tensor.requires_grad]
        norm = math.sqrt(math.fsum(_square(tensor) for tensor in moved))
        if norm > limit:
            torch._foreach_mul_(moved, limit / norm)

    return project


def _square(tensor: Tensor) -> float:
    """Squared length; of a tensor in parts (DTensor), of all of them together."""
    found = tensor.detach().double().square().sum()
    return float(found.full_tensor() if hasattr(found, "full_tensor") else found)
