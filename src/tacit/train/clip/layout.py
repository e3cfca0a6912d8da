"""Where the examples lie inside a tensor, and how to bring them to the front."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Examples lie along `axis`; where the axis holds several rows per example, `major` says whether they adjoin.

    (B, T, d) is axis 0; (T, B, d) is axis 1; (B T, d) from a flattened (B, T, d) is axis 0, major; from a flattened
    (T, B, d) it is axis 0, minor.
    """

    axis: int = 0
    major: bool = True

    def fits(self, tensor: Tensor, batch: int) -> bool:
        return tensor.ndim > self.axis and tensor.shape[self.axis] % batch == 0

    def front(self, tensor: Tensor, batch: int) -> Tensor:
        """(B, *shape) where `axis` keeps only the rows of one example (one, as a rule)."""
        if self.axis == 0 and tensor.shape[0] == batch:
            return tensor.unsqueeze(1)
        rows = tensor.shape[self.axis] // batch
        if self.major:
            return tensor.unflatten(self.axis, (batch, rows)).movedim(self.axis, 0)
        return tensor.unflatten(self.axis, (rows, batch)).movedim(self.axis + 1, 0)
