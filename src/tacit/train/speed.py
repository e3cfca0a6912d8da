"""Settings that change the speed of training and cannot change its privacy claim."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..core import BadInput, check

COMPILE_FROM = 500
"""The number of steps from which "auto" compiles."""


@dataclass(frozen=True)
class Speed:
    """How a step is computed: memory, compilation, number format and processes.

    `physical_batch`: examples held in memory at once, at most; a step's sample is cut into parts of that size. None
    chooses. `compile`: "auto", True or False; "auto" compiles on a GPU for long runs. `precision`: "float32" or
    "bfloat16" (autocast; norms, sums and noise stay in float32). `checkpointing`: True lets a model of transformers
    compute activations again in the backward pass, for less memory and two to three times the time; other models say
    themselves which parts, with torch.utils.checkpoint. Compiled steps keep all activations. `workers`: processes that
    read the records of a data set ahead of time, in the order of the sample; 0 reads them in this one.
    """

    physical_batch: int | None = None
    compile: str | bool = "auto"
    precision: str = "float32"
    checkpointing: bool = False
    workers: int = 0

    def __post_init__(self) -> None:
        if self.physical_batch is not None:
            check.whole("physical_batch", self.physical_batch)
        check.whole("workers", self.workers, least=0)
        if self.compile not in ("auto", True, False):
            raise BadInput("compile must be 'auto', True or False.")
        if self.precision not in ("float32", "bfloat16"):
            raise BadInput("precision must be 'float32' or 'bfloat16'.")
        if self.checkpointing and self.compile is True:
            raise BadInput("A compiled step keeps its activations.", fix="Choose either compile or checkpointing.")

    def compiles(self, steps: int, device: torch.device) -> bool:
        """Whether to compile: as requested, or for "auto" on a GPU and for long runs, since it costs a minute once."""
        if self.compile == "auto":
            return device.type == "cuda" and steps >= COMPILE_FROM and not self.checkpointing
        return bool(self.compile)
