"""Private training on a GPU with drawn samples, beside plain training on as many examples, in one run.

    python benchmarks/whole_runs_gpu.py [--cases wrn-4096 gpt2-256 gpt2-32 wrn-16-versions cnn-4096] [--out FILE]

A step of ours draws its sample (Poisson), cuts it into parts, clips, adds noise and lets the optimizer step. Plain
training takes as many examples per step, picked at random, in parts of the same memory, their gradients added up before
the optimizer steps; both in bfloat16, compiled. Rates are examples that count per second of wall time, padding not
among them: the median of some rounds, in turns. The first step, with all that it compiles, is timed apart. Every case
is built in a process of its own, side by side, and timed while the others sleep.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from machine import describe
from tacit.loss import Plan
from tacit.train import Augment, Speed, flip_and_crop, private
from training_speed_gpu import Gpt2, Turns, cnn, losses, sgd, text, wrn

ROUNDS = 5
STEPS = 20_000
"""Of the plan: a long run, which may have parts of several sizes."""


def images(count: int, *shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, *shape), torch.randint(0, 10, (count,))


@dataclass(frozen=True)
class Case:
    """A sample of `sample` records on average, `rows` of them (or of their versions) in memory at once."""

    make: Callable[[], nn.Module]
    data: Callable[[], tuple[Tensor, Tensor]]
    sample: int
    rows: int
    steps: int
    versions: int = 1


CASES = {
    "wrn-4096": Case(wrn, lambda: images(50_000, 3, 32, 32), 4096, 512, 6),
    "wrn-512": Case(wrn, lambda: images(50_000, 3, 32, 32), 512, 640, 30),
    "gpt2-256": Case(Gpt2, lambda: text(20_000), 256, 32, 4),
    "gpt2-32": Case(Gpt2, lambda: text(20_000), 32, 48, 16),
    "wrn-16-versions": Case(wrn, lambda: images(50_000, 3, 32, 32), 256, 512, 6, 16),
    "cnn-4096": Case(cnn, lambda: images(60_000, 1, 28, 28), 4096, 8192, 40),
}


def plain(case: Case, x: Tensor, y: Tensor) -> Iterator[int]:
    """Steps of plain training; each gives how many examples it took."""
    model = case.make().cuda()
    optimizer = sgd(model)
    images = case.sample * case.versions
    rows = min(case.rows, images)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return losses(model(a), b).sum() / images

    run = torch.compile(forward, dynamic=False)
    while True:
        chosen = torch.randint(0, len(x), (images,), device="cuda")
        for part in chosen.split(rows):
            run(x[part], y[part]).backward()
        optimizer.step()
        optimizer.zero_grad()
        yield images


def ours(case: Case, x: Tensor, y: Tensor) -> Iterator[int]:
    """Steps of private training; each gives how many examples its sample held."""
    model = case.make().cuda()
    plan = Plan(len(x), case.sample / len(x), STEPS, 1.0)
    augment = Augment(flip_and_crop(), case.versions) if case.versions > 1 else None
    speed = Speed(physical_batch=case.rows, compile=True, precision="bfloat16")
    loss = lambda model, batch: losses(model(batch[0]), batch[1])  # noqa: E731
    step = private(model, sgd(model), plan, loss=loss, rng=0, speed=speed, augment=augment)
    for batch in step.batches((x, y)):
        step(batch)
        yield len(batch.index) * case.versions


def rate(steps: Iterator[int], count: int) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    taken = sum(next(steps) for _ in range(count))
    torch.cuda.synchronize()
    return taken / (time.perf_counter() - started)


def measured(name: str, turns: Turns) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    case = CASES[name]
    x, y = (part.cuda() for part in case.data())
    ways = {"plain": plain(case, x, y), "tacit": ours(case, x, y)}
    first = {}
    for way, steps in ways.items():
        started = time.perf_counter()
        next(steps)
        torch.cuda.synchronize()
        first[way] = time.perf_counter() - started
        for _ in range(11):  # past the looks at made-up records after the first and the tenth step
            next(steps)
    rates: dict[str, list[float]] = {way: [] for way in ways}
    with turns():
        for _ in range(ROUNDS):
            for way, steps in ways.items():
                rates[way].append(rate(steps, case.steps))
    middle = {way: statistics.median(found) for way, found in rates.items()}
    return {
        "case": name, "examples_per_second": middle, "of_plain": middle["tacit"] / middle["plain"], "rates": rates,
        "first_step_seconds": first, "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }  # fmt: skip


def child(name: str, turns: Turns, results: Any) -> None:
    try:
        results.put((name, measured(name, turns)))
    except BaseException:
        turns.all.abort()  # the others would wait for ever
        results.put((name, None))
        raise


def together(names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    context = get_context("spawn")
    turns, results = Turns(context, len(names)), context.Queue()
    for name in names:
        context.Process(target=child, args=(name, turns, results)).start()
    for _ in names:
        yield results.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=Path("whole-runs-gpu.json"))
    asked = parser.parse_args()
    kept: dict[str, Any] = {"machine": {**describe("torch"), "gpu": torch.cuda.get_device_name()}, "cases": []}
    for name, row in together(asked.cases):
        if row is None:
            raise SystemExit(f"{name} failed.")
        kept["cases"].append(row)
        both = row["examples_per_second"]
        seconds = " and ".join(f"{one:.0f} s" for one in row["first_step_seconds"].values())
        print(f"{name:16} plain {both['plain']:12,.0f} ours {both['tacit']:12,.0f} examples/s  {row['of_plain']:5.2f}  "
              f"first step {seconds}", flush=True)  # fmt: skip
        asked.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
