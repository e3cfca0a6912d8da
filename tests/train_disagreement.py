"""What each process of tests/unit/test_train_agreement.py runs: runs in which the second process differs in one way."""

from __future__ import annotations

import functools
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
from tacit.train import Speed, fit, private, terms

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


class Weighted:
    """A loss with a tensor, an attribute and methods; one method calls a function beside it."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def plain(self, model: nn.Module, batch: Any) -> torch.Tensor:
        return self.weight * half(model, batch)


def defaulted(weight: float) -> Any:
    def loss(model: nn.Module, batch: Any, *, weight: float = weight) -> torch.Tensor:
        return weight * half(model, batch)

    return loss


def balanced(weight: float) -> Any:
    shares = torch.tensor([weight, 1.0, 1.0])
    return lambda model, batch: half(model, batch) * shares[batch[1]]


def powers(model: nn.Module, batch: Any, a: float = 1.0, b: float = 1.0) -> torch.Tensor:
    return half(model, batch) * a / b**2


class Scaled(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.inner, self.by = nn.Linear(5, 3), by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.step(x)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.by * self.inner(x)


class Other(Scaled):
    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.by * self.inner(x + 1)


Other.__qualname__, Other.__name__ = Scaled.__qualname__, Scaled.__name__


class Items(torch.utils.data.Dataset[Any]):
    def __init__(self, shift: float) -> None:
        self.shift = shift

    def __len__(self) -> int:
        return 60

    def __getitem__(self, place: int) -> Any:
        return X[place] + self.shift, Y[place]


class Paid:
    def charge(self, event: Any, *, key: str, purpose: str) -> None:
        pass


class Stop(Exception):
    pass


def fitted(differs: bool, way: str, folder: Path) -> None:
    """One call of `fit`, which is given more than a step is."""
    by = 2.0 if differs else 1.0
    models = {"attribute": lambda: Scaled(by), "method of the model": lambda: (Other if differs else Scaled)(1.0)}
    losses = {
        "default of a keyword": lambda: defaulted(by),
        "name of a keyword": lambda: functools.partial(powers, **{"b" if differs else "a": 2.0}),
        "method of an object": lambda: Weighted(by).plain,
        "tensor in a closure": lambda: balanced(by),
    }
    model, given = models.get(way, small)(), {"rng": 7, "loss": losses.get(way, lambda: None)()}

    def late(step: Any, info: Any) -> None:
        if differs and way == "last step" and step.done == 4:
            model[0].weight.data += 1.0
        if way == "other place" and step.done == 2:
            raise Stop

    if differs:
        given |= {"delta": {"delta": 1e-3}, "average": {"average": "ema"}, "seed": {"rng": 8}, "source": {"rng": None},
                  "ledger": {"ledger": Paid()}}.get(way, {})  # fmt: skip
    if way == "checkpoint":
        given["checkpoint"] = None if differs else folder / "one.secret"
    if way == "hook" and differs:
        model[0].register_forward_hook(lambda module, given, made: 2 * made)
    if way == "other place":
        given["checkpoint"] = folder / f"{int(differs)}.secret"
        try:
            fit(model, (X, Y), Plan(**USUAL), progress=late, **given)
        except Stop:
            model, way = small(), ""
    fit(model, Items(by) if way == "items" else (X, Y), Plan(**USUAL), progress=late, **given)


FIT_WAYS = ["delta", "average", "ledger", "seed", "source", "checkpoint", "other place", "last step", "items",
            "attribute", "method of the model", "hook", "default of a keyword", "name of a keyword",
            "method of an object", "tensor in a closure"]  # fmt: skip
PLANS = {"clip_norm": 100.0, "noise_multiplier": 0.1, "steps": 5, "rate": 0.25}
WAYS = [*PLANS, "lr", "momentum", "optimizer", "model", "dropout", "loss", "data", "size", "physical_batch", "noise",
        "version", "drift", "schedule"]  # fmt: skip


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    rank, told = dist.get_rank(), {}
    for way in [*WAYS, "none", *FIT_WAYS]:
        try:
            if way in FIT_WAYS:
                fitted(rank == 1, way, folder)
            else:
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
