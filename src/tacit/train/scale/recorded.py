"""A whole step as two pieces of work for a GPU: from the numbers of a sample's rows to the gradients.

The first picks the rows, clips and adds them up; the second derives the key, makes the noise and adds it to the sums,
which become the gradients where they lie. Both are recorded (CUDA graphs). The processor sends row numbers and two
keys, launches both, and waits for the first alone, whose norms it must see. This is for the usual case: data on the
device, a sample that fits one physical batch, noise that is independent from step to step and of one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..clip import Clipped
from ..clip.compile.replay import Replay, recordable, recorded
from ..clip.tree import mapped, tensors
from ..noise.derive import derived
from ..noise.fingerprint import fingerprint, length
from ..noise.release import Release
from ..sample.examples import Batch, Examples
from .totals import Part, Totals

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
        self.joined = release.tables()
        # in one piece: the sum's fingerprint, norms and losses, of which a key is made, and who was shortened
        found = torch.zeros(length(self.joined) + 3 * rows, dtype=torch.int32, device=device)
        self.mark, self.marked = found[: length(self.joined)], found[:-rows]
        self.here = torch.zeros(3, rows, pin_memory=recorded)
        self.seen = found[length(self.joined) :].view(torch.float32).view(3, rows)
        self.key = torch.zeros(WORDS, dtype=torch.int32, device=device)
        self.sums: list[Tensor] = []
        self.lying: Mapping[str, Tensor] | None = None
        self.state: Any = None
        self.read: Any = None

    def __call__(self, batch: Batch, keys: Callable[[], bytes]) -> list[Part] | None:
        """Hand the gradients over; what else the step gave, in the processor's memory.

        None, and no gradients, where a norm is not finite: the step is to be done slowly.
        """
        for parameter in self.release.parameters:
            parameter.grad = None  # the last step's lie where this one adds up
        parts = None
        try:
            parts = self._done(batch, keys)
        finally:
            if parts is None and self.sums:  # a sum that was not released stays nowhere
                torch._foreach_zero_(self.sums)
        return parts

    def _done(self, batch: Batch, keys: Callable[[], bytes]) -> list[Part] | None:
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
            return None
        self.release.hand_over(self.sums)
        return [(Clipped({}, norms, losses, shortened.bool()), self.places_here < count)]

    def _mark(self) -> torch.cuda.Event | None:
        if not self.recorded:
            return None
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(self.chosen.device))
        return arrived

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
            count, self.sums = self.chosen[self.rows], []
            sums, *seen = graph(trained, public, self._picked(), self.places < count, clip_norm)
            torch.stack(seen, out=self.seen)
            self.here.copy_(self.seen, non_blocking=True)
            self.sums = self.release.own([total.to(self.totals.kind) for total in sums])

        def noisy() -> None:
            if not (self.recorded and torch.cuda.is_current_stream_capturing()):
                self.joined.at(self.sums)
            fingerprint(self.joined, self.given, self.mark)
            derived(self.marked, self.given, self.key)
            self.release.into(self.joined, self.key, self.compiled.clipper.clip_norm)

        self.first, self.second = summed, noisy
        if self.recorded:
            with self.compiled.clipper.products(), torch.no_grad():
                self.first, self.second = (one.replay for one in recorded(self.chosen.device, summed, noisy))
            self.joined.at(self.sums)  # those that were recorded; a replay reads the tables
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
    if not here or batch.shares is not None or not 0 < len(batch.index) <= batch.physical:
        return False
    return totals.clipper.structure(batch.examples.data).together
