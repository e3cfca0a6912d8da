"""Compare the result of a compiled step with that of the eager step."""

from __future__ import annotations

import math

from torch import Tensor

from ..sums import Clipped

TOLERANCE, ROUGH = 1e-3, 0.05


def agree(fast: Clipped, slow: Clipped, *, rough: bool) -> bool:
    """Whether norms and sums agree up to rounding; `rough` compares in reduced precision."""
    return (_roughly if rough else _closely)(fast, slow)


def _closely(fast: Clipped, slow: Clipped) -> bool:
    """Norms to a thousandth of the longest, sums to a thousandth of the largest entry."""
    size = max(float(total.abs().max()) for total in slow.sums.values() if total.numel())
    near = [(fast.sums[name] - total).abs()[total.isfinite()] <= TOLERANCE * size for name, total in slow.sums.items()]
    return bool((_off(fast, slow) <= TOLERANCE).all()) and all(bool(part.all()) for part in near)


def _roughly(fast: Clipped, slow: Clipped) -> bool:
    """Compare in reduced precision, where rounding may legitimately change an example's path through the network.

    One in a hundred norms may be off by more than a twentieth of the longest, none by more than a third. A parameter's
    sum may be off by half its length and a twentieth of all. That is less than if it were lost, or not clipped.
    """
    off = _off(fast, slow)
    there = {name: total.isfinite() for name, total in slow.sums.items()}
    apart = {name: float((fast.sums[name] - total)[there[name]].norm()) for name, total in slow.sums.items()}
    own = {name: float(total[there[name]].norm()) for name, total in slow.sums.items()}
    whole = math.hypot(*own.values())
    return (
        bool((off <= 1 / 3).all())
        and int((off > ROUGH).sum()) <= len(off) // 100
        and all(apart[name] <= own[name] / 2 + ROUGH * whole for name in own)
    )


def length(found: Clipped) -> float:
    return math.sqrt(sum(float(total.double().square().nansum()) for total in found.sums.values()))


def _off(fast: Clipped, slow: Clipped) -> Tensor:
    """The distances between norms, in units of the largest norm."""
    there = slow.norms.isfinite()
    longest = slow.norms[there].max().clamp(min=1e-30) if bool(there.any()) else 1.0
    return (fast.norms - slow.norms).abs()[there] / longest
