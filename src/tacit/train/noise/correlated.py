r"""Correlated noise, which cancels part of what earlier steps added: solve C y = Z row by row, for a banded C.

    y_t = Z_t - \sum_{j=1}^{b-1} c_j y_{t-j}          (c_0 = 1)

The last b - 1 rows are kept. They are noise that was added to released gradients. So, unlike with independent noise, a
checkpoint that holds them undoes the privacy of those steps.
"""

from __future__ import annotations

from torch import Tensor

from ...loss.cyclic import coefficients


class Correlated:
    """The recursion, applied in place to each step's fresh noise; with one band it does nothing and keeps nothing."""

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
        """Finish the step. A step that was interrupted before this and is repeated sees the same past."""
        self.past, self._made = [*self._made, *self.past][: len(self.coefficients)], []
