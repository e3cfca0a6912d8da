"""The clipped sum of a whole step: over its physical batches and over all processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core import BadInput
from .batch import mapped
from .clip import Clipped, Clipper, Compiled, on_host
from .grid import Grid
from .sample import Batch
from .several import Augment
from .workers import Workers

Part = tuple[Clipped, Tensor]
"""What a physical batch gave besides its sum, and its mask."""


class Totals:
    """Clips and adds up the physical batches of a sample; `kind` is the type of number that sums are kept in."""

    def __init__(self, clipper: Clipper, workers: Workers, augment: Augment | None, *, compiled: bool) -> None:
        self.clipper, self.workers, self.augment = clipper, workers, augment
        self.compiled = Compiled(clipper) if compiled else None
        self.parameters = clipper.parameters
        self.device = next(iter(self.parameters.values())).device
        self.kind = torch.float32

    def on(self, grid: Grid) -> None:
        """Add up whole numbers from now on."""
        if self.compiled is not None:
            raise BadInput("Noise on a grid goes with eager steps.", fix="Use Speed(compile=False).")
        self.kind = torch.float64
        self.clipper.add = grid.sums

    def __call__(self, batch: Batch) -> tuple[list[Tensor], list[Part]]:
        """The sum by parameter, and what else each part gave."""
        total: list[Tensor] = []
        parts = []
        for part in batch.parts(self.workers.rank, self.workers.count):
            clipped, mask = self._clip(*part)
            sums = [clipped.sums[name].to(self.kind) for name in self.parameters]
            if total:
                torch._foreach_add_(total, sums)
            else:  # the next part may overwrite the memory of this one
                total = [tensor.clone() for tensor in sums] if len(batch.index) > batch.physical else sums
            parts.append((replace(clipped, sums={}), mask))
        total = self.workers.total(total, list(self.parameters.values()), self.kind)
        return total, self.workers.gathered(parts)

    def _clip(self, rows: Any, mask: Tensor) -> Part:
        rows = mapped(lambda tensor: tensor.to(self.device, non_blocking=True), rows)
        if self.augment is not None:
            if not self.clipper.structures:
                self.augment.check(rows)
            rows = self.augment(rows)
        return on_host((self.compiled or self.clipper)(rows, mask.to(self.device))), mask
