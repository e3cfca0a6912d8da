"""Ignore labels that name no output: a label is one person's value, so it must not stop anything (soundness rule 8)."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

IGNORED = -100
"""The label that cross-entropy ignores: its loss is 0, and so is its gradient."""


def known(logits: Any, labels: Any) -> tuple[Any, Any]:
    """The arguments of cross-entropy, (B, classes, ...) and (B, ...), with labels outside 0 .. classes - 1 ignored.

    Class probabilities as labels stay as they are. So do arguments of a wrong type, which torch reports without looking
    at values.
    """
    if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)) or logits.ndim < 2 or labels.is_floating_point():
        return logits, labels
    labels = labels.long()
    return logits, labels.where(labels.clamp(0, logits.shape[1] - 1) == labels, IGNORED)


def cross_entropy(model: nn.Module, batch: Any) -> Tensor:
    """The default loss: cross-entropy of model(x) against y, one number per example; 0 where y names no output."""
    x, y = batch
    losses = F.cross_entropy(*known(model(x), y), reduction="none")
    return losses.flatten(1).mean(1) if losses.ndim > 1 else losses
