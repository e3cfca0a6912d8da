"""A progress line on standard error for the operator.

Examples per second and losses come from the private data without noise, so they are for the operator alone. The epsilon
shown is the cost of the steps so far, not a claim (soundness rule 3).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from .info import StepInfo
    from .step import PrivateStep

PARTS = 10
"""How often epsilon is computed in a run, and how many lines a file gets; a terminal's line is updated every second."""


@dataclass(eq=False)
class Progress:
    """Called after every step with the step and its `StepInfo`; of several processes only the first writes.

    `also` is called before it, in all processes.
    """

    delta: float
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    also: Callable[[PrivateStep, StepInfo], object] | None = None
    _start: float = field(default_factory=time.monotonic, init=False)
    _first: int = field(default=-1, init=False)
    _examples: int = field(default=0, init=False)
    _shown: float = field(default=0.0, init=False)
    _epsilon: float = field(default=0.0, init=False)

    def start(self, step: PrivateStep) -> None:
        """Called before the first step, which may take long."""
        device = next(iter(step.parameters.values())).device
        if step.rank == 0 and step.speed.compiles(step.plan.steps, device):
            self._write("compiling the step, which may take minutes, once", last=True)

    def __call__(self, step: PrivateStep, info: StepInfo) -> None:
        if self.also is not None:
            self.also(step, info)
        if step.rank:
            return
        if self._first < 0:
            self._first = step.done - 1
        self._examples += info.examples
        now, steps = time.monotonic(), step.plan.steps
        part = step.done * PARTS // steps > (step.done - 1) * PARTS // steps
        if part:
            self._epsilon = step.plan.spent(step.done, self.delta).epsilon
        if part or (self.stream.isatty() and now - self._shown > 1):
            self._shown = now
            self._write(self._line(step, info, now - self._start), last=step.done == steps)

    def _line(self, step: PrivateStep, info: StepInfo, seconds: float) -> str:
        done, steps = step.done, step.plan.steps
        left = seconds / (done - self._first) * (steps - done)
        loss = "" if info.loss is None else f"  loss {info.loss:.3f}"
        idle = f"  {info.idle} of {info.examples} gave nothing" if info.idle else ""
        speed = f"{self._examples / max(seconds, 1e-9):,.0f} examples/s"
        count = f"{done:>{len(str(steps))}}/{steps}"
        return f"step {count}  epsilon {self._epsilon:<5.3g}{loss}{idle}  {speed}  {left:.0f} s left"

    def _write(self, line: str, *, last: bool) -> None:
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[2K{line}" + ("\n" if last else ""))
        else:
            self.stream.write(f"{line}\n")
        self.stream.flush()
