"""A clip norm that follows a private quantile of the gradient norms (`Adaptive`)."""

from __future__ import annotations

from collections.abc import Iterable

from ...core import Source
from ...loss import Adaptive
from ...loss.clipping import DECISION
from ..scale.totals import Part


def next_norm(rule: Adaptive, clip_norm: float, parts: Iterable[Part], expected: float, rng: Source) -> float:
    """The next clip norm: moved by a noisy count of the norms below it, released with the sum of the same sample."""
    inside = [(clipped.norms[mask] <= clip_norm).double() - DECISION for clipped, mask in parts]
    noise = float(rng.normal()) * DECISION * rule.count_multiplier(expected)
    return rule.next(clip_norm, sum(float(values.sum()) for values in inside) + noise, expected)
