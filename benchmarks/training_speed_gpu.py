"""Examples per second of a private step on a GPU, beside plain PyTorch and the peers that are installed, in one run.

    python benchmarks/training_speed_gpu.py [--workloads gpt2 wrn wrn16 cnn] [--together] [--out FILE]

A step is forward, backward, clip, noise, SGD on one fixed batch. All modes are built, then timed in turns: wall time of
some steps between synchronisations (a tenth of a second or so), the median of five rounds. Ratios are to non-private
training in bfloat16, compiled, and to the fastest non-private mode; "recorded" is compiled with CUDA graphs, as our own
steps are, so that no mode waits for its processor. `--together` builds every workload in a process of its own, side by
side, since building takes minutes, and times one after the other while the rest sleeps.

A private step is compared with ordinary autograd on made-up records after 1, 10, 100 ... steps. Rounds begin behind the
hundredth step of every mode, and the longest step before that but for the first, as a rule such a look, stands beside.

Memory is what a step needs at its peak: of what torch gives out, or, where that is more, of what it took from the GPU
for this mode (a recorded step keeps its own); beside it the peak of building, comparing included. `wrn16` is 32 records
in 16 augmented versions each, counted as 512 images, against plain training on 512 images.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from machine import describe
from tacit.loss import Plan
from tacit.train import Augment, Speed, flip_and_crop, private
from tacit.train.sample.examples import Batch, Examples

Step = Callable[[], Any]
Turn = Callable[[], AbstractContextManager[None]]
WARM = 101
ROUNDS, STEPS = 5, {"gpt2": 5, "wrn": 12, "wrn16": 12, "cnn": 50}
PLAIN = "plain, bf16, compiled"
PEERS = ("vmap, bf16, compiled", "opacus hooks", "opacus ghost")


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
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """The shape of GPT-2 small with an untied head."""

    def __init__(self, vocabulary: int = 50257, width: int = 768, layers: int = 12, length: int = 256) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 12) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        place = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0).expand(len(ids), -1)
        return self.head(self.norm(self.blocks(self.embed(ids) + self.place(place))))


class Unit(nn.Module):
    """A pre-activation residual unit with group norm."""

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(16, fan_in), nn.GroupNorm(16, fan_out)
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.skip = None if fan_in == fan_out else nn.Conv2d(fan_in, fan_out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.first(x))
        straight = x if self.skip is None else self.skip(h)
        return straight + self.conv2(F.relu(self.second(self.conv1(h))))


def wrn() -> nn.Module:
    """WRN-16-4."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    fan_in = 16
    for width, stride in ((64, 1), (128, 2), (256, 2)):
        layers += [Unit(fan_in, width, stride), Unit(width, width, 1)]
        fan_in = width
    return nn.Sequential(
        *layers, nn.GroupNorm(16, fan_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(fan_in, 10)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def text(rows: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 50257, (rows, 256)), torch.randint(0, 50257, (rows, 256))


WORKLOADS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "gpt2": (Gpt2, lambda: text(32)),
    "wrn": (wrn, lambda: (torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))),
    "wrn16": (wrn, lambda: (torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))),
    "cnn": (cnn, lambda: (torch.randn(4096, 1, 28, 28), torch.randint(0, 10, (4096,)))),
}


def losses(logits: Tensor, y: Tensor) -> Tensor:
    """Per example; the mean over tokens for text."""
    if logits.dim() == 3:
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(y.shape).mean(1)
    return F.cross_entropy(logits, y, reduction="none")


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-3)


def plain(
    make: Callable[[], nn.Module], x: Tensor, y: Tensor, *, compiled: bool, reduced: bool = True, recorded: bool = False
) -> Step:
    model = make().cuda()
    optimizer = sgd(model)

    def forward(a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=reduced):
            return losses(model(a), b).mean()

    mode = "reduce-overhead" if recorded else None
    run = torch.compile(forward, dynamic=False, mode=mode) if compiled else forward

    def step() -> None:
        optimizer.zero_grad()
        run(x, y).backward()
        optimizer.step()

    return step


