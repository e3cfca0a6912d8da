r"""Several rows for one unit, averaged before they are clipped: a user's records, or one record's augmentations.

    G_u = \sum_k s_uk \nabla loss(row_uk),     \sum_k s_uk = 1

is one gradient, clipped once, so that the unit moves a step's sum by at most the clip norm however many rows it has.
To the clipper it is one example that is K times as long: the norm of the average comes out at no extra pass.

Reference: De et al. 2022, section 3.2 (augmentation multiplicity); McMahan et al. 2018 (one vector per user).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...core import check
from ..clip.sums import check_losses
from ..clip.tree import mapped, size, tensors
from .per_record import check_apart, each

Loss = Callable[[nn.Module, Any], Tensor]


class Several(NamedTuple):
    """`rows` with tensors of shape (units, K, ...), and the `shares` (units, K) of each in its unit's gradient."""

    rows: Any
    shares: Tensor


def averaged(loss: Loss) -> Loss:
    """Make a loss that takes single rows and `Several` alike: one number per unit."""

    def run(model: nn.Module, batch: Any) -> Tensor:
        if not isinstance(batch, Several):
            return loss(model, batch)
        losses = loss(model, mapped(lambda tensor: tensor.flatten(0, 1), batch.rows))
        check_losses(losses, batch.shares.numel())
        return (losses.view(batch.shares.shape) * batch.shares).sum(1)

    return run


@dataclass(frozen=True)
class Augment:
    """`times` random versions of every record, by `function(batch) -> batch`, averaged before they are clipped.

    Guarantee: the record's contribution stays within the clip norm; augmentation costs no privacy. `function` is given
    every record by itself, as a batch of one, so it cannot mix them; one that means to is refused.
    """

    function: Callable[[Any], Any]
    times: int
    _at_once: bool = field(default=True, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check.whole("times", self.times)

    @property
    def ours(self) -> bool:
        """Whether the function keeps records apart by construction and draws from the device's generator only."""
        return isinstance(self.function, FlipAndCrop)

    def __call__(self, rows: object) -> Several:
        if self.ours:
            return self._ours(rows)
        versions, taken = zip(*(self._version(rows) for _ in range(self.times)), strict=True)
        pieces = [tensors(version) for version in versions]
        stacked = iter([torch.stack(same, dim=1) for same in zip(*pieces, strict=True)])
        shares = torch.stack(taken, dim=1).all(1, keepdim=True).float().expand(-1, self.times) / self.times
        return Several(mapped(lambda _: next(stacked), versions[0]), shares)

    def _ours(self, rows: object) -> Several:
        """All versions of all records by one call."""
        count = size(rows)
        many = self.function(mapped(lambda tensor: tensor.repeat_interleave(self.times, 0), rows))
        shares = torch.full((count, self.times), 1 / self.times, dtype=torch.float32, device=tensors(rows)[0].device)
        return Several(mapped(lambda tensor: tensor.unflatten(0, (count, self.times)), many), shares)

    def _version(self, rows: object) -> tuple[object, Tensor]:
        """One version of every record, and a mask of the records whose values the function accepted."""
        return each(self.function, rows, at_once=self._at_once)

    def check(self, rows: object) -> None:
        """Refuse a function that mixes made-up records or remembers them; find out how it is run."""
        if not self.ours:
            object.__setattr__(self, "_at_once", check_apart(self.function, rows))


@dataclass(frozen=True)
class FlipAndCrop:
    """See `flip_and_crop`. Every record has its own flip and shift, and is gathered by its own index."""

    padding: int = 4

    def __call__(self, batch: Any) -> Any:
        x, *rest = batch
        count, _, height, width = x.shape
        wide = torch.nn.functional.pad(x, (self.padding,) * 4)
        down, right = torch.randint(0, 2 * self.padding + 1, (2, count, 1), device=x.device)
        flip = torch.rand(count, 1, device=x.device) < 0.5
        columns = torch.arange(width, device=x.device)
        columns = torch.where(flip, columns.flip(0), columns) + right
        rows = torch.arange(height, device=x.device) + down
        unit = torch.arange(count, device=x.device)[:, None, None]
        moved = wide.permute(0, 2, 3, 1)[unit, rows[:, :, None], columns[:, None, :]]
        return (moved.permute(0, 3, 1, 2).contiguous(), *rest)


def flip_and_crop(padding: int = 4) -> FlipAndCrop:
    """A mirror image with probability 1/2 and a random shift by up to `padding` pixels, zeros coming in at the edges.

    For (x, y) with images x of shape (batch, channels, height, width). Reference: De et al. 2022, section 3.2.
    """
    return FlipAndCrop(padding)
