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
"""A number below it has a square that float32 may take for zero."""
LARGE = 2.0**64
"""A record whose gradient is longer counts as not finite: its square would overflow float32."""
OWN = {"float32": 2.0**-12, "bfloat16": 2.0**-7}
SUMS = 2.0**-6
PRODUCTS, PARTS = SUMS / 2 * (15 / 16), SUMS / 2 / 16
"""What sums within a physical batch may be off by, and what adding those up may add, in clip norms."""
ROUNDING = {precision: own + SUMS for precision, own in OWN.items()}
"""How far rounding may carry a contribution beyond the clip norm, sums included: what the noise has room for."""
MOST = 512
"""Records of a sample, where nobody says."""
SHORT, LONG, LONGER = 64, 128, 4096
"""Lengths of short sums: of gradients, of outer products at least, and of those in float64."""
LENGTHS = (128, 192, 256, 384, 512)
UNIT = 1.01 * 2.0**-8
"""Rounding to bfloat16, and a little for what a compiler rounds once more or less."""
COARSE = {"highest": 0.0, "high": 1.01 * 2.0**-10, "medium": 1.01 * 2.0**-7}
"""Rounding of both factors of a float32 product where torch may make it in TF32 or bfloat16."""
FUSED, TENSOR = 16, 2.0**-23
"""Matrix units add 16 products at a time to a float32 number, and may cut it off rather than round it."""


def cut(count: int, most: int) -> int:
    """The length of the short sums that a product over `count` rows is made of: as long as a sample's size allows."""
    allowed = [length for length in LENGTHS if links(count, length) * most * ROUND <= PRODUCTS]
    return max(allowed, default=LONG)


def links(count: int, length: int) -> int:
    """Additions and other roundings that a number passes through in a sum of `count`, cut into sums of `length`."""
    return min(count, length) + (math.ceil(count / length) if count > length else 0) + 4


def at_most(expected: float, rate: float = 0.0) -> int:
    """More records than a sample of this expected size ever has, in data of up to a tenth more than expected.

    Not proven of random samples: a step whose sample is larger takes its own size in place of this.
    """
    return math.ceil(1.1 * expected + (8 * math.sqrt(1.1 * expected) + 8) * (rate < 1))


def sum_kind(most: int, physical: int) -> torch.dtype:
    """The type of number in which the sums of physical batches are added up."""
    return torch.float64 if most * (math.ceil(most / physical) + 1) * ROUND > PARTS else torch.float32


def inner_error(lengths: int, positions: int, kind: torch.dtype) -> float:
    r"""k with |computed - exact| <= k (\sum_t |l_t| |r_t|)^2 for \sum_{ts} (l_t . l_s)(r_t . r_s).

    `lengths` is that of l_t and r_t together. Sums over t and s follow each other, so a number passes 2 T additions.
    """
    if kind == torch.bfloat16:
        return 1.01 * (TENSOR * (math.ceil(lengths / FUSED) + 2) + ROUND * (2 * positions + 4))
    return 1.01 * ROUND64 * (lengths + 2 * positions + 4)


def borne(sway: Tensor, weight: Tensor, clip_norm: float | Tensor, most: int) -> Tensor:
    """Weights such that float64 moves the sum by at most C SUMS/2 whatever the records are.

    `sway` (groups, B) is how far rounding may move it, per unit of weight and of rounding; `most` bounds the records of
    a sample. Only where a gradient is a billionth of its parts, or so, does it shorten anything.
    """
    moved, room = _moved(sway, weight) * ROUND64, clip_norm * (PRODUCTS / most)
    return torch.where(moved > room, weight * (room / moved), weight)


def needs_float64(sway: Tensor, weight: Tensor, mask: Tensor, clip_norm: float | Tensor, most: int) -> Tensor:
    """Whether float32 may move the sum of the records in the mask by more than their share of C SUMS/2."""
    return _moved(sway, weight).sum() * ROUND > mask.sum().double() * (clip_norm * (PRODUCTS / most))


def _moved(sway: Tensor, weight: Tensor) -> Tensor:
    """Per record, over its groups; records of no weight may have any numbers."""
    return torch.where(weight > 0, sway * weight, 0.0).square().sum(0).sqrt()


def traced(values: Tensor) -> bool:
    """Whether this is being traced: then no step may depend on what the numbers are."""
    return isinstance(values, FakeTensor)
