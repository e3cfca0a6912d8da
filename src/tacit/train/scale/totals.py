"""The clipped sum of a whole step, over its physical batches and over all processes.

A GPU is not waited for until the noise has been launched too: `__call__` launches, `settled` waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core import BadInput
from ..clip import Clipped, Clipper, Compiled
from ..clip.arrays import ordinary_modes
from ..clip.capture.coins import Coins
from ..clip.capture.made_up import same_random
from ..clip.replaced import drawn_alike
from ..clip.rounding import sum_kind
from ..clip.sums import Add
from ..clip.tree import mapped
from ..noise.grid import Grid
from ..sample.augment import Augment
from ..sample.examples import Batch, Examples
from ..sample.units import Units
from .workers import Workers

SEEN = 2
Clip = Callable[[Any, Tensor], Clipped]
Part = tuple[Clipped, Tensor]
"""What a physical batch returned besides its sum, and its mask."""


@dataclass(frozen=True, eq=False)
class Summed:
    """The clipped sum of a sample by parameter, and what else its physical batches gave.

    `total` holds if all norms turn out finite. `parts` may still be on their way from a GPU: see `Totals.settled`.
    """

    total: list[Tensor]
    parts: list[Part]
    coming: _Coming

    @property
    def seen(self) -> list[Tensor]:
        """Norms and losses of every part."""
        return [value for clipped, _ in self.parts for value in (clipped.norms, clipped.losses)]

    def words(self, slots: int, rows: int, device: torch.device) -> Tensor:
        """Norms and losses as words for a key, with space for `rows` numbers of each in every one of `slots` parts."""
        found = torch.zeros(max(slots, len(self.parts)), SEEN, rows, dtype=torch.float32, device=device)
        for place, (clipped, _) in zip(found, self.parts, strict=False):
            place[:, : len(clipped.norms)] = torch.stack((clipped.norms, clipped.losses)).to(device)
        return found.view(torch.int32).flatten()


class Totals:
    """Clip and sum the physical batches of a sample; `kind` is the dtype of the sums.

    Float32, or float64 if the sample is so large that float32 would move its sum by more than the noise has room for
    (`clip.rounding`). On a CPU noise is then added in float64 too.
    """

    def __init__(
        self,
        clipper: Clipper,
        workers: Workers,
        augment: Augment | None,
        *,
        compiled: bool,
        kind: torch.dtype = torch.float32,
    ) -> None:
        self.clipper, self.workers, self.augment, self.kind = clipper, workers, augment, kind
        self.compiled = Compiled(clipper) if compiled else None
        self.parameters = clipper.parameters
        self.device = next(iter(self.parameters.values())).device
        self.replayed = compiled and self.device.type == "cuda"
        self.most = clipper.weigh.most
        self._shown: tuple[object, object] | None = None
        self._ready: Examples | None = None
        self._checked = False
        self._alike = drawn_alike(self.device)

    def together(self, batch: Batch) -> bool:
        """Whether records of this batch run as one computation; decided once, on made-up records of their shape."""
        data = batch.examples.data
        if self.augment is not None:
            if self._shown is None or self._shown[0] is not data:
                with same_random():
                    self._shown = data, self.augment(mapped(lambda tensor: tensor[:1], data))
            data = self._shown[1]
        return self.clipper.structure(data).together

    def __call__(self, batch: Batch, coins: Coins | None = None) -> Summed:
        """Clip and sum without waiting for a GPU. `coins`: random draws that all parts and processes share."""
        self._make_ready(batch)
        self.begin()
        clip = self.clipper if self._larger(batch) or self.compiled is None else self.compiled.launched
        return self._summed(batch, clip, coins or Coins())

    def look(self, units: Units) -> None:
        """Find out on made-up units how these run, so that what is refused is refused before anything is paid.

        Not in eval mode, from which the caller may turn the model to training mode before the first step.
        """
        if self.clipper.model.training:
            with ordinary_modes(self.device), self.workers.whole(), same_random(), self.clipper.products():
                rows = units.form()
                self._check(rows)
                self.clipper.structure(self._prepared(rows))

    def begin(self) -> None:
        """Begin a step, and note the random state, so that the step can be repeated with the same numbers."""
        self._alike = drawn_alike(self.device)

    def _make_ready(self, batch: Batch) -> None:
        """Compile for every part size before the first step: compiling on demand would reveal a sample's size."""
        if self.compiled is None or not batch.smaller or self._ready is batch.examples:
            return
        self._ready = batch.examples
        for size in batch.sizes:
            index = np.zeros((size, *batch.index.shape[1:]), dtype=np.int64)
            shares = None if batch.shares is None else np.zeros(index.shape, dtype=np.float32)
            for rows, mask in replace(batch, index=index, shares=shares).parts():
                self._check(rows)
                with same_random():
                    given = self._prepared(rows)
                if self.clipper.structure(given).together:
                    with self.clipper.products():
                        self.compiled.graph(given, mask.to(self.device))

    def _larger(self, batch: Batch) -> bool:
        """Whether the sample is larger than a compiled step was made for; an eager step is then prepared."""
        larger = len(batch.index) > self.most
        if larger:
            self.clipper.weigh = replace(self.clipper.weigh, most=2 * len(batch.index))
        return larger

    def settled(self, batch: Batch, summed: Summed, coins: Coins) -> Summed:
        """The sum that is to be released, recomputed if needed, and what each part returned, in the CPU's memory."""
        parts = summed.coming.here() or summed.parts
        eager = self.compiled is None or len(batch.index) > self.most
        if eager or all(bool(clipped.norms.isfinite().all()) for clipped, _ in parts):
            return replace(summed, parts=parts)
        return self.slowly(batch, coins)

    def slowly(self, batch: Batch, coins: Coins) -> Summed:
        """Sum again without the records whose gradients are not finite; the others are computed exactly as before."""
        clip = self.clipper if self._larger(batch) or self.compiled is None else self.compiled.again
        with self._alike():
            found = self._summed(batch, clip, coins)
        return replace(found, parts=found.coming.here() or found.parts)

    def _summed(self, batch: Batch, clip: Clip, coins: Coins) -> Summed:
        total: list[Tensor] = []
        parts: list[Part] = []
        kind = torch.promote_types(self.kind, sum_kind(self.clipper.weigh.most, batch.physical))
        with self.workers.whole():
            for rows, mask in batch.parts(self.workers.rank, self.workers.count, even=self.workers.even):
                self._check(rows)
                with coins.part():
                    clipped = _kept(clip(self._prepared(rows), mask.to(self.device, non_blocking=True)))
                sums = [clipped.sums[name].to(kind) for name in self.parameters]
                if total:
                    torch._foreach_add_(total, sums)
                else:  # the next part may overwrite the memory of this one, and the next step that of a recording
                    kept = self.replayed or len(batch.index) > batch.physical
                    total = [tensor.clone() for tensor in sums] if kept else sums
                parts.append((replace(clipped, sums={}), mask))
        total = self.workers.total(total, list(self.parameters.values()), kind)
        if self.device.type == "cuda":  # noise is made in float32 there
            total = [tensor.to(self.kind) for tensor in total]
        if self.workers.count == 1:
            return Summed(total, parts, _Coming(parts))
        return Summed(total, self.workers.gathered(_Coming(parts).here() or parts), _Coming([]))

    def _prepared(self, rows: Any) -> object:
        rows = mapped(lambda tensor: tensor.to(self.device, non_blocking=True), rows)
        return rows if self.augment is None else self.augment(rows)

    def _check(self, rows: object) -> None:
        """Check before the first part of all; made-up records use none of the step's random numbers."""
        if self.augment is not None and not self._checked:
            with same_random():
                self.augment.check(mapped(lambda tensor: tensor.to(self.device, non_blocking=True), rows))
            self._checked = True


