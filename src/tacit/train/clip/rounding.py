r"""How far rounding may carry one record's part of a step's sum beyond the clip norm, and how sums are cut for it.

Write x_i = c_i G_i for what record i is to contribute, C for the clip norm and S^ for the sum as computed. Then

    |x_i| <= C (1 + OWN)                                     norms are counted from above (`terms`)
    |S^ - \sum_i x_i| <= C SUMS/2                            on a processor, for every sample of at most `most` records

so that one record moves S^ by at most C (1 + OWN + SUMS): the noise is scaled by that (soundness rules 11 and 24).

A sum of m numbers in float32, in whatever order, is off by at most ROUND times the number of additions that a number
passes through times the sum of absolute values. Long sums are therefore made of short ones: `links` counts the
additions. Where that is still too much for the sample, sums are made in float64.
Reference: docs/proofs/training.md, Lemmas 3 to 5; Higham 2002, section 4.2.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

ROUND, ROUND64 = 2.0**-24, 2.0**-53
LOST = 2.0**-63
"""Values below this have a square that float32 may flush to zero."""
LARGE = 2.0**64
"""A gradient longer than this counts as not finite: its square would overflow float32."""
OWN = {"float32": 2.0**-12, "bfloat16": 2.0**-7}
SUMS = 2.0**-6
PRODUCTS, PARTS = SUMS / 2 * (15 / 16), SUMS / 2 / 16
"""What sums within a physical batch may be off by, and what adding those up may add, in clip norms."""
ROUNDING = {precision: own + SUMS for precision, own in OWN.items()}
"""How far rounding may carry a contribution beyond the clip norm, sums included: what the noise has room for."""
MOST = 512
"""Assumed sample size where none is given."""
SHORT, LONG, LONGER = 64, 128, 4096
"""Lengths of partial sums: of gradients, of outer products at least, and of sums in float64."""
LENGTHS = (128, 192, 256, 384, 512)
UNIT = 1.01 * 2.0**-8
"""Relative rounding of bfloat16, with a margin for one rounding more or less in compiled code."""
COARSE = {"highest": 0.0, "high": 1.01 * 2.0**-10, "medium": 1.01 * 2.0**-7}
"""Relative rounding of both factors of a float32 product where torch may use TF32 or bfloat16."""
FUSED, TENSOR = 16, 2.0**-23
"""Matrix units add 16 products at a time to a float32 number, and may truncate rather than round."""


def cut(count: int, most: int) -> int:
    """The length of the partial sums of a product over `count` rows: as long as the sample size allows."""
    allowed = [length for length in LENGTHS if links(count, length) * most * ROUND <= PRODUCTS]
    return max(allowed, default=LONG)


def links(count: int, length: int) -> int:
    """Roundings that an entry passes through in a sum of `count` terms, cut into partial sums of `length`."""
    return min(count, length) + (math.ceil(count / length) if count > length else 0) + 4


def at_most(expected: float, rate: float = 0.0) -> int:
    """An upper bound on the size of samples of this expected size, for data up to a tenth larger than expected.

    Not proven for random samples: a step whose sample is larger uses its actual size instead.
    """
    return math.ceil(1.1 * expected + (8 * math.sqrt(1.1 * expected) + 8) * (rate < 1))


def sum_kind(most: int, physical: int) -> torch.dtype:
    """The dtype in which the sums of physical batches are accumulated."""
    return torch.float64 if most * (math.ceil(most / physical) + 1) * ROUND > PARTS else torch.float32


def inner_error(lengths: int, positions: int, kind: torch.dtype) -> float:
    r"""k with |computed - exact| <= k (\sum_t |l_t| |r_t|)^2 for \sum_{ts} (l_t . l_s)(r_t . r_s).

    `lengths` is that of l_t and r_t together. Sums over t and s follow each other, so a number passes 2 T additions.
    """
    if kind == torch.bfloat16:
        return 1.01 * (TENSOR * (math.ceil(lengths / FUSED) + 2) + ROUND * (2 * positions + 4))
    return 1.01 * ROUND64 * (lengths + 2 * positions + 4)


def borne(sway: Tensor, weight: Tensor, clip_norm: float | Tensor, most: int) -> Tensor:
    """Reduce weights such that, in float64, rounding moves the sum by at most C SUMS/2 for any records.

    `sway` (groups, B) is how far rounding may move the sum, per unit of weight and of rounding; `most` bounds the
    number of records in a sample. It reduces a weight only where a gradient is about a billion times smaller than its
    parts.
    """
    moved, room = _moved(sway, weight) * ROUND64, clip_norm * (PRODUCTS / most)
    return torch.where(moved > room, weight * (room / moved), weight)


def needs_float64(sway: Tensor, weight: Tensor, mask: Tensor, clip_norm: float | Tensor, most: int) -> Tensor:
    """Whether float32 may move the sum of the records in the mask by more than their share of C SUMS/2."""
    return _moved(sway, weight).sum() * ROUND > mask.sum().double() * (clip_norm * (PRODUCTS / most))


def _moved(sway: Tensor, weight: Tensor) -> Tensor:
    """The bound per record, over its groups; records of weight zero may have any values."""
    return torch.where(weight > 0, sway * weight, 0.0).square().sum(0).sqrt()


def traced(values: Tensor) -> bool:
    """Whether the code is being traced; it must not branch on values then."""
    return isinstance(values, FakeTensor)
