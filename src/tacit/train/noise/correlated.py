r"""Noise that takes back part of what earlier steps added: C y = Z, row by row, for a banded C.

    y_t = Z_t - \sum_{j=1}^{b-1} c_j y_{t-j}          (c_0 = 1)

The last b - 1 rows are kept. They are noise that was added to released gradients: a checkpoint that holds them undoes
the privacy of those steps, unlike one of independent noise.
"""

from __future__ import annotations

from torch import Tensor

from ...loss.cyclic import coefficients


class Correlated:
    """The recursion, in place on each step's fresh noise; with one band nothing is done or kept."""

    def __init__(self, bands: int) -> None:
        self.coefficients = coefficients(bands)[1:]
        self.past: list[Tensor] = []
        self._made: list[Tensor] = []

    def __call__(self, fresh: Tensor) -> None:
        if self.coefficients:
            for share, earlier in zip(self.coefficients, self.past, strict=False):
                fresh.sub_(earlier, alpha=share)
            self._made = [fresh.clone()]

    def advance(self) -> None:
        """The step is over: a step that broke off before and is taken again meets the same past."""
        self.past, self._made = [*self._made, *self.past][: len(self.coefficients)], []
