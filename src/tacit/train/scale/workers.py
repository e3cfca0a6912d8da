"""Several processes that train one model (torchrun): each clips some of a step's physical batches.

All processes hold one secret, so they draw the same sample and, after one all-reduce of the clipped sums, the same
noise: it is added once, to the same total, everywhere. Norms and losses are gathered, since the noise's key and an
adaptive clip norm depend on all of them. Parameters start as the first process has them and stay equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ...core import NotFinished, TacitError
from ..clip.sums import Add

T = TypeVar("T")
LOST = "Another process of this run has ended or cannot be reached."


@contextmanager
def reached() -> Iterator[None]:
    """Context around every exchange between processes: if one process is gone, the others end with one sentence."""
    try:
        yield
    except RuntimeError:  # what gloo and NCCL raise, with addresses in their text
        again = "Start all processes again; a run with a checkpoint goes on from there."
        raise NotFinished(LOST, fix=again) from None


@dataclass(frozen=True)
class Workers:
    """This process among `count`; with a single process every method returns its argument."""

    rank: int = 0
    count: int = 1
    even: ClassVar[bool] = False
    """Whether all processes must have equally many physical batches."""

    @classmethod
    def here(cls) -> Workers:
        """The process group that the caller made with torch.distributed, or this process alone."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        return cls()

    @classmethod
    def of(cls, model: nn.Module, trained: Mapping[str, Tensor]) -> Workers:
        """The processes that train this model, whose parameters may be sharded among them (FSDP2)."""
        here = cls.here()
        if not any(type(tensor).__name__ == "DTensor" for tensor in model.parameters()):
            return here
        from .sharded import Sharded

        return Sharded.of_parts(model, trained, here)

    @property
    def add(self) -> Add | None:
        """The function that sums clipped gradients over processes; None if there is nothing to add."""
        return None

    def agreed(self, value: T) -> T:
        """The first process's value, in all processes."""
        if self.count == 1:
            return value
        box = [value]
        with reached():
            dist.broadcast_object_list(box)
        return box[0]

    def all_of(self, value: T) -> list[T]:
        """The values of all processes, by rank."""
        if self.count == 1:
            return [value]
        box: list[Any] = [None] * self.count
        with reached():
            dist.all_gather_object(box, value)
        return box

    def start(self, tensors: Iterable[Tensor]) -> None:
        """Set parameters and buffers to those of the first process."""
        if self.count > 1:
            for tensor in tensors:
                with reached():
                    dist.broadcast(tensor.detach(), 0)

    def once(self, act: Callable[[], T]) -> T:
        """Call `act` in the first process and give its result to all; if it fails there, it fails everywhere."""
        failure, found = None, None
        if self.rank == 0:
            try:
                found = act()
            except TacitError as error:
                failure = error
        failure, found = self.agreed((failure, found))
        if failure is not None:
            raise failure
        return cast(T, found)

    def total(self, sums: list[Tensor], like: Sequence[Tensor], kind: torch.dtype) -> list[Tensor]:
        """Sums over all processes, by one all-reduce of a flat vector."""
        if self.count == 1:
            return sums
        sums = sums or [torch.zeros_like(tensor, dtype=kind) for tensor in like]
        flat = torch.cat([tensor.flatten() for tensor in sums])
        with reached():
            dist.all_reduce(flat)
        parts = flat.split([tensor.numel() for tensor in sums])
        return [part.view(tensor.shape) for part, tensor in zip(parts, sums, strict=True)]

    @contextmanager
    def whole(self) -> Iterator[Any]:
        """Context in which parameters are used; sharded ones are gathered."""
        yield None

    def together(self, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters as operations see them."""
        return dict(trained)

    def own(self, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The shard of every parameter that this process adds noise to: here, all of it."""
        return dict(trained)

    def key(self, key: bytes | Tensor) -> bytes | Tensor:
        """The key of this process's noise: here the same everywhere, since all processes add the same noise."""
        return key

    def hand_over(self, own: Mapping[str, Tensor]) -> None:
        """Give the gradients of the own parts to the parameters that the optimizer holds."""

    def gathered(self, parts: list[T]) -> list[T]:
        """All processes' parts in the order of the sample: process r had parts r, r + count, ..."""
        if self.count == 1:
            return parts
        box = self.all_of(parts)
        most = max(len(found) for found in box)
        return [found[place] for place in range(most) for found in box if place < len(found)]
