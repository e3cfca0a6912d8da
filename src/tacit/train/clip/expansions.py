"""Fused operations written as simpler ones that have rules; they run inside the capture in place of the original."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .rules import EXPANSIONS


def bilinear(first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r"""y_k = \sum_{ij} x_i W_kij z_j + b_k, as a linear layer on the outer product of x and z."""
    pairs = (first.unsqueeze(-1) * second.unsqueeze(-2)).flatten(-2)
    return F.linear(pairs, weight.flatten(1), bias)


EXPANSIONS[F.bilinear] = bilinear
EXPANSIONS[torch.bilinear] = bilinear
