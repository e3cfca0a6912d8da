r"""Noise that is correlated between steps, for batches that come round in a fixed order.

A step releases g_t + y_t, where C y = Z has independent rows Z_t ~ N(0, (z clip_norm)^2 I). Later noise takes back part
of earlier noise. So sums of gradients, which is what parameters are, are less noisy at the same privacy. C is lower
triangular with c_0 .. c_{b-1} along its `bands` diagonals, the first coefficients of (1 - x)^{-1/2}: the whole matrix
squares to that of all prefix sums. One band is C = I, independent noise.

A unit takes part once in every pass of 1/rate steps, always at the same place. With bands <= 1/rate the parts of C
that different passes meet do not overlap, and the sensitivity is sqrt(passes sum_j c_j^2).

Reference: Choquette-Choo et al. 2023 (banded factorisation, min-separation participation); Kalinin and Lampert 2024
(banded square root). The sensitivity itself comes from the event, by docs/proofs/mechanisms.md, Theorem 2.
"""

from __future__ import annotations

from functools import lru_cache

from ..core.errors import BadInput
from ..core.events import BandedFactorisation, MatrixFactorisation

MOST_STEPS = 2000
"""With more bands than batches the event writes its matrix out: half as many entries as the square of this."""


def coefficients(bands: int) -> tuple[float, ...]:
    """c_0 = 1, c_j = c_{j-1} (2j - 1)/(2j)."""
    found = [1.0]
    for j in range(1, bands):
        found.append(found[-1] * (2 * j - 1) / (2 * j))
    return tuple(found)


def cyclic_event(
    noise_multiplier: float, bands: int, steps: int, batches: int
) -> BandedFactorisation | MatrixFactorisation:
    """`steps` releases on `batches` batches that come round in order, with noise of `bands` bands."""
    passes = -(-steps // batches)
    if bands <= batches:
        return BandedFactorisation(noise_multiplier, coefficients(bands), steps, passes, batches)
    if steps > MOST_STEPS:
        raise BadInput(
            f"With more bands than batches there are at most {MOST_STEPS} steps, got {steps}.",
            fix=f"Use at most {batches} bands, which take any number of steps.",
        )
    return MatrixFactorisation(noise_multiplier, _encoder(bands, steps), passes, batches)


@lru_cache(maxsize=8)
def _encoder(bands: int, steps: int) -> tuple[tuple[float, ...], ...]:
    first = coefficients(min(bands, steps))[::-1]
    return tuple((0.0,) * (row - len(first)) + first[max(len(first) - row, 0) :] for row in range(1, steps + 1))
