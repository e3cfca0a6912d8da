"""Where the examples lie inside a tensor, and how to bring them to the front."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Examples lie along `axis`; where it holds several rows per example, runs of `inner` of them adjoin (None: all).

    (B, T, d) is axis 0; (T, B, d) is axis 1; (B T, d) from a flattened (B, T, d) is axis 0, all adjoin; from a
    flattened (T, B, d) it is axis 0, inner 1; from a flattened (T, B, K, d), inner K.
    """

    axis: int = 0
    inner: int | None = None

    def fits(self, tensor: Tensor, batch: int) -> bool:
        return tensor.ndim > self.axis and tensor.shape[self.axis] % (batch * (self.inner or 1)) == 0

    def front(self, tensor: Tensor, batch: int) -> Tensor:
        """(B, *shape) where `axis` keeps only the rows of one example (one, as a rule)."""
        if self.axis == 0 and tensor.shape[0] == batch:
            return tensor.unsqueeze(1)
        if self.inner is None:
            return tensor.unflatten(self.axis, (batch, -1)).movedim(self.axis, 0)
        split = tensor.unflatten(self.axis, (-1, batch, self.inner)).movedim(self.axis + 1, 0)
        return split.flatten(self.axis + 1, self.axis + 2)
