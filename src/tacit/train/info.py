"""What a step tells its operator: computed from private data without noise, so not for publication."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .scale.totals import Part


@dataclass(frozen=True)
class StepInfo:
    """For the operator's eyes: mean `loss` and share `clipped` (None for an empty sample), and how many `examples`.

    `clipped`: whose gradient was scaled down. `idle`: how many contributed nothing, because their label
    names no output, the loss raises at their values, or their gradient is not finite, longer than 2^64 or zero. Numbers
    below 2^-63 count as zero, since float32 may not tell them from it.
    """

    loss: float | None
    clipped: float | None
    examples: int = 0
    idle: int = 0

    @classmethod
    def of(cls, count: int, parts: list[Part]) -> StepInfo:
        """Of a sample of `count` units."""
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
