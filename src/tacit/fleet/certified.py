r"""Lengths of per-example gradients that are never too short, and how far rounding may move their sum.

A rule counts, for every (model, record), a length N >= |G| (1 - 2^-13) of its gradient G and its reach A >= \sum_s
|l_s| |r_s|, the sum of the lengths of its parts. With c = min(1, C / N) a record contributes at most C (1 + OWN). A sum
in float32 in which a number passes k additions is off by at most u \sum_i c_i k A_i. Where that is more than C SUMS/2,
the sum of that model is made in float64. One record then moves the sum by at most C (1 + r) (soundness rules 11 and
24). How the sums of other models are made does not depend on it: rounding carries nothing from model to model.
Reference: docs/proofs/training.md, Lemmas 3 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..train.clip.rounding import LARGE, LOST, MOST, PARTS, PRODUCTS, ROUND, borne

PART = 1024
"""How many squares are added up in float32; the partial sums are added up in float64."""
SPARE = 1.01
"""A margin of one per cent for terms of second order."""
LONG = int(PARTS / ROUND / SPARE)
"""The largest number of records for which a float64 sum may be rounded to float32 once more. That rounding takes the
share of C SUMS/2 that is otherwise meant for adding up the parts.
"""
OTHER = 4
"""Roundings besides the additions: of the weight, of a factor times the weight, and of the result."""


@dataclass(frozen=True)
class Counted:
    """Bounds for one parameter, (K, B) in float64: `length` bounds the norm of each per-example gradient from above,
    and `reach` is the sum of the norms of its parts. `links` is the number of additions that an entry of the sum passes
    through.
    """

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

    def without(self, idle: Tensor) -> Clip:
        """This rule with weight zero for the records in `idle`, (K, B) or (B)."""
        return replace(self, mask=self.mask & ~idle)

    def settled(self, weight: Tensor, sway: Tensor) -> Summing:
        """The weights, reduced where even float64 would round too much, and which models' sums need float64."""
        rows = self.mask.shape[1]
        most = self.most if rows <= self.most else 2 * rows
        exact = borne(sway[None], weight.double(), self.clip_norm, most)
        moved = torch.where(exact > 0, exact * sway, 0.0).sum(1)
        if weight.dtype == torch.float64:
            return Summing(exact)
        return Summing(exact, moved * ROUND > self.clip_norm * PRODUCTS, long=rows > LONG)


@dataclass(frozen=True)
class Summing:
    """How the sums of a step are computed: with `weight` (K, B), and in float64 for the models marked `rough` (K).

    A float64 sum is rounded to float32 before noise is added, which moves it by at most u times its length, B clip
    norms. `long` means that there are too many records for that, so all sums stay in float64 until the noise has been
    added.
    """

    weight: Tensor
    rough: Tensor | None = None
    long: bool = False

    def __call__(self, added: Callable[[Tensor, torch.dtype | None], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Compute the sums by calling `added(weight, kind)`."""
        if self.rough is None:
            return added(self.weight, None)
        if self.long:
            return added(self.weight, torch.float64)
        thin = added(self.weight.float(), torch.float32)
        if not bool(self.rough.any()):
            return thin
        wide = added(self.weight, torch.float64)
        return {name: torch.where(_wide(self.rough, one), wide[name].float(), one) for name, one in thin.items()}


def _wide(value: Tensor, like: Tensor) -> Tensor:
    return value.view(*value.shape, *(1,) * (like.dim() - value.dim()))


def length_of(values: Tensor, dim: int) -> Tensor:
    """Norms along an axis in float64, with a margin for squares that underflow; relative error at most 2^-14.9."""
    count = values.shape[dim]
    parts = values.split(PART, dim) if count > PART else (values,)
    squared = sum((part.square().sum(dim).double() for part in parts[1:]), parts[0].square().sum(dim).double())
    return squared.sqrt() + math.sqrt(count) * LOST


def total_length(parts: list[Counted]) -> Tensor:
    """Norms (K, B) of the whole gradients, over all parameters."""
    return torch.stack([part.length.square() for part in parts]).sum(0).sqrt()


def total_sway(parts: list[Counted]) -> Tensor:
    """How far rounding may move the sum, (K, B), per unit of weight and of rounding."""
    return torch.stack([((part.links + OTHER) * part.reach).square() for part in parts]).sum(0).sqrt()


def of_sums(length: Tensor, reach: Tensor, positions: int) -> Tensor:
    """An upper bound on a norm that was measured after adding up `positions` terms in float32."""
    return length + SPARE * ROUND * (positions + 1) * reach if positions > 1 else length
