"""What a step tells its operator: computed from private data without noise, so not for publication."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .scale.totals import Part


@dataclass(frozen=True)
class StepInfo:
    """Information about a step for the operator only: mean `loss` and share `clipped` (None for an empty sample), and
    the number of `examples`.

    `clipped`: the share of gradients that were scaled down. `idle`: how many examples contributed nothing, because
    their label names no output, the loss raises at their values, or their gradient is not finite, longer than 2^64 or
    zero. Values below 2^-63 count as zero, since float32 may flush their squares.
    """

    loss: float | None
    clipped: float | None
    examples: int = 0
    idle: int = 0

    @classmethod
    def of(cls, count: int, parts: list[Part]) -> StepInfo:
        """Summarise the parts of a sample of `count` units."""
        if not count:
            return cls(None, None)
        losses, gave = 0.0, 0
        for clipped, mask in parts:
            values, norms, rows = clipped.losses.numpy(), clipped.norms.numpy(), mask.numpy()
            if not rows.all():
                values, norms = values[rows], norms[rows]
            total = float(values.sum())
            losses += total if math.isfinite(total) else float(values[values == values].sum())
            gave += int(np.count_nonzero((norms > 0) & (norms < np.inf)))
        over = sum(np.count_nonzero(clipped.shortened.numpy()) for clipped, _ in parts)
        return cls(losses / count, float(over / count), count, count - gave)