def adding(workers: Workers, grid: Grid | None, *, compiled: bool) -> tuple[Add | None, torch.dtype]:
    """How clipped gradients are summed over processes (None: not at all), and the dtype of the sums."""
    if compiled and workers.add is not None:
        raise BadInput("Steps on parameters in parts are eager.", fix="Use Speed(compile=False).")
    if grid is None:
        return workers.add, torch.float32
    if compiled or workers.add is not None:
        raise BadInput(
            "Noise on a grid goes with eager steps and parameters in one piece.", fix="Use Speed(compile=False)."
        )
    return grid.sums, torch.float64


def _kept(found: Clipped) -> Clipped:
    """The result with everything but the sums copied to its own memory, on a GPU."""
    if not found.norms.is_cuda:
        return found
    seen = torch.stack((found.norms, found.losses, found.shortened))
    return Clipped(found.sums, *seen.unbind())


class _Coming:
    """What parts returned besides their sums, being copied from a GPU to the CPU."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts if parts and parts[0][0].norms.is_cuda else []
        if self.parts:
            seen = torch.cat([torch.stack((part.norms, part.losses, part.shortened)) for part, _ in parts], dim=1)
            self.host = torch.empty(seen.shape, dtype=seen.dtype, pin_memory=True)
            self.host.copy_(seen, non_blocking=True)
            self.arrived = torch.cuda.Event()
            self.arrived.record(torch.cuda.current_stream(seen.device))

    def here(self) -> list[Part]:
        """All parts with their figures on the CPU, after a single wait; empty if nothing had to be copied."""
        if not self.parts:
            return []
        self.arrived.synchronize()
        columns = self.host.split([len(mask) for _, mask in self.parts], dim=1)
        return [
            (replace(part, norms=norms, losses=losses, shortened=shortened.bool()), mask)
            for (part, mask), (norms, losses, shortened) in zip(self.parts, columns, strict=True)
        ]
