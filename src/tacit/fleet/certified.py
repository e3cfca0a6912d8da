r"""Lengths of per-example gradients that are never too short, and how far rounding may move their sum.

A rule counts, for every (model, record), a length N >= |G| (1 - 2^-13) of its gradient G and its reach A >= \sum_s
|l_s| |r_s|, the sum of the lengths of its parts. With c = min(1, C / N) a record contributes at most C (1 + OWN). A sum
in float32 in which a number passes k additions is off by at most u \sum_i c_i k A_i. Where that is more than C SUMS/2,
the sum is made in float64, up to and including the noise. One record then moves the sum by at most C (1 + r) (soundness
rules 11 and 24).
Reference: docs/proofs/training.md, Lemmas 3 to 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..train.clip.rounding import LARGE, LOST, MOST, PRODUCTS, ROUND, borne

PART = 1024
"""Squares that are added up in float32; their sums are added up in float64."""
SPARE = 1.01
"""For terms of second order."""
OTHER = 4
"""Roundings beside additions: of the weight, of a factor times the weight, of the result."""


@dataclass(frozen=True)
class Counted:
    """Of one parameter, (K, B) in float64: `length` and `reach` of gradients; `links`, additions of its sum."""

    length: Tensor
    reach: Tensor
    links: int


@dataclass(frozen=True)
class Clip:
    """c = min(1, C / N) for the records in `mask` (K, B); `most` is a public bound on a sample's size.

    A gradient that is not finite, or longer than 2^64, contributes nothing (soundness rule 8).
    """

    mask: Tensor
    clip_norm: float
    most: int = MOST

    def __call__(self, lengths: Tensor) -> Tensor:
        factor = (self.clip_norm / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)).clamp(max=1.0)
        return torch.where(self.mask & (lengths <= LARGE), factor, 0.0)

    def settled(self, weight: Tensor, sway: Tensor) -> tuple[Tensor, torch.dtype]:
        """The weights, less where float64 would not do, and the type of number that sums need."""
        rows = self.mask.shape[1]
        most = self.most if rows <= self.most else 2 * rows
        exact = borne(sway[None], weight.double(), self.clip_norm, most)
        moved = torch.where(exact > 0, exact * sway, 0.0).sum(1).max()
        rough = float(moved) * ROUND > self.clip_norm * PRODUCTS
        return (exact, torch.float64) if rough else (exact.to(weight.dtype), weight.dtype)


def length_of(values: Tensor, dim: int) -> Tensor:
    """Lengths along an axis in float64, with room for what underflows in a square; off by a share of 2^-14.9."""
    count = values.shape[dim]
    parts = values.split(PART, dim) if count > PART else (values,)
    squared = sum((part.square().sum(dim).double() for part in parts[1:]), parts[0].square().sum(dim).double())
    return squared.sqrt() + math.sqrt(count) * LOST


def total_length(parts: list[Counted]) -> Tensor:
    """(K, B) lengths of whole gradients."""
    return torch.stack([part.length.square() for part in parts]).sum(0).sqrt()


def total_sway(parts: list[Counted]) -> Tensor:
    """(K, B): how far rounding may move the sum, per unit of weight and of rounding."""
    return torch.stack([((part.links + OTHER) * part.reach).square() for part in parts]).sum(0).sqrt()


def of_sums(length: Tensor, reach: Tensor, positions: int) -> Tensor:
    """A length that was measured after adding up `positions` in float32."""
    return length + SPARE * ROUND * (positions + 1) * reach if positions > 1 else length
