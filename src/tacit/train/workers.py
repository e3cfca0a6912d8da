"""Several processes that train one model (torchrun): each clips some of a step's physical batches.

All processes hold one secret, so they draw the same sample and, after one all-reduce of the clipped sums, the same
noise: it is added once, to the same total, everywhere. Norms and losses are gathered, since the noise's key and an
adaptive clip norm depend on all of them. Parameters start as the first process has them and stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..core import TacitError

T = TypeVar("T")


@dataclass(frozen=True)
class Workers:
    """This process among `count`; alone, every method gives back what it was given."""

    rank: int = 0
    count: int = 1

    @classmethod
    def here(cls) -> Workers:
        """The process group that the caller made with torch.distributed, or this process alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    def agreed(self, value: T) -> T:
        """The first process's value, everywhere."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box)
        return box[0]

    def start(self, tensors: Iterable[Tensor]) -> None:
        """Parameters and buffers as the first process has them."""
        if self.count > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), 0)

    def once(self, act: Callable[[], object]) -> None:
        """Done by the first process alone; if it fails there, it fails everywhere."""
        failure: TacitError | None = None
        if self.rank == 0:
            try:
                act()
            except TacitError as error:
                failure = error
        failure = self.agreed(failure)
        if failure is not None:
            raise failure

    def total(self, sums: list[Tensor], like: Sequence[Tensor], kind: torch.dtype) -> list[Tensor]:
        """Sums over all processes, by one all-reduce of one flat vector."""
        if self.count == 1:
            return sums
        sums = sums or [torch.zeros_like(tensor, dtype=kind) for tensor in like]
        flat = torch.cat([tensor.flatten() for tensor in sums])
        dist.all_reduce(flat)
        parts = flat.split([tensor.numel() for tensor in sums])
        return [part.view(tensor.shape) for part, tensor in zip(parts, sums, strict=True)]

    def gathered(self, parts: list[T]) -> list[T]:
        """All processes' parts in the order of the sample: process r had parts r, r + count, ..."""
        if self.count == 1:
            return parts
        box: list[Any] = [None] * self.count
        dist.all_gather_object(box, parts)
        most = max(len(found) for found in box)
        return [found[place] for place in range(most) for found in box if place < len(found)]
