"""A whole step as two pieces of work for a GPU: from the numbers of a sample's rows to the gradients.

The first picks the rows, clips and adds them up; the second derives the key, makes the noise and adds it. Both are
recorded (CUDA graphs). The processor sends row numbers and two keys, launches both, and waits for the first alone,
whose norms it must see. This is for the usual case: data on the device, a sample that fits one physical batch, noise
that is independent from step to step and of one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .batch import mapped, tensors
from .clip import Clipped
from .clip.replay import Replay, recordable, recorded
from .derive import derived
from .release import Release
from .sample import Batch, Examples
from .totals import Part, Totals, marks

WORDS = 8


class Whole:
    """Steps on one set of examples, `rows` of them at most; not `recorded` it does the same work piece by piece."""

    def __init__(self, totals: Totals, release: Release, examples: Examples, rows: int, *, recorded: bool) -> None:
        assert totals.compiled is not None
        self.totals, self.compiled, self.release = totals, totals.compiled, release
        self.examples, self.rows, self.recorded = examples, rows, recorded
        device = totals.device
        self.numbers = torch.zeros(rows + 1, dtype=torch.int64, pin_memory=recorded)
        # two rows in turns: the last step's may still be on its way
        self.words = torch.zeros(2, 2 * WORDS, dtype=torch.int32, pin_memory=recorded)
        self.chosen = torch.zeros_like(self.numbers, device=device)
        self.given = torch.zeros_like(self.words[0], device=device)
        self.places, self.places_here = torch.arange(rows, device=device), torch.arange(rows)
        self.here, self.seen = torch.zeros(3, rows, pin_memory=recorded), torch.zeros(3, rows, device=device)
        self.flat = torch.zeros(release.count, device=device)
        self.gradients = release.views(self.flat)
        self.key = torch.zeros(WORDS, dtype=torch.int32, device=device)
        self.sums: list[Tensor] = []
        self.lying: Mapping[str, Tensor] | None = None
        self.state: Any = None
        self.read: Any = None

    def __call__(self, batch: Batch, keys: Callable[[], bytes]) -> list[Part]:
        """Hand the gradients over; what else the step gave, in the processor's memory."""
        for parameter in self.release.parameters:
            parameter.grad = None  # the last step's lie in memory that this one writes before it hands anything over
        count = len(batch.index)
        numbers = self.numbers.numpy()
        numbers[:count], numbers[count : self.rows], numbers[self.rows] = batch.index, 0, count
        self.chosen.copy_(self.numbers, non_blocking=True)
        self._prepare()
        with self.compiled.clipper.products(), torch.no_grad():
            self.first()
            arrived = self._mark()
            words = self.words[batch.order % 2]
            words.numpy()[:] = np.frombuffer(keys(), dtype=np.int32)
            self.given.copy_(words, non_blocking=True)
            self.second()
        if arrived is not None:
            arrived.synchronize()
        norms, losses, shortened = self.here
        if not np.isfinite(norms.numpy()).all():
            return self._again(batch)
        self.release.hand_over(self.gradients)
        return [(Clipped({}, norms, losses, shortened.bool()), self.places_here < count)]

    def _mark(self) -> torch.cuda.Event | None:
        if not self.recorded:
            return None
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(self.chosen.device))
        return arrived

    def _again(self, batch: Batch) -> list[Part]:
        """Slowly, under the same key: the first sum was not released."""
        total, parts = self.totals.slowly(batch)
        clip_norm = self.compiled.clipper.clip_norm
        self.release(total, self.release.noise(self.key, clip_norm), self.key, clip_norm)
        return parts

    def _prepare(self) -> None:
        """The two pieces of work; made anew when what they read lies elsewhere, or a part's mode has changed."""
        trained, public = self.compiled.tensors()
        shown = [(one.data_ptr(), one.shape, one.stride(), one.dtype) for one in tensors(self.examples.data)]
        state = self.compiled.mode(), self.compiled.clipper.clip_norm, shown
        if trained is self.lying and state == self.state:
            return
        self.lying = None
        with self.compiled.clipper.products():
            graph = self.compiled.graph(self._picked(), self.places < self.rows)
        if isinstance(graph, Replay):
            graph.forget()
            graph = graph.function
        clip_norm = self.compiled.norm(self.seen).clone()

        def summed() -> None:
            count = self.chosen[self.rows]
            sums, *seen = graph(trained, public, self._picked(), self.places < count, clip_norm)
            self.sums = [total.to(self.totals.kind) for total in sums]
            self.seen.copy_(torch.stack(seen))
            self.here.copy_(self.seen, non_blocking=True)

        def noisy() -> None:
            self.key.copy_(derived(torch.cat((self.seen[:2].flatten(), *marks(self.sums))), self.given))
            self.release.fill(self.flat, self.key, self.compiled.clipper.clip_norm)
            torch._foreach_add_(self.gradients, self.sums, alpha=1 / self.release.plan.expected_batch)

        self.first, self.second = summed, noisy
        if self.recorded:
            with self.compiled.clipper.products(), torch.no_grad():
                self.first, self.second = (one.replay for one in recorded(self.chosen.device, summed, noisy))
        self.lying, self.state, self.read = trained, state, (public, graph, clip_norm)

    def _picked(self) -> Any:
        return mapped(lambda tensor: tensor.index_select(0, self.chosen[: self.rows]), self.examples.data)


def fits(totals: Totals, release: Release, batch: Batch) -> bool:
    """Whether a step on this batch is the usual case."""
    if totals.compiled is None or totals.augment is not None or totals.workers.count > 1 or not release.steady():
        return False
    if totals.device.type == "cuda" and not recordable(totals.device):
        return False
    data = tensors(batch.examples.data) if batch.examples.direct else []
    here = bool(data) and all(tensor.device == totals.device for tensor in data)
    return here and batch.shares is None and 0 < len(batch.index) <= batch.physical
