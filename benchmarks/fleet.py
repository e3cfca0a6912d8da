"""Fleets against an ordinary loop, plain and private, on one machine in one run; prints ratios.

    python benchmarks/fleet.py            (where there is a GPU, model-epochs per second there)

On a processor CPU time, the process's own, without spinning (OMP_WAIT_POLICY=passive); both sides use the same number
of threads. The private loop is the naive one that users write: per-example gradients by vmap, clip, noise.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from machine import describe, keep
from tacit import Plan
from tacit.fleet import Epochs, Fleet

CASES = [("784-32-10", 784, 32, 256, 2048, 48), ("64-32-10", 64, 32, 32, 1024, 256)]


def network(features: int, hidden: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 10))


def optimizer(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def plain_loop(make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor, batch: int) -> None:
    """One model, one epoch, the ordinary way."""
    model = make()
    step = optimizer(list(model.parameters()))
    for rows in torch.randperm(len(x), device=x.device).split(batch):
        step.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        step.step()


def private_loop(make: Callable[[], nn.Module], x: torch.Tensor, y: torch.Tensor, batch: int) -> None:
    """One model, one epoch of naive DP-SGD."""
    model = make()
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    step = optimizer(list(parameters.values()))
    loss = lambda p, a, b: nn.functional.cross_entropy(functional_call(model, p, (a[None],)), b[None])  # noqa: E731
    each_of = vmap(grad(loss), in_dims=(None, 0, 0))
    for _ in range(len(x) // batch):
        rows = torch.rand(len(x), device=x.device) < batch / len(x)
        each = each_of(parameters, x[rows], y[rows])
        norm = sum(value.flatten(1).square().sum(1) for value in each.values()).sqrt()
        factor = (1 / norm).clamp(max=1.0)
        for name, value in parameters.items():
            total = torch.einsum("b,b...->...", factor, each[name]) + torch.randn_like(value)
            value.grad = total / batch
        step.step()


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The least of several: other programs on the machine only ever add."""
    work()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def measure(name: str, features: int, hidden: int, batch: int, records: int, models: int) -> list[dict[str, object]]:
    """Both kinds of training, both ways, for one network."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(records, features)).astype(np.float32), rng.integers(0, 10, records)
    tensors, make = (torch.as_tensor(x), torch.as_tensor(y)), network(features, hidden)
    member, fleet = np.ones((records, models), dtype=bool), Fleet(make, optimizer)
    rows: list[dict[str, object]] = []
    plan = Plan(records, batch / records, records // batch, 1.0)
    for kind, loop, schedule in (("plain", plain_loop, Epochs(1, batch)), ("private", private_loop, plan)):
        theirs = 1e3 * seconds(functools.partial(loop, make, *tensors, batch), 10)
        ours = 1e3 * seconds(functools.partial(fleet.train, x, y, member, schedule, rng=1), 6) / models
        rows.append(
            {"model": name, "batch": batch, "records": records, "models": models, "training": kind,
             "loop_ms": theirs, "fleet_ms": ours, "times_faster": theirs / ours}
        )  # fmt: skip
        text = f"loop {theirs:8.2f} ms per model and epoch, fleet {ours:7.2f} ms, {theirs / ours:5.1f} times faster"
        print(f"{name:>10} batch {batch:>3} {kind:>8}: {text}")
    return rows


def convolutions() -> nn.Module:
    """The small network for MNIST that private training is often shown on: 16 and 32 filters, 26,010 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def model_epochs(work: Callable[[], object], count: float) -> float:
    """Per second, by the clock, all that a second and third call take."""
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return count / min(times[1:])


def private(records: int, batch: int, epochs: int) -> Plan:
    return Plan(records, batch / records, epochs * (records // batch), 1.0)


def measure_gpu(batch: int = 256, records: int = 60_000) -> list[dict[str, object]]:
    """Model-epochs per second of MLP 784-32-10 on a GPU: orders shared and own, one epoch and five."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(records, 784)).astype(np.float32), rng.integers(0, 10, records)
    rows: list[dict[str, object]] = []
    for order, models, epochs in (("shared", 4000, 1), ("shared", 4000, 5), ("own", 1024, 1)):
        fleet = Fleet(
            network(784, 32)(), optimizer, models_at_once=models, device="cuda", order=order, precision="tf32"
        )
        member = np.ones((records, models), dtype=bool)
        for kind, schedule in (("plain", Epochs(epochs, batch)), ("private", private(records, batch, epochs))):
            rate = model_epochs(functools.partial(fleet.train, x, y, member, schedule, rng=1), models * epochs)
            row = {"model": "784-32-10", "batch": batch, "models": models, "training": kind, "order": order}
            rows.append({**row, "epochs": epochs, "precision": "tf32", "model_epochs_per_second": rate})
            print(f"784-32-10 batch {batch} {kind:>8}, {order} order, {epochs} epochs: {rate:,.0f} model-epochs/s")
    return rows


def measure_convolutions(batch: int = 256, models: int = 256, steps: int = 60) -> list[dict[str, object]]:
    """Model-epochs per second of a convolutional network on a GPU, in a fleet and in an eager loop."""
    rng = np.random.default_rng(0)
    records = batch * steps
    x, y = rng.normal(size=(records, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, records)
    tensors, share = (torch.as_tensor(x).cuda(), torch.as_tensor(y).cuda()), records / 60_000
    member, rows = np.ones((records, models), dtype=bool), []
    for kind, loop, schedule, precision in (
        ("plain", plain_loop, Epochs(1, batch), "tf32"),
        ("private", private_loop, private(records, batch, 1), "float32"),
    ):
        theirs = model_epochs(functools.partial(loop, lambda: convolutions().cuda(), *tensors, batch), share)
        fleet = Fleet(convolutions(), optimizer, models_at_once=models, device="cuda", precision=precision)
        ours = model_epochs(functools.partial(fleet.train, x, y, member, schedule, rng=1), models * share)
        row = {"model": "16-32 filters", "batch": batch, "models": models, "training": kind, "precision": precision}
        rows.append({**row, "loop": theirs, "model_epochs_per_second": ours, "times_faster": ours / theirs})
        print(f"16-32 filters {kind:>8}: loop {theirs:.2f}, fleet {ours:.1f} model-epochs/s, {ours / theirs:.0f} times")
    return rows


def main() -> None:
    if torch.cuda.is_available():
        rows = [*measure_gpu(), *measure_convolutions()]
        keep("fleet-gpu", {**describe("torch"), "gpu": torch.cuda.get_device_name()}, rows)
        return
    rows = [row for case in CASES for row in measure(*case)]
    path = keep("fleet-cpu", {**describe("torch"), "threads": torch.get_num_threads()}, rows)
    print(f"kept in {path.name}")


if __name__ == "__main__":
    main()
