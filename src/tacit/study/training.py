"""Private training as one shape, `fit(x, y, rng) -> model`, from a maker, a plan and an optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ..core import BadInput, check, source
from ..fleet import MakeOptimizer
from ..loss import Plan
from ..train import PrivateStep, Speed, Trained, fit
from .audit_section import AuditSection
from .fresh_model import fresh
from .planning import planned
from .recipe import Effort

__all__ = ["effort", "optimizer", "planned", "scheduled", "speed", "trained"]
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


def scheduled(table: dict[str, object], descent: torch.optim.Optimizer) -> Callable[[PrivateStep, object], None]:
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


def effort(attack: dict[str, object], audit: AuditSection, *, in_fleets: bool, cost: float, own: int = 64) -> Effort:
    """How much is trained, from [attack] and [audit]. `cost` counts the numbers that pass through a model in
    one run. Unless `train.fit` makes all runs, it makes `own` of them where the cost is small, and fewer where not."""
    asked: dict[str, Any] = {key: attack[key] for key in ("references", "fpr") if key in attack}
    asked |= {"start": audit.start, "audit_confidence": audit.confidence}
    asked |= {} if audit.runs is None else {"runs": audit.runs}
    asked |= {} if audit.canary == "auto" else {"canary": audit.canary}
    if not in_fleets:
        asked["own_runs"] = asked.pop("runs", own if cost < LARGE else 2 * FEWEST)
        asked["fault_runs"] = max(40, min(Effort.fault_runs, asked["own_runs"] // 2))
        asked.setdefault("references", Effort.references if cost < LARGE else 16)
    elif cost <= LARGE:
        runs = asked.get("runs", Effort.runs)
        asked |= {"fault_runs": max(40, min(300, runs // 2)), "own_runs": max(16, min(Effort.own_runs, runs))}
    else:
        asked = {"own_runs": 16, "runs": 500, "references": 16, **asked}
    return Effort(targets=1, **asked)


FEWEST = 24
"""Runs with the canary, and as many without: fewer cannot pass the control of a planted leak (audits.controls)."""
LARGE = 5e7
"""Numbers that pass through a model in one training, beyond which fewer trainings are made."""
