"""The whole loop in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ..core import BadInput, Charger, Evidence, Source
from . import checkpoint as checkpoints
from .average import Average
from .batch_norm import Frozen
from .claim import claimed_delta
from .clip.clipper import Loss
from .info import StepInfo
from .models import check_kinds
from .progress import Progress
from .sample.augment import Augment
from .sample.examples import Batch
from .speed import Speed
from .state import check_whole
from .step import PrivateStep, Project, private
from .validation import Validation

if TYPE_CHECKING:
    from ..loss import Plan

# Clipped gradients have norm at most one and noise dominates: plain SGD with a large step and momentum.
LEARNING_RATE = 0.2
MOMENTUM = 0.9
CHECKPOINTS = 10
FINGERPRINT = "parameters_sha256"
Hook = Callable[[PrivateStep, StepInfo], object]


@dataclass(frozen=True, eq=False)
class Trained:
    """A privately trained `model` with its `evidence`; `history` (one entry per step) is for the operator only."""

    model: nn.Module
    evidence: Evidence
    history: tuple[StepInfo, ...]


def fit(
    model: nn.Module,
    data: Any,
    plan: Plan,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    loss: Loss | None = None,
    validation: Any = None,
    ledger: Charger | None = None,
    rng: Source | int | np.random.Generator | None = None,
    speed: Speed = Speed(),  # noqa: B008
    checkpoint: str | Path | None = None,
    delta: float | None = None,
    average: str = "none",
    users: ArrayLike | None = None,
    records_per_user: int | None = None,
    augment: Augment | None = None,
    project: Project | None = None,
    noise: str = "float32",
    progress: bool | Hook = False,
) -> Trained:
    """Train `model` on `data` under `plan` and return it with its evidence.

    `optimizer` defaults to SGD; `validation` are records that are never trained on, in any form that `data` may have:
    the evidence holds the share of right labels, or the mean `loss` where there are none. `checkpoint` names a file
    that is written ten times in a run and taken up again if it exists; it is a secret, destroyed at the end.
    `delta` of the claim defaults to the one that the plan was calibrated for; else to 1e-5, or to a power of ten at
    most 1 / (10 public_size) where that is less.
    `average`: "ema" or "tail" returns an average of the released parameters, which costs no privacy.
    `users` and `records_per_user` make users the unit (see `PrivateStep.batches`); `augment`, `project` and `noise`
    as in `private`. `progress`: True writes a line to standard error, of the first process; a function is called as
    progress(step, info) in every one, so that it may set the learning rate (`step.rank` is 0 in the first).

    Guarantee and Caller ensures: see `private`.
    """
    check_kinds(model=model)
    if optimizer is None:
        moved = [tensor for tensor in model.parameters() if tensor.requires_grad]
        if not moved:
            raise BadInput("No parameter of the model is trainable.", fix="Set requires_grad of those to be trained.")
        optimizer = torch.optim.SGD(moved, lr=LEARNING_RATE, momentum=MOMENTUM)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and not path.parent.is_dir():
        raise BadInput(f"There is no folder {path.parent} for the checkpoint.", fix="Make it first.")
    judge = None if validation is None else Validation.of(validation, model, loss)
    frozen = Frozen(model)
    model.train()
    frozen.keep()
    options = {"augment": augment, "project": project, "noise": noise}
    step = private(model, optimizer, plan, loss=loss, ledger=ledger, rng=rng, speed=speed, **options)
    delta = claimed_delta(plan) if delta is None else delta
    alone = step.rank == 0
    hook = Progress(delta) if progress is True else progress
    mean = Average(average, step.parameters, plan.steps)
    if path is not None:
        check_whole(step)
    if path is not None and path.exists():
        state = checkpoints.read(path)
        step.load_state_dict(state)
        mean.load_state_dict(state.get("average", {}))
    if isinstance(hook, Progress):
        hook.start(step)
    batches = step.batches(data, users=users, records_per_user=records_per_user)
    history = tuple(_run(step, mean, batches, path if alone else None, hook or None))
    mean.apply()
    model.eval()
    found = step.evidence(delta)
    if (mark := fingerprint(model)) is not None:
        found = found.with_(provenance={**found.provenance, FINGERPRINT: mark})
    if judge is not None:
        found = found.with_(utility=judge.utility(model))
    if path is not None and alone:
        checkpoints.destroy(path)
    return Trained(model, found, history)


def fingerprint(model: nn.Module) -> str | None:
    """SHA-256 of all parameters: which model an evidence is about. None where parts of them lie elsewhere."""
    code = hashlib.sha256()
    for name, tensor in model.named_parameters():
        if type(tensor.data) is not Tensor:
            return None
        code.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        code.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return code.hexdigest()


def _run(
    step: PrivateStep, mean: Average, batches: Iterator[Batch], path: Path | None, hook: Hook | None
) -> Iterator[StepInfo]:
    every = max(1, step.plan.steps // CHECKPOINTS)
    for batch in batches:
        info = step(batch)
        mean.update(step.done)
        if hook is not None:
            hook(step, info)
        yield info
        if path is not None and step.done % every == 0 and step.done < step.plan.steps:
            checkpoints.write({**step.state_dict(), "average": mean.state_dict()}, path)