def ours(make: Callable[[], nn.Module], x: Tensor, y: Tensor, *, compiled: bool, rng: Any = 0, times: int = 1) -> Step:
    model, rows = make().cuda(), len(x) // times
    x, y = x[:rows], y[:rows]
    plan = Plan(rows, 1.0, 10**6, 1.0)
    speed = Speed(physical_batch=rows, compile=compiled, precision="bfloat16")
    loss = lambda model, batch: losses(model(batch[0]), batch[1])  # noqa: E731
    augment = Augment(flip_and_crop(), times) if times > 1 else None
    step = private(model, sgd(model), plan, loss=loss, rng=rng, speed=speed, augment=augment)
    examples, index = Examples((x, y), rows, direct=True), np.arange(rows)
    return lambda: step(step._give(Batch(examples, index, step.done, rows, fixed=True)))


def vmapped(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> Step:
    """Per-example gradients by vmap, compiled: the strongest peer on convolutions."""
    model = make().cuda()
    optimizer = sgd(model)

    def loss(parameters: dict[str, Tensor], a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return losses(functional_call(model, parameters, (a[None],)), b[None])[0]

    @torch.compile(dynamic=False)
    def sums(parameters: dict[str, Tensor], a: Tensor, b: Tensor) -> dict[str, Tensor]:
        each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, a, b)
        norm = torch.stack([value.flatten(1).square().sum(1) for value in each.values()]).sum(0).sqrt()
        factor = (1 / norm).clamp(max=1.0)
        return {name: torch.einsum("b,b...->...", factor, value) for name, value in each.items()}

    def step() -> None:
        found = sums({name: value.detach() for name, value in model.named_parameters()}, x, y)
        for name, value in model.named_parameters():
            value.grad = (found[name] + torch.randn_like(value)) / len(x)
        optimizer.step()

    return step


def opacus_hooks(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> Step:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(make().cuda())
    optimizer = DPOptimizer(sgd(model), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(x))

    def step() -> None:
        optimizer.zero_grad()
        losses(model(x), y).mean().backward()
        optimizer.step()

    return step


def opacus_ghost(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    model = GradSampleModuleFastGradientClipping(make().cuda(), max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        sgd(model), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(x)
    )
    criterion = DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        logits = model(x)
        flat = logits.flatten(0, -2), y.flatten()
        criterion(*flat, shape=logits.shape if logits.dim() == 3 else None).backward()
        optimizer.step()

    return step


def modes(make: Callable[[], nn.Module], x: Tensor, y: Tensor) -> dict[str, Callable[[], Step]]:
    small = (x[:8], y[:8]) if x.dtype == torch.int64 else (x, y)
    return {
        "plain, TF32": lambda: plain(make, x, y, compiled=False, reduced=False),
        "plain, TF32, compiled": lambda: plain(make, x, y, compiled=True, reduced=False),
        "plain, bf16": lambda: plain(make, x, y, compiled=False),
        "plain, bf16, compiled": lambda: plain(make, x, y, compiled=True),
        "plain, bf16, compiled, recorded": lambda: plain(make, x, y, compiled=True, recorded=True),
        "tacit, bf16": lambda: ours(make, x, y, compiled=False),
        "tacit, bf16, compiled": lambda: ours(make, x, y, compiled=True),
        "tacit, bf16, compiled, cryptographic": lambda: ours(make, x, y, compiled=True, rng=None),
        "vmap, bf16, compiled": lambda: vmapped(make, *small),
        "opacus hooks": lambda: opacus_hooks(make, *small),
        "opacus ghost": lambda: opacus_ghost(make, *small),
    }


Built = tuple[Step, float, float, float]


def built(build: Callable[[], Step]) -> Built | str:
    """A step, warm; the memory in GiB that building it took at its peak, and that it needs while it runs; the seconds
    of its longest warm step."""
    torch.cuda.empty_cache()
    start, held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    try:
        step = build()
        step()
        longest = max(seconds(step, 1) for _ in range(WARM - 1))
        making = torch.cuda.max_memory_allocated() - start
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        step()
        needs = max(torch.cuda.max_memory_allocated() - start, torch.cuda.memory_reserved() - held)
    except Exception as error:
        traceback.print_exc(limit=-3)
        return type(error).__name__
    return step, making / 2**30, needs / 2**30, longest


def augmented(make: Callable[[], nn.Module], x: Tensor, y: Tensor, times: int) -> dict[str, Callable[[], Step]]:
    return {
        "plain, bf16": lambda: plain(make, x, y, compiled=False),
        "plain, bf16, compiled": lambda: plain(make, x, y, compiled=True),
        "plain, bf16, compiled, recorded": lambda: plain(make, x, y, compiled=True, recorded=True),
        "tacit, bf16, compiled": lambda: ours(make, x, y, compiled=True, times=times),
    }


def seconds(step: Step, steps: int) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps


def measure(
    name: str, wanted: dict[str, Callable[[], Step]], rows: Callable[[str], int], turn: Turn
) -> list[dict[str, Any]]:
    """All modes built first, then timed in turns; the median of the rounds."""
    found: list[dict[str, Any]] = []
    ready: dict[str, Built] = {}
    for mode, build in wanted.items():
        result = built(build)
        if isinstance(result, str):
            found.append({"mode": mode, "failed": result})
        else:
            ready[mode] = result
    times: dict[str, list[float]] = {mode: [] for mode in ready}
    with turn():
        for _ in range(ROUNDS):
            for mode, (step, *_) in ready.items():
                times[mode].append(seconds(step, STEPS[name]))
    for mode, (_, making, running, longest) in ready.items():
        rates = sorted(rows(mode) / taken for taken in times[mode])
        rate = statistics.median(rates)
        found.append({"mode": mode, "examples_per_second": rate, "least": rates[0], "most": rates[-1],
                      "held_gib": running, "peak_gib_first": making, "longest_warm_step": longest})  # fmt: skip
    plains = {row["mode"]: row["examples_per_second"] for row in found if row["mode"].startswith("plain")}
    for row in found:
        if "failed" not in row:
            row["of_plain"] = row["examples_per_second"] / plains[PLAIN] if PLAIN in plains else None
            row["of_fastest_plain"] = row["examples_per_second"] / max(plains.values()) if plains else None
            ratio = f"{row['of_plain']:6.2f} {row['of_fastest_plain']:6.2f}" if PLAIN in plains else ""
            speed, memory = row["examples_per_second"], row["held_gib"]
            print(f"{name:5} {row['mode']:38} {speed:12,.0f} examples/s {ratio}  {memory:6.1f} GiB", flush=True)
    return found


def workload(name: str, only: Sequence[str] | None, turn: Turn = nullcontext) -> list[dict[str, Any]]:
    """All modes of one workload whose names contain one of the words."""
    warnings.simplefilter("ignore")
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    make, data = WORKLOADS[name]
    x, y = (part.cuda() for part in data())
    found = augmented(make, x, y, 16) if name == "wrn16" else modes(make, x, y)
    wanted = {mode: build for mode, build in found.items() if only is None or any(word in mode for word in only)}
    few = 8 if name == "gpt2" else len(x)
    return measure(name, wanted, lambda mode: few if mode in PEERS else len(x), turn)


class Turns:
    """Waits until every process has built its steps, then lets one time its own after the other."""

    def __init__(self, context: Any, count: int) -> None:
        self.all, self.one = context.Barrier(count), context.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.all.wait()
        with self.one:
            yield


def child(name: str, only: Sequence[str] | None, turns: Turns, results: Any) -> None:
    try:
        results.put((name, workload(name, only, turns)))
    except BaseException:
        turns.all.abort()  # the others would wait for ever
        results.put((name, None))
        raise


def together(names: Sequence[str], only: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """Every workload in a process of its own."""
    context = get_context("spawn")
    turns, results = Turns(context, len(names)), context.Queue()
    processes = [context.Process(target=child, args=(name, only, turns, results)) for name in names]
    for process in processes:
        process.start()
    for _ in processes:
        yield results.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--only", nargs="+", default=None, help="modes whose names contain one of these words")
    parser.add_argument("--together", action="store_true", help="build side by side, time one after the other")
    parser.add_argument("--out", type=Path, default=Path("training-speed-gpu.json"))
    asked = parser.parse_args()
    results: dict[str, Any] = {"machine": {**describe("torch"), "gpu": torch.cuda.get_device_name()}, "workloads": {}}
    each = ((name, workload(name, asked.only)) for name in asked.workloads)
    for name, rows in together(asked.workloads, asked.only) if asked.together else each:
        if rows is None:
            raise SystemExit(f"{name} failed.")
        results["workloads"][name] = rows
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
