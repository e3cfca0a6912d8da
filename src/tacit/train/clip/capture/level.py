"""All records at once, each computed as if it were alone: a level of torch's `vmap`.

Inside a level a tensor is either *own*, one value for each record, or the same for all of them. The code that runs
there sees the shape of one record only. It cannot read a value (`.item()`, a branch), see how many records there are,
or reach another record: that is what `vmap` means, whatever the model does (soundness rule 23).

`torch.vmap` itself returns values and no history. Here the ordinary autograd graph is recorded underneath, on the
tensors that hold all records, so the level is entered with the functions that `torch.vmap` is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch._functorch.vmap as functorch
from torch import Tensor
from torch._C import _functorch as C


@dataclass(eq=False)
class Level:
    """`batch` records; `number` is torch's name for the level while it is entered.

    `traced`: code that asks torch whether it is being compiled is told that it is. Libraries leave out what looks at
    values then (transformers, whether a mask masks anything), and so they must here.
    """

    batch: int
    traced: bool = False
    number: int = 0

    @contextmanager
    def entered(self) -> Iterator[Level]:
        """Random numbers that are drawn inside are drawn for each record."""
        functorch.lazy_load_decompositions()  # type: ignore[attr-defined]
        before = torch.compiler._is_compiling_flag
        self.number = C._vmap_increment_nesting(self.batch, "different")
        torch.compiler._is_compiling_flag = before or self.traced
        try:
            yield self
        finally:
            torch.compiler._is_compiling_flag = before
            C._vmap_decrement_nesting()

    def owns(self, tensor: Tensor) -> bool:
        """Whether a tensor holds a value of its own for each record."""
        return C.is_batchedtensor(tensor) and C.maybe_get_level(tensor) >= self.number

    def direct(self, tensor: Tensor) -> bool:
        """Whether no level that user code has entered lies between."""
        return C.is_batchedtensor(tensor) and C.maybe_get_level(tensor) == self.number

    def under(self, tensor: Tensor) -> tuple[Tensor, int]:
        """The tensor that holds all records, and the axis that they lie along."""
        return C.get_unwrapped(tensor), C.maybe_get_bdim(tensor)

    def all(self, tensor: Tensor) -> Tensor:
        """(B, ...): all records, first axis; a tensor that is the same for all of them is repeated without a copy."""
        if not self.direct(tensor):
            return tensor.expand(self.batch, *tensor.shape)
        values, axis = self.under(tensor)
        return values.movedim(axis, 0) if axis else values

    def one(self, values: Tensor, axis: int = 0) -> Tensor:
        """What a single record sees of a tensor that holds all of them along `axis`."""
        return C._add_batch_dim(values, axis, self.number)

    def leaf(self, values: Tensor) -> Tensor:
        """A detached copy that records its own gradient."""
        with gradients_allowed():
            return values.detach().requires_grad_()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Run our own code on tensors that hold all records, with no level in force."""
        with torch._C._DisableFuncTorch(), gradients_allowed():
            yield


@contextmanager
def gradients_allowed() -> Iterator[None]:
    """Torch forbids `requires_grad_` inside a level, since a user's leaf there would lie above it; ours lies below."""
    before = C.get_inplace_requires_grad_allowed()
    C.set_inplace_requires_grad_allowed(True)
    try:
        yield
    finally:
        C.set_inplace_requires_grad_allowed(before)
