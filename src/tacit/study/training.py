"""Private training as one shape, `fit(x, y, rng) -> model`, from a maker, a plan and an optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core import BadInput, check, source
from ..data import Records
from ..fleet import MakeOptimizer
from ..loss import Plan
from ..train import PrivateStep, Speed, Trained, fit
from .experiment import Effort, Experiment
from .planning import planned
from .start import fresh

__all__ = ["experiment", "optimizer", "planned", "scheduled", "speed", "trained"]
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}


SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: (1.0 + math.cos(math.pi * done)) / 2,
}
"""What the learning rate is multiplied with when a share of the steps is done."""


def optimizer(table: dict[str, Any]) -> MakeOptimizer:
    """The optimizer [train] describes, for any parameters; by default SGD with learning rate 0.5."""
    name = str(table.get("optimizer", "sgd"))
    if name not in OPTIMIZERS:
        raise BadInput(f"Optimizer {name!r} is not known.", fix=f"Use one of: {', '.join(OPTIMIZERS)}.")
    checks = {"lr": check.positive, "momentum": check.probability}
    options = {key: checks[key](key, table[key]) for key in checks if key in table}
    if name != "sgd" and "momentum" in options:
        raise BadInput("[train] momentum is for sgd.")
    options.setdefault("lr", 0.5 if name == "sgd" else 1e-3)
    return lambda parameters: OPTIMIZERS[name](parameters, **options)


def scheduled(table: dict[str, Any], descent: torch.optim.Optimizer) -> Callable[[PrivateStep, object], None]:
    """Called after every step: sets the learning rate that [train] schedule gives the next one."""
    name = str(table.get("schedule", "constant"))
    if name not in SCHEDULES:
        raise BadInput(f"Schedule {name!r} is not known.", fix=f"Use one of: {', '.join(SCHEDULES)}.")
    start = [group["lr"] for group in descent.param_groups]

    def adjust(step: PrivateStep, info: object) -> None:
        for group, lr in zip(descent.param_groups, start, strict=True):
            group["lr"] = lr * SCHEDULES[name](step.done / step.plan.steps)

    return adjust


def speed(table: dict[str, Any]) -> Speed:
    """The speed settings of [train]."""
    return Speed(**{key: table[key] for key in ("precision", "compile") if key in table})


def trained(
    make: Callable[[], nn.Module], data: Any, design: Plan, table: dict[str, Any], rng: Any, **more: Any
) -> Trained:
    """One private training run from a fresh model. With `progress` in `more` it says how far it is."""
    chance = source(rng)
    x, y = (np.asarray(part) for part in data)
    model = fresh(make, x, y, chance)
    pair = (torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.int64))
    descent = optimizer(table)(list(model.parameters()))
    adjust: Any = scheduled(table, descent)
    if (shown := more.pop("progress", None)) is not None:
        shown.also, adjust = adjust, shown
    return fit(
        model,
        pair,
        design,
        optimizer=descent,
        rng=chance,
        speed=speed(table),
        average=str(table.get("average", "none")),
        progress=adjust,
        **more,
    )


def experiment(records: Records, attack: Any, audit: Any, rng: Any, note: Callable[[str], None]) -> Experiment:
    """An experiment from [attack] and [audit]; the test accuracy is that on the records that are no members, or on
    every sixth one where `members` is not given."""
    rows = np.arange(len(records.x)) % 6 == 0 if records.members is None else ~records.members
    if rows.all() or not rows.any():
        raise BadInput("`members` must hold both 0 and 1: records to train on, and others to test on.")
    if audit.get("game", "runs") != "runs" or "seconds" in audit:
        raise BadInput(
            "A model of [model] make is audited by the game runs, without seconds.", fix="Say how many runs."
        )
    if "isolation" in audit:
        raise BadInput("`isolation` in [audit] goes with [model] fit: a model of make is trained in fleets of its own.")
    asked: dict[str, Any] = {**attack, **{key: audit[key] for key in ("runs", "canary", "start") if key in audit}}
    if "confidence" in audit:
        asked["audit_confidence"] = audit["confidence"]
    if "attacks" in asked:
        asked["attacks"] = [asked["attacks"]] if isinstance(asked["attacks"], str) else asked["attacks"]
        if not asked["attacks"]:
            raise BadInput("Name at least one attack.")
    if asked.get("canary") == "auto":
        del asked["canary"]
    effort = Effort(targets=min(16, asked.get("references", 48)), **asked)
    held_out = (records.x[rows], records.y[rows])
    groups = None if records.groups is None else records.groups[~rows]
    return Experiment(
        records.x[~rows], records.y[~rows], held_out, source(rng), effort=effort, note=note, groups=groups,
        numbers=np.flatnonzero(~rows),
    )  # fmt: skip
