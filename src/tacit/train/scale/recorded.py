"""A whole step as a few CUDA graphs, from the row numbers of a sample to the gradients.

For every part of the sample one graph gathers its rows, augments them, clips and sums. A last graph derives the key,
draws the noise and adds it to the sums, which become the gradients in place. The CPU sends row numbers and two keys,
launches everything, and waits only for the norms, which it must inspect. This is for the usual case: data on the
device, noise that is independent from step to step and of constant scale, and augmentation by one of our own functions
or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..clip import Clipped
from ..clip.capture.made_up import same_random
from ..clip.compile.replay import Replay, recordable, recorded
from ..clip.rounding import sum_kind
from ..clip.tree import mapped, tensors
from ..noise.derive import derived
from ..noise.fingerprint import fingerprint, length
from ..noise.release import Release
from ..sample.examples import Batch
from .totals import SEEN, Part, Totals

WORDS = 8
Work = Callable[[], None]
Draws = Callable[..., AbstractContextManager[None]]
"""A context in which a step draws its random numbers from its key; with `here=False` those of a GPU alone."""


class Whole:
    """Steps on one set of examples, in parts like those of `batch`; without `recorded` the same work runs eagerly."""

    def __init__(self, totals: Totals, release: Release, batch: Batch, *, recorded: bool) -> None:
        assert totals.compiled is not None
        self.totals, self.compiled, self.release = totals, totals.compiled, release
        self.examples, self.sizes, self.slots, self.recorded = batch.examples, batch.sizes, batch.slots, recorded
        device, rows = totals.device, batch.physical
        # of every part: row numbers, then how many of them count, then which part it is
        self.numbers = torch.zeros(self.slots, rows + 2, dtype=torch.int64, pin_memory=recorded)
        self.chosen = {size: torch.zeros(size + 2, dtype=torch.int64, device=device) for size in self.sizes}
        # two rows in turns: the last step's may still be on its way
        self.words = torch.zeros(2, 2 * WORDS, dtype=torch.int32, pin_memory=recorded)
        self.given = torch.zeros_like(self.words[0], device=device)
        self.places = {size: torch.arange(size, device=device) for size in self.sizes}
        self.places_here = {size: torch.arange(size) for size in self.sizes}
        self.full = {size: torch.ones(size, dtype=torch.bool) for size in self.sizes}
        self.joined = release.tables()
        # in one piece: the sum's fingerprint, and norms and losses of every part, of which a key is made
        self.marked = torch.zeros(length(self.joined) + SEEN * self.slots * rows, dtype=torch.int32, device=device)
        self.mark = self.marked[: length(self.joined)]
        self.seen = self.marked[length(self.joined) :].view(torch.float32).view(self.slots, SEEN, rows)
        self.shortened = torch.zeros(self.slots, rows, dtype=torch.float32, device=device)
        self.seen_here = torch.zeros(self.seen.shape, dtype=torch.float32, pin_memory=recorded)
        self.shortened_here = torch.zeros(self.shortened.shape, dtype=torch.float32, pin_memory=recorded)
        # the same memory as arrays: between two steps a device waits for what is done here
        self.rows_sent, self.words_sent = self.numbers.numpy(), self.words.numpy()
        self.norms_here = self.seen_here[:, 0].numpy()
        self.arrived: torch.cuda.Event | None = None
        self.key = torch.zeros(WORDS, dtype=torch.int32, device=device)
        self.sums: list[Tensor] = []
        self.lying: Mapping[str, Tensor] | None = None
        self.state: object = None
        self.read: object = None
        self.first: dict[tuple[int, bool], Work] = {}
        self.second: Work

    def suits(self, batch: Batch) -> bool:
        """Whether this was built for such batches."""
        return self.examples is batch.examples and self.sizes == batch.sizes and self.slots == batch.slots

    def __call__(self, batch: Batch, keys: Callable[[], bytes], draws: Draws) -> list[Part] | None:
        """Run the step, set the gradients, and return what else it computed, in the CPU's memory. Recorded graphs draw
        random numbers on their device alone.

        None, and no gradients, if a norm is not finite: the step must then be repeated by `slowly`.
        """
        for parameter in self.release.parameters:
            parameter.grad = None  # the last step's lie where this one adds up
        parts, ready = None, self.ready()
        try:
            with draws(here=not (ready and self.recorded)):
                if not ready:
                    self._build()
                parts = self._done(batch, keys)
        finally:
            if parts is None and self.sums:  # a sum that was not released stays nowhere
                torch._foreach_zero_(self.sums)
        return parts

    def _done(self, batch: Batch, keys: Callable[[], bytes]) -> list[Part] | None:
        cuts = batch.cuts()
        with self.compiled.clipper.products(), torch.no_grad():
            for slot, (start, end, size) in enumerate(cuts):
                self._send(slot, batch.index[start:end], size)
                self.first[size, slot == 0]()
            self._leave(len(cuts))
            turn = batch.order % 2
            self.words_sent[turn] = np.frombuffer(keys(), dtype=np.int32)
            self.given.copy_(self.words[turn], non_blocking=True)
            self.second()
        parts = [self._part(slot, end - start, size) for slot, (start, end, size) in enumerate(cuts)]
        if self.arrived is not None:
            self.arrived.synchronize()
        if not np.isfinite(self.norms_here[: len(cuts)]).all():
            return None
        self.release.hand_over(self.sums)
        return parts

    def _part(self, slot: int, count: int, size: int) -> Part:
        """The buffers for a part's norms and losses, and its mask."""
        norms, losses = self.seen_here[slot, :, :size]
        mask = self.full[size] if count == size else self.places_here[size] < count
        return Clipped({}, norms, losses, self.shortened_here[slot, :size]), mask

    def _send(self, slot: int, index: Any, size: int) -> None:
        """Copy a part's row numbers to the device."""
        count, numbers = len(index), self.rows_sent[slot]
        numbers[:count] = index
        numbers[count : size + 2] = 0
        numbers[size], numbers[size + 1] = count, slot
        self.chosen[size].copy_(self.numbers[slot, : size + 2], non_blocking=True)

    def _leave(self, count: int) -> None:
        """Start copying norms, losses and clipping flags to the CPU."""
        self.seen_here[:count].copy_(self.seen[:count], non_blocking=True)
        self.shortened_here[:count].copy_(self.shortened[:count], non_blocking=True)
        if self.recorded:
            self._mark()

    def _mark(self) -> None:
        """Record an event; when the device has reached it, all results have arrived."""
        self.arrived = self.arrived or torch.cuda.Event()
        self.arrived.record(torch.cuda.current_stream(self.totals.device))

    def ready(self) -> bool:
        """Whether all graphs are built, what they read lies where it did, and the model is in the same mode."""
        return self.compiled.tensors()[0] is self.lying and self._state() == self.state

    def _state(self) -> tuple[Any, ...]:
        shown = [(one.data_ptr(), one.shape, one.stride(), one.dtype) for one in tensors(self.examples.data)]
        return self.compiled.mode(), self.compiled.clipper.clip_norm, shown

    def _build(self) -> None:
        """Record the CUDA graphs of a step."""
        (trained, public), state = self.compiled.tensors(), self._state()
        self.lying = None
        graphs = {size: self._graph(size) for size in self.sizes}
        clip_norm = self.compiled.norm(self.seen).clone()

        def part(size: int, first: bool) -> Work:
            def summed() -> None:
                rows, count = self._picked(size), self.chosen[size][size]
                sums, *seen = graphs[size](trained, public, rows, self.places[size] < count, clip_norm)
                self._add([total.to(self.totals.kind) for total in sums], first, size == self.sizes[-1])
                self._show(seen, first, self.chosen[size][size + 1 :])

            return summed

        def noisy() -> None:
            if not (self.recorded and torch.cuda.is_current_stream_capturing()):
                self.joined.at(self.sums)
            fingerprint(self.joined, self.given, self.mark)
            derived(self.marked, self.given, self.key)
            self.release.into(self.joined, self.key, self.compiled.clipper.clip_norm)

        works = {(size, first): part(size, first) for size, first in self._kinds()}
        self.first, self.second = works, noisy
        if self.recorded:
            with self.compiled.clipper.products(), torch.no_grad():
                *firsts, second = recorded(self.totals.device, *works.values(), noisy)
            self.first = {kind: one.replay for kind, one in zip(works, firsts, strict=True)}
            self.second = second.replay
            self.joined.at(self.sums)  # those that were recorded; a replay reads the tables
        self.lying, self.state, self.read = trained, state, (public, graphs, clip_norm)

    def _kinds(self) -> list[tuple[int, bool]]:
        """Part sizes, each with whether it comes first in a step; the largest first, since its graph allocates the
        sums.
        """
        begin = [(size, True) for size in reversed(self.sizes)]
        return begin + [(size, False) for size in self.sizes if self.slots > 1]

    def _graph(self, size: int) -> Callable[..., Any]:
        with self.compiled.clipper.products(), same_random():
            graph = self.compiled.graph(self._picked(size), self.places[size] < size)
        if isinstance(graph, Replay):
            graph.forget()
            return graph.function
        return graph

    def _add(self, sums: list[Tensor], first: bool, largest: bool) -> None:
        """Add to the step's sums, which are the buffers of the largest part when that part comes first."""
        if first and (largest or not self.recorded):
            self.sums = []
            self.sums = self.release.own(sums)
        elif first:
            torch._foreach_copy_(self.sums, sums)
        else:
            torch._foreach_add_(self.sums, sums)

    def _show(self, seen: list[Tensor], first: bool, slot: Tensor) -> None:
        """Store norms, losses and clipping flags in the slot of their part; zeros in unused entries."""
        if first:
            self.marked.zero_()
        norms, losses, shortened = seen
        missing = self.seen.shape[2] - len(norms)
        wide = torch.nn.functional.pad(torch.stack((norms, losses)), (0, missing))
        self.seen.index_copy_(0, slot, wide[None])
        self.shortened.index_copy_(0, slot, torch.nn.functional.pad(shortened.to(norms.dtype), (0, missing))[None])

    def _picked(self, size: int) -> Any:
        rows = mapped(lambda tensor: tensor.index_select(0, self.chosen[size][:size]), self.examples.data)
        return rows if self.totals.augment is None else self.totals.augment(rows)


def fits(totals: Totals, release: Release, batch: Batch) -> bool:
    """Whether a step on this batch is the usual case."""
    if totals.compiled is None or totals.workers.count > 1 or not release.steady():
        return False
    if totals.augment is not None and not totals.augment.ours:
        return False
    if totals.device.type == "cuda" and not recordable(totals.device):
        return False
    data = tensors(batch.examples.data) if batch.examples.direct else []
    here = bool(data) and all(tensor.device == totals.device for tensor in data)
    parts = -(-len(batch.index) // batch.physical)
    if not here or not batch.fixed or batch.shares is not None or not 0 < parts <= batch.slots:
        return False
    if parts > 1 and not (len(batch.index) <= totals.most and sum_kind(totals.most, batch.physical) is totals.kind):
        return False
    return totals.together(batch)
