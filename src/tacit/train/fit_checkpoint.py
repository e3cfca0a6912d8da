"""The checkpoint of a `fit`: the state of its step, its average and what it told its operator, in one file."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from ..core import BadInput
from ..core.files import Lasting
from . import checkpoint as checkpoints
from .average import Average
from .info import StepInfo
from .state import DAMAGED, check_whole, saved
from .step import PrivateStep


@dataclass(frozen=True)
class Kept:
    """Where a run is kept. `lasting`: the file stays after the end, until its owner has the results on disk."""

    path: Path
    lasting: bool

    @classmethod
    def of(cls, checkpoint: str | Path | Lasting | None) -> Kept | None:
        if checkpoint is None:
            return None
        path = checkpoint.path if isinstance(checkpoint, Lasting) else Path(checkpoint)
        if not path.name or "\0" in path.name:
            raise BadInput("checkpoint names no file.", fix='Give checkpoint="run.ckpt", say.')
        path = path.absolute()  # the program may change its folder while it trains
        if not path.parent.is_dir():
            raise BadInput(f"There is no folder {path.parent} for the checkpoint.", fix="Make it first.")
        return cls(path, isinstance(checkpoint, Lasting))

    def write(self, step: PrivateStep, mean: Average, history: list[StepInfo]) -> None:
        rows = [[float("nan") if value is None else value for value in astuple(info)] for info in history]
        told = {"average": mean.state_dict(), "kind": mean.kind, "history": torch.tensor(rows, dtype=torch.float64)}
        checkpoints.write({**saved(step), **told}, self.path)

    def take_up(self, step: PrivateStep, mean: Average) -> list[StepInfo]:
        """Restore step and average from the file and return the history so far; empty if there is no file."""
        check_whole(step)
        checkpoints.forget(self.path)
        if not self.path.exists():
            return []
        state = checkpoints.read(self.path)
        step.load_state_dict(state)
        if (kind := state.get("kind", mean.kind)) != mean.kind:
            raise BadInput(f"The state belongs to a run with average {kind!r}, and it is now {mean.kind!r}.")
        try:
            mean.load_state_dict(state.get("average", {}))
            return [_info(row) for row in state.get("history", torch.empty(0)).tolist()]
        except DAMAGED:
            raise BadInput(f"{self.path.name} is damaged: its average or history is of the wrong type.") from None


def _info(row: list[float]) -> StepInfo:
    loss, clipped, examples, idle = row
    return StepInfo(None if loss != loss else loss, None if clipped != clipped else clipped, int(examples), int(idle))
