"""How much a private step costs: ours, plain PyTorch and Opacus in one process, as ratios of process time.

    python benchmarks/training_speed.py [--workloads cnn mlp transformer lstm] [--repeats 9] [--out FILE]

A step is: take the rows of a fixed batch from the data by number, zero_grad, forward, backward, clip, noise, SGD. Modes
are interleaved, one thread, and the median of the repeats counts. Ratios are to plain PyTorch: eager to eager, compiled
to compiled. Our noise is the same cryptographic stream whether its secret is the operating system's or a seed's: there
is one figure for both.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.loss import Plan
from tacit.train import Speed, private
from tacit.train.sample.examples import Batch, Examples

Step = Callable[[], Any]
NOISE, CLIP = 1.0, 1.0


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, length, width)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Words(nn.Module):
    """A small causal transformer."""

    def __init__(self, vocabulary: int = 10_000, width: int = 256, layers: int = 4, length: int = 128) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).repeat(len(ids), 1)
        return self.head(self.norm(self.blocks(self.embed(ids) + self.place(place))).mean(1))


class Recurrent(nn.Module):
    def __init__(self, lstm: type[nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = (
            nn.Embedding(10_000, 100),
            lstm(100, 128, batch_first=True),
            nn.Linear(128, 2),
        )

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(ids))[0].mean(1))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(600, 1024), nn.Tanh(), nn.Linear(1024, 100))


def ids(rows: int, length: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 10_000, (rows, length)), torch.randint(0, 2, (rows,))


WORKLOADS: dict[str, tuple[Callable[..., nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "cnn": (cnn, lambda: (torch.randn(256, 1, 28, 28), torch.randint(0, 10, (256,)))),
    "mlp": (mlp, lambda: (torch.randn(512, 600), torch.randint(0, 100, (512,)))),
    "transformer": (Words, lambda: ids(32, 128)),
    "lstm": (Recurrent, lambda: ids(64, 64)),
}


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-3)


def plain(make: Callable[[], nn.Module], x: Tensor, y: Tensor, *, compiled: bool = False) -> Step:
    model = make()
    optimizer = sgd(model)
    run = torch.compile(model, dynamic=False) if compiled else model
    rows = torch.arange(len(x))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(run(x[rows]), y[rows]).backward()
        optimizer.step()

    return step


def ours(make: Callable[[], nn.Module], x: Tensor, y: Tensor, *, compiled: bool = False) -> Step:
    model = make()
    rows = len(x)
    plan = Plan(rows, 1.0, 10**6, NOISE, clip_norm=CLIP)
    step = private(model, sgd(model), plan, rng=0, speed=Speed(physical_batch=rows, compile=compiled))
    examples = Examples((x, y), rows, direct=True)
    index = np.arange(rows)
    return lambda: step(step._give(Batch(examples, index, step.done, rows, fixed=True)))


def opacus_hooks(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> Step:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(make())
    optimizer = DPOptimizer(sgd(model), noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=len(x))
    rows = torch.arange(len(x))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()

    return step


def opacus_ghost(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    model = GradSampleModuleFastGradientClipping(make(), max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        sgd(model), noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=len(x)
    )
    criterion = DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss())
    rows = torch.arange(len(x))

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x[rows]), y[rows]).backward()
        optimizer.step()

    return step


def modes(name: str, *, compiled: bool, peers: bool) -> dict[str, Step]:
    """Every way to do one step of a workload."""
    torch.manual_seed(0)
    make, data = WORKLOADS[name]
    x, y = data()
    found = {"plain": plain(make, x, y), "tacit": ours(make, x, y)}
    if compiled and name != "lstm":  # torch does not compile its LSTM either
        found["plain, compiled"] = plain(make, x, y, compiled=True)
        found["tacit, compiled"] = ours(make, x, y, compiled=True)
    if peers:
        theirs = make
        if name == "lstm":
            from opacus.layers import DPLSTM

            theirs = lambda: Recurrent(DPLSTM)  # noqa: E731
        found["opacus hooks"] = opacus_hooks(theirs, x, y)
        found["opacus ghost"] = opacus_ghost(theirs, x, y)
    return found


def measure(steps: dict[str, Step], repeats: int) -> dict[str, dict[str, float]]:
    """Median process time in milliseconds and its ratio to the plain step of the same kind."""
    for step in steps.values():
        for _ in range(3):
            step()
    times: dict[str, list[float]] = {mode: [] for mode in steps}
    for _ in range(repeats):
        for mode, step in steps.items():
            start = time.process_time()
            step()
            times[mode].append(1e3 * (time.process_time() - start))
    found = {}
    for mode, values in times.items():
        base = "plain, compiled" if "compiled" in mode else "plain"
        middle = statistics.median(values)
        found[mode] = {
            "milliseconds": round(middle, 3),
            "ratio": round(middle / statistics.median(times[base]), 3),
            "ratio_of_minima": round(min(values) / min(times[base]), 3),
        }
    return found


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "threads": torch.get_num_threads(),
        "load_at_start": os.getloadavg()[0],
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a private training step against plain PyTorch and Opacus.")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {"machine": machine(), "workloads": {}}
    for name in asked.workloads:
        steps = modes(name, compiled=not asked.no_compile, peers=not asked.no_peers)
        found = measure(steps, asked.repeats)
        results["workloads"][name] = found
        for mode, row in found.items():
            minima = row["ratio_of_minima"]
            print(f"{name:12} {mode:16} {row['milliseconds']:9.2f} ms {row['ratio']:7.2f}x  (minima {minima:.2f}x)")
        if asked.out is not None:
            asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
