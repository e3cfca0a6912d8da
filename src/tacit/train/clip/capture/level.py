"""Run all records at once, each computed as if it were alone, inside a level of torch's `vmap`.

Inside a level a tensor is either *own*, with one value per record, or shared by all records. Code that runs there sees
the shape of a single record. It cannot read a value (`.item()`, a branch), see how many records there are, or reach
another record. That follows from the semantics of `vmap`, whatever the model does (soundness rule 23).

`torch.vmap` itself returns values without an autograd graph. Here the ordinary graph is recorded underneath, on the
tensors that hold all records. So the level is entered with the internal functions that `torch.vmap` is made of.
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
    """A `vmap` level for `batch` records; `number` is torch's id of the level while it is entered.

    `traced`: code that asks torch whether it is being compiled is told yes. Libraries then skip code that looks at
    values (transformers checks whether a mask masks anything), which must be skipped here too.
    """

    batch: int
    traced: bool = False
    number: int = 0

    @contextmanager
    def entered(self) -> Iterator[Level]:
        """Enter the level. Random numbers that are drawn inside are drawn per record."""
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
        """Whether a tensor has one value per record."""
        return C.is_batchedtensor(tensor) and C.maybe_get_level(tensor) >= self.number

    def direct(self, tensor: Tensor) -> bool:
        """Whether the tensor belongs to this level directly, with no level of the user's code in between."""
        return C.is_batchedtensor(tensor) and C.maybe_get_level(tensor) == self.number

    def under(self, tensor: Tensor) -> tuple[Tensor, int]:
        """The underlying tensor that holds all records, and the axis of the records."""
        return C.get_unwrapped(tensor), C.maybe_get_bdim(tensor)

    def all(self, tensor: Tensor) -> Tensor:
        """(B, ...): all records along the first axis; a shared tensor is expanded without a copy."""
        if not self.direct(tensor):
            return tensor.expand(self.batch, *tensor.shape)
        values, axis = self.under(tensor)
        return values.movedim(axis, 0) if axis else values

    def marked(self, off: Tensor) -> Tensor:
        """(B,): which records have a true entry; those of levels that user code has entered count for their record."""
        off = off.any()
        while C.is_functorch_wrapped_tensor(off) and not self.direct(off):
            inner = C.get_unwrapped(off)
            off = inner.any(C.maybe_get_bdim(off)) if C.is_batchedtensor(off) else inner
        return self.all(off) if self.direct(off) else torch.zeros(self.batch, dtype=torch.bool)

    def one(self, values: Tensor, axis: int = 0) -> Tensor:
        """What code for a single record sees of a tensor that holds all records along `axis`."""
        return C._add_batch_dim(values, axis, self.number)

    def leaf(self, values: Tensor) -> Tensor:
        """A detached copy that requires its own gradient."""
        with gradients_allowed():
            return values.detach().requires_grad_()

    @contextmanager
    def left(self) -> Iterator[None]:
        """Leave the level for our own code on tensors that hold all records."""
        with torch._C._DisableFuncTorch(), gradients_allowed():
            yield


@contextmanager
def gradients_allowed() -> Iterator[None]:
    """Allow `requires_grad_` inside a level. Torch forbids it for leaves above the level; ours lie below it."""
    before = C.get_inplace_requires_grad_allowed()
    C.set_inplace_requires_grad_allowed(True)
    try:
        yield
    finally:
        C.set_inplace_requires_grad_allowed(before)
