"""Runs of an audit in a fleet against runs in processes of their own, in one run of this file; prints ratios.

    python benchmarks/audit_fleet.py            (minutes, on the cores that there are)

The trainings are private ones of small networks. Alone a run is made by `tacit.fit` (the library's own loop for one
model), by the fleet's code with one model in it, or by plain numpy where examples/ has that; in the fleet by
`tacit.fleet.Runs`. CPU seconds are those of the workers, start and all; wall seconds are those of the whole call.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import tacit
from machine import describe, keep
from tacit.audits import CANARIES
from tacit.audits.canary import pair
from tacit.audits.runs.batched import Together
from tacit.audits.runs.budget import Budget
from tacit.audits.runs.tasks import Run
from tacit.core import Adjacency, source
from tacit.fleet import Fleet, Runs

REPEATS, ALONE, AMONG = 3, 16, 256
Fit = Callable[..., Any]


def dense(hidden: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(64, hidden), nn.Tanh(), nn.Linear(hidden, 10))


def pictures() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))


CASES = {
    "300 records, 64-16-10, 60 steps of 60": (300, (64,), dense(16), tacit.Plan(300, 0.2, 60, 1.5), False),
    "1,797 records, 64-32-10, 100 steps of 90": (1797, (64,), dense(32), tacit.Plan(1797, 0.05, 100, 1.0), False),
    "1,797 records, 64-32-10, 100 steps of 359": (1797, (64,), dense(32), tacit.Plan(1797, 0.2, 100, 2.375), True),
    "300 pictures, convolution, 60 steps of 60": (300, (1, 8, 8), pictures, tacit.Plan(300, 0.2, 60, 1.5), False),
}


def descent(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=2.0)


def by_fit(make: Callable[[], nn.Module], plan: tacit.Plan) -> Fit:
    """A run as a user of the library writes it."""

    def fit(x: Any, y: Any, rng: np.random.Generator) -> Any:
        model = make()
        data = torch.as_tensor(x), torch.as_tensor(y)
        done = tacit.fit(model, data, plan, optimizer=descent(model.parameters()), rng=rng, delta=1e-5).model.eval()
        return lambda records: done(torch.as_tensor(records)).detach().numpy()

    return fit


def cost(fit: Fit, data: tuple[Any, Any], runs: int, fleet: Together | None) -> tuple[float, float]:
    """CPU and wall seconds of a run."""
    chance = source(1)
    task = Run(fit, pair(*data, CANARIES["blank"], chance.generator(), Adjacency.ADD_REMOVE))
    budget = Budget.of("process", None, chance, None, fleet)
    began, before = time.perf_counter(), _children()
    results = budget.run(task, (np.arange(runs) % 2 == 0).tolist())
    assert not any(result.problem for result in results), results
    return (_children() - before) / runs, (time.perf_counter() - began) / runs


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str) -> dict[str, Any]:
    count, shape, make, plan, plain = CASES[name]
    x, y = load_digits(return_X_y=True)
    data = (x[:count] / 16).astype(np.float32).reshape(count, *shape), y[:count]
    fleet = Runs(Fleet(make, descent), plan)
    ways: dict[str, tuple[Fit, int, bool]] = {
        "fleet": (fleet, AMONG, True),
        "tacit.fit": (by_fit(make, plan), ALONE, False),
        "fleet code, one by one": (fleet, ALONE, False),
    }
    if plain:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        from examples.somebodys_dpsgd import fit as numpy_fit

        ways["numpy"] = (numpy_fit, ALONE, False)
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(REPEATS):
        for way, (fit, runs, many) in ways.items():
            # runs that are compared alone are part of what a fleet costs
            found[way].append(cost(fit, data, runs, Together(fleet.at_once) if many else None))
    cpu = {way: statistics.median(row[0] for row in rows) for way, rows in found.items()}
    wall = {way: statistics.median(row[1] for row in rows) for way, rows in found.items()}
    ratio = {way: cpu[way] / cpu["fleet"] for way in ways if way != "fleet"}
    print(
        name, {way: f"{value * 1e3:.1f} ms" for way, value in cpu.items()}, {k: f"{v:.1f}x" for k, v in ratio.items()}
    )
    wide = {way: wall[way] / wall["fleet"] for way in ways if way != "fleet"}
    return {
        "training": name,
        "cpu_seconds_per_run": cpu,
        "wall_seconds_per_run": wall,
        "cpu_ratio": ratio,
        "wall_ratio": wide,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """For the docs."""
    head = "| training | fleet, CPU ms per run | alone by tacit.fit | ratio | alone by the fleet's code | ratio |"
    lines = [head, "|---|---|---|---|---|---|"]
    for row in rows:
        cpu, ratio = row["cpu_seconds_per_run"], row["cpu_ratio"]
        cells = [row["training"], f"{1e3 * cpu['fleet']:.1f}"]
        for way in ("tacit.fit", "fleet code, one by one"):
            cells += [f"{1e3 * cpu[way]:.0f}", f"{ratio[way]:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    machine = describe("torch", "numpy")
    found = [measure(name) for name in CASES]
    print(table(found))
    print(keep("audit-fleet", machine, found))
