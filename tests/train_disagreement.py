"""What each process of tests/unit/test_train_agreement.py runs: runs in which the second process differs in one way."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from tacit.core import NotFinished, TacitError
from tacit.loss import Plan
from tacit.train import Speed, private, terms

X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
Y = torch.arange(60) % 3
USUAL: dict[str, Any] = {"public_size": 60, "rate": 0.5, "steps": 4, "noise_multiplier": 1.0}


def small(hidden: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, 3))


def half(model: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="none") / 2


def run(differs: bool, way: str) -> None:
    """One run; where `differs`, it is given something else in one way."""

    def pick(name: str, other: Any, usual: Any) -> Any:
        return other if differs and way == name else usual

    plan = Plan(**{**USUAL, **({way: PLANS[way]} if differs and way in PLANS else {})})
    model = small(pick("model", 9, 8))
    if differs and way == "dropout":
        model.insert(2, nn.Dropout(0.5))
    make = pick("optimizer", torch.optim.Adagrad, torch.optim.SGD)
    options = {"momentum": pick("momentum", 0.9, 0.0)} if make is torch.optim.SGD else {}
    optimizer = make(model.parameters(), lr=pick("lr", 0.6, 0.5), **options)
    found = terms.versions
    if differs and way == "version":
        terms.versions = lambda: {**found(), "version.torch": "0.0"}
    try:
        step = private(
            model,
            optimizer,
            plan,
            loss=half if way != "loss" or differs else lambda m, b: half(m, b) / 3,
            rng=7,
            speed=Speed(physical_batch=pick("physical_batch", 8, 4)),
            noise=pick("noise", "grid", "float32"),
        )
        size = pick("size", 57, 60)
        data = (X[:size] + pick("data", 1e-6, 0.0), Y[:size])
        for batch in step.batches(data):
            step(batch)
            if differs and way == "drift" and step.done == 2:
                with torch.no_grad():
                    model[0].weight[0, 0] += 1e-7
            if differs and way == "schedule":
                optimizer.param_groups[0]["lr"] = 0.4
    finally:
        terms.versions = found


PLANS = {"clip_norm": 100.0, "noise_multiplier": 0.1, "steps": 5, "rate": 0.25}
WAYS = [*PLANS, "lr", "momentum", "optimizer", "model", "dropout", "loss", "data", "size", "physical_batch", "noise",
        "version", "drift", "schedule"]  # fmt: skip


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank, told = dist.get_rank(), {}
    for way in [*WAYS, "none"]:
        try:
            run(rank == 1, way)
            told[way] = "accepted"
        except TacitError as error:
            told[way] = str(error)
        dist.barrier()
    (folder / f"{rank}.json").write_text(json.dumps(told), encoding="utf-8")
    dist.barrier()
    if rank == 1:
        os._exit(0)  # a process that dies
    try:
        run(differs=False, way="none")
        lost = "accepted"
    except NotFinished as error:
        lost = str(error)
    (folder / "lost.json").write_text(json.dumps(lost), encoding="utf-8")
    os._exit(0)


if __name__ == "__main__":
    np.random.default_rng(0)
    main(Path(sys.argv[1]))
