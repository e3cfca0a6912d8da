"""Record a compiled step once and replay it, so that a GPU gets hundreds of small launches as one (CUDA graphs).

A recording reads parameters in place and examples from its own buffers. Results lie in memory that the next replay
overwrites, so callers copy what they keep. Other parameters, or parameters that have moved, come as a different mapping
and cause a new recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..tree import mapped, tensors

WARM = 3


class Replay:
    """A function (trained, public, batch, mask, clip_norm) -> tensors, launched as one CUDA graph."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.recorded: tuple[Mapping[str, Tensor], ...] = ()
        self.recording: torch.cuda.CUDAGraph | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.found: object = None

    def __call__(
        self,
        trained: Mapping[str, Tensor],
        public: Mapping[str, Tensor],
        batch: object,
        mask: Tensor,
        clip_norm: Tensor,
    ) -> Any:
        if not recordable(mask.device):
            return self.function(trained, public, batch, mask, clip_norm)
        if not self.recorded or trained is not self.recorded[0] or public is not self.recorded[1]:
            self._record(trained, public, batch, mask, clip_norm)
            self.recorded = trained, public
        for kept, given in zip(self.inputs, (*tensors(batch), mask, clip_norm), strict=True):
            kept.copy_(given)
        assert self.recording is not None  # made above
        self.recording.replay()
        return self.found

    def forget(self) -> None:
        """Free the memory of the recording; the next call records again."""
        self.recorded, self.recording, self.found, self.inputs = (), None, None, ()

    def _record(self, trained: object, public: object, batch: object, mask: Tensor, clip_norm: Tensor) -> None:
        batch, mask, clip_norm = mapped(torch.clone, batch), mask.clone(), clip_norm.clone()
        self.inputs = (*tensors(batch), mask, clip_norm)

        def work() -> None:
            self.found = self.function(trained, public, batch, mask, clip_norm)

        (self.recording,) = recorded(mask.device, work)


def recordable(device: torch.device) -> bool:
    """Whether work on this device can be recorded: torch records on the current device and its own stream."""
    stream = torch.cuda.graph.default_capture_stream
    return device.index == torch.cuda.current_device() and (stream is None or stream.device == device)


def recorded(device: torch.device, *works: Callable[[], None]) -> list[torch.cuda.CUDAGraph]:
    """Graphs that share memory, to be replayed in this order; the device's random state stays as it was."""
    stream, aside = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    with torch.random.fork_rng(devices=[device]):
        aside.wait_stream(stream)
        with torch.cuda.stream(aside):
            for _ in range(WARM):
                for work in works:
                    work()
        stream.wait_stream(aside)
        pool, found = torch.cuda.graph_pool_handle(), []
        for work in works:
            recording = torch.cuda.CUDAGraph()
            with torch.cuda.graph(recording, pool=pool):
                work()
            found.append(recording)
    return found
