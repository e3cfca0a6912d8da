"""Labels that name no output: a value of one person, so nothing may stop because of it (soundness rule 8)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

IGNORED = -100
"""The label that cross-entropy passes over: its loss is 0, and so is its gradient."""


def known(logits: Any, labels: Any) -> tuple[Any, Any]:
    """What cross-entropy takes, (B, classes, ...) and (B, ...), with labels outside 0 .. classes - 1 ignored.

    Shares of all classes stay as they are. So do things of a wrong kind, which torch names: no value decides that.
    """
    if not (isinstance(logits, Tensor) and isinstance(labels, Tensor)) or logits.ndim < 2 or labels.is_floating_point():
        return logits, labels
    labels = labels.long()
    return logits, labels.where(labels.clamp(0, logits.shape[1] - 1) == labels, IGNORED)
