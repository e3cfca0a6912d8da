r"""Noise on a grid: a step without a floating-point hole.

With spacing h = 2^-k, d trained parameters and C = clip_norm, every contribution is rounded to whole multiples of h
before it is added, m_i = round(c_i G_i / h). Sums of whole numbers are exact, and the noise is a rounded normal number:

    release  h (\sum_i m_i + round(N(0, (z B/h)^2 I))) / expected batch,     B = C (1 + r) + h sqrt(d)/2

A contribution with h |m_i| > B counts as zero, so B bounds one contribution, rounding and all (r as in the step's own
bound). Since whole numbers may be added before or after rounding, this is the Gaussian mechanism of multiplier z,
rounded: post-processing. The event stays the plan's.

Guarantee: `plan.event`, up to a total distance below 2^-100 for each number drawn.
Caller ensures: an example's own gradient does not depend, to the last bit, on the company it keeps.
Reference: docs/proofs/training.md, Lemmas 1 and 2; Mironov 2012 (the attack).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import torch
from torch import Tensor

from ..clip.arrays import flat
from ..clip.rules.terms import total
from ..clip.sums import Terms
from ..clip.weigh import Weigh
from .keys import Keystream
from .rounded import Rounded

FINE = 2.0**-10
"""Rounding may lengthen a contribution by about half of this share; the noise spans the inverse, in grid steps."""


class Grid:
    """The grid of one plan: rounds contributions, adds whole-number noise."""

    def __init__(self, count: int, clip_norm: float, noise_multiplier: float, rounding: float) -> None:
        largest = clip_norm * FINE * min(1 / math.sqrt(count), noise_multiplier)
        self.spacing = 2.0 ** math.floor(math.log2(largest))
        self.bound = clip_norm * (1 + rounding) + self.spacing * math.sqrt(count) / 2
        self.noise = Rounded((Fraction(noise_multiplier) * Fraction(self.bound) / Fraction(self.spacing)) ** 2)

    def sums(self, parameters: Mapping[str, Tensor], terms: Terms, weight: Tensor, weigh: Weigh) -> dict[str, Tensor]:
        """Sums of rounded contributions by parameter, as whole numbers in float64 (they stay far below 2^53)."""
        pieces = {name: self._rounded(total(parts), weight[weigh.group(name)]) for name, parts in terms.items()}
        squares = sum(flat(piece).square().sum(1) for piece in pieces.values())
        if not isinstance(squares, Tensor):
            return {name: torch.zeros_like(tensor, dtype=torch.float64) for name, tensor in parameters.items()}
        kept = (squares.sqrt() * self.spacing <= self.bound).double()
        return {
            name: torch.einsum("b...,b->...", pieces[name], kept)
            if name in pieces
            else torch.zeros_like(tensor, dtype=torch.float64)
            for name, tensor in parameters.items()
        }

    def _rounded(self, gradients: Tensor, weight: Tensor) -> Tensor:
        scale = weight.double() / self.spacing
        return torch.round(gradients.double() * scale.view(-1, *(1,) * (gradients.ndim - 1)))

    def noisy(self, sums: Sequence[Tensor], count: int, key: bytes) -> Tensor:
        """h (sum + noise), as one flat vector; every entry is a whole multiple of h, exactly."""
        noise = torch.from_numpy(self.noise(count, Keystream(key)))
        if sums:
            noise += torch.cat([tensor.flatten() for tensor in sums]).cpu().long()
        return noise.double() * self.spacing
