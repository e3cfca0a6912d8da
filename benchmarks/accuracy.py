"""How accurate private models are: python benchmarks/accuracy.py [NAME ...] [--seeds 3] [--validation] [--again]

Every run: delta 1e-5, epsilon by our own accountant, all training records, test accuracy. The settings were chosen
on the last tenth of the training records (`--validation` trains without it and reports on it); that choice is not in
epsilon. Data come from the folder that TACIT_DATA names. Features and checkpoints are kept in TACIT_CACHE, by default a
temporary folder: a run that was stopped goes on. Results: results/accuracy.json, one row per name and seed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import machine
import pictures
import tacit
from tacit.data.loaders import folder
from tacit.loss import Plan
from tacit.train import Augment, Speed, fit, flip_and_crop
from tacit.train.recipe.scattering import Scattering

DELTA = 1e-5
CACHE = Path(os.environ.get("TACIT_CACHE", Path(tempfile.gettempdir()) / "tacit-features"))
RESULT = machine.RESULTS / "accuracy.json"
PIXELS = {"mnist": (33.0, 79.0), "cifar10": (pictures.MEAN, pictures.SPREAD)}
"""Mean and spread as everybody quotes them: public, though once computed from the records."""


@dataclass(frozen=True)
class Run:
    """One row of the table. `wanted` is the accuracy aimed at; `batch` and `epochs` make rate and steps.

    Features are normalised record by record in `groups` of channels, or, with `means`, taken as roots in units of their
    channel's mean; the means are released with that noise multiplier, and paid for.
    """

    data: str
    epsilon: float
    wanted: float
    model: str
    batch: int
    epochs: int
    lr: float
    momentum: float = 0.9
    clip_norm: float = 0.1
    clipping: str = "flat"
    average: str = "ema"
    groups: int = 27
    means: float = 0.0
    pixels: bool = False
    versions: int = 1
    physical_batch: int | None = None
    precision: str = "float32"


# De et al. 2022, with their learning rates and numbers of steps: a wide residual network on augmented images. The
# exact account lets smaller samples have their ratio of noise to sample (10 / 4096 and 3 / 4096), at less work.
SCRATCH: dict[str, Any] = {"momentum": 0.0, "clip_norm": 1.0, "pixels": True, "precision": "bfloat16"}
RUNS = {
    "mnist-1": Run("mnist", 1.0, 0.98, "linear", 4096, 20, 4.0),
    "mnist-3": Run("mnist", 3.0, 0.987, "linear", 4096, 80, 0.4, clip_norm=1.0),
    "fashion-3": Run("fashion_mnist", 3.0, 0.89, "linear", 8192, 40, 16.0),
    "mnist-3-pixels": Run("mnist", 3.0, 0.981, "small", 2048, 60, 2.0, pixels=True),
    "cifar10-3": Run("cifar10", 3.0, 0.69, "convolution", 8192, 60, 6.0, means=8.0, precision="bfloat16"),
    "cifar10-1-pixels": Run("cifar10", 1.0, 0.55, "wide", 1024, 18, 2.0, versions=8, physical_batch=1120, **SCRATCH),
    "cifar10-8-pixels": Run("cifar10", 8.0, 0.74, "wide", 2048, 61, 4.0, versions=4, physical_batch=1088, **SCRATCH),
}


def linear(channels: int, side: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * side**2, 10))


def convolution(channels: int, side: int) -> nn.Module:
    """Two small convolutions on the features, as in Tramer and Boneh 2021, with norms after the activations."""
    return nn.Sequential(
        nn.Conv2d(channels, 64, 3, padding=1),
        nn.ReLU(),
        nn.GroupNorm(16, 64),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.GroupNorm(16, 64),
        nn.Flatten(),
        nn.Linear(64 * (side // 2) ** 2, 10),
    )


def small(channels: int, side: int) -> nn.Module:
    """Tramer and Boneh 2021, table 7: their network for 28 x 28 pixels."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 8, 2, padding=2),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.Tanh(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.LazyLinear(32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


class Unit(nn.Module):
    """A residual unit whose norms come after the activations, as in De et al. 2022, without standardised weights."""

    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*_convolved(fan_in, fan_out, 3, stride), *_convolved(fan_out, fan_out, 3, 1))
        self.skip = nn.Sequential(*_convolved(fan_in, fan_out, 1, stride)) if fan_in != fan_out else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x) + self.body(x)


def _convolved(fan_in: int, fan_out: int, kernel: int, stride: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    return nn.ReLU(), nn.GroupNorm(16, fan_in), nn.Conv2d(fan_in, fan_out, kernel, stride, kernel // 2)


def wide(channels: int, side: int) -> nn.Module:
    """WRN-16-4: 16 layers, four times as wide."""
    layers: list[nn.Module] = [nn.Conv2d(channels, 16, 3, 1, 1)]
    for fan_in, fan_out, stride in ((16, 64, 1), (64, 128, 2), (128, 256, 2)):
        layers += [Unit(fan_in, fan_out, stride), Unit(fan_out, fan_out, 1)]
    model = nn.Sequential(
        *layers, nn.ReLU(), nn.GroupNorm(16, 256), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
            nn.init.zeros_(module.bias)
    return model


MODELS: dict[str, Callable[[int, int], nn.Module]] = {
    "linear": linear, "convolution": convolution, "small": small, "wide": wide,
}  # fmt: skip


def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x_train (n, colours, height, width) u8, y_train, x_test, y_test."""
    if name.startswith("cifar"):
        return *pictures.load(name, 0), *pictures.load(name, 1)
    with np.load(folder() / f"{name}.npz") as found:
        return found["x_train"][:, None], found["y_train"], found["x_test"][:, None], found["y_test"]


def features(name: str, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scattering features of all images, in float16, made once."""
    path = CACHE / f"{name}.npz"
    if not path.exists():
        x_train, y_train, x_test, y_test = images(name)
        scattering = Scattering(*x_train.shape[2:]).to(device)
        made = {"x_train": transformed(x_train, scattering), "y_train": y_train}
        made |= {"x_test": transformed(x_test, scattering), "y_test": y_test}
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, **made)
        partial.rename(path)
    found = np.load(path)
    return tuple(torch.from_numpy(found[key]) for key in ("x_train", "y_train", "x_test", "y_test"))


def transformed(x: np.ndarray, scattering: Scattering, rows: int = 128) -> np.ndarray:
    device = scattering.blur.device
    parts = torch.from_numpy(x).split(rows)
    return torch.cat([scattering(part.to(device).float() / 255).half().cpu() for part in parts]).numpy()


def normalised(x: Tensor, groups: int, rows: int = 2048) -> Tensor:
    """Every group of channels of every record to mean 0 and variance 1: no statistic of the data set is used."""
    norm = nn.GroupNorm(groups, x.shape[1], affine=False)
    return torch.cat([norm(part.float()) for part in x.split(rows)])


def channel_means(x: Tensor, noise_multiplier: float, seed: int, least: float = 1e-3) -> Tensor:
    """By the Gaussian mechanism: every record's means, shortened to length one, over a public number of records."""
    own = torch.cat([part.float().mean((2, 3)) for part in x.split(2048)])
    own = own / own.norm(dim=1, keepdim=True).clamp(min=1.0)
    chance = np.random.default_rng((seed, 1))  # not the seed of the model's start, which is public
    noise = torch.from_numpy(chance.standard_normal(own.shape[1], dtype=np.float32)).to(x.device)
    return ((own.sum(0) + noise_multiplier * noise) / len(x)).clamp(min=least)


def roots(x: Tensor, means: Tensor, rows: int = 2048) -> Tensor:
    """2 (sqrt(x / mean) - 1): features are sizes, which spread as they are large; their roots spread alike."""
    return torch.cat([2 * (part.float() / means[:, None, None]).clamp(min=0).sqrt() - 2 for part in x.split(rows)])


def calibrated(plan: Plan, run: Run) -> tuple[Plan, float]:
    """The plan, and epsilon of all that is released."""
    if not run.means:
        plan = plan.calibrated(epsilon=run.epsilon, delta=DELTA)
        return plan, plan.bound(DELTA).epsilon
    low, high = 0.0, run.epsilon
    for _ in range(20):
        middle = (low + high) / 2
        event = tacit.events.Compose(
            (tacit.events.Gaussian(run.means), plan.calibrated(epsilon=middle, delta=DELTA).event)
        )
        total = tacit.epsilon(event, delta=DELTA).upper
        low, high = (middle, high) if total <= run.epsilon else (low, middle)
    plan = plan.calibrated(epsilon=low, delta=DELTA)
    event = tacit.events.Compose((tacit.events.Gaussian(run.means), plan.event))
    return plan, tacit.epsilon(event, delta=DELTA).upper


def prepared(run: Run, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs and labels as the model sees them."""
    if run.pixels:
        x, y, x_test, y_test = images(run.data)
        x, x_test = (torch.from_numpy(pictures.scaled(side, *PIXELS[run.data])) for side in (x, x_test))
        y, y_test = (torch.from_numpy(side.astype(np.int64)) for side in (y, y_test))
        return x, y, x_test, y_test
    x, y, x_test, y_test = features(run.data, device)
    if run.means:
        return x, y.long(), x_test, y_test.long()
    return normalised(x, run.groups), y.long(), normalised(x_test, run.groups), y_test.long()


def measured(name: str, seed: int, *, validation: bool, device: torch.device) -> dict[str, Any]:
    """Train once and say how accurate it is."""
    run = RUNS[name]
    x, y, x_test, y_test = prepared(run, device)
    if validation:
        cut = len(x) * 9 // 10
        x, y, x_test, y_test = x[:cut], y[:cut], x[cut:], y[cut:]
    x, y, x_test, y_test = (side.to(device) for side in (x, y, x_test, y_test))
    if run.means:
        means = channel_means(x, run.means, seed)
        x, x_test = roots(x, means), roots(x_test, means)
    rate = run.batch / len(x)
    plan = Plan(len(x), rate, max(1, round(run.epochs / rate)), 1.0, run.clip_norm, clipping=run.clipping)
    plan, epsilon = calibrated(plan, run)
    torch.manual_seed(seed)
    model = MODELS[run.model](x.shape[1], x.shape[2]).to(device)
    model(x[:1])
    optimizer = torch.optim.SGD(model.parameters(), lr=run.lr, momentum=run.momentum)
    CACHE.mkdir(parents=True, exist_ok=True)
    start, checkpoint = time.process_time(), CACHE / f"{name}-{seed}.ckpt"
    data = {"validation": (x_test, y_test), "checkpoint": checkpoint, "progress": True}
    speed = Speed(physical_batch=run.physical_batch, precision=run.precision)
    augment = Augment(flip_and_crop(), run.versions) if run.versions > 1 else None
    options = {"average": run.average, "speed": speed, "augment": augment}
    done = fit(model, (x, y), plan, optimizer=optimizer, rng=seed, delta=DELTA, **options, **data)
    settings = {"target_epsilon" if key == "epsilon" else key: value for key, value in asdict(run).items()}
    return {
        "name": name,
        "seed": seed,
        "on": "validation" if validation else "test",
        "accuracy": done.evidence.utility["accuracy"],
        "epsilon": epsilon,
        "delta": DELTA,
        "noise_multiplier": plan.noise_multiplier,
        "steps": plan.steps,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "cpu_seconds": round(time.process_time() - start, 1),
        **settings,
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Mean and spread over seeds, beside what was aimed at."""
    for name, run in RUNS.items():
        found = [row["accuracy"] for row in rows if row["name"] == name and row["on"] == "test"]
        if found:
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            told = f"{statistics.mean(found):.2%} +- {spread:.2%} over {len(found)} seeds, wanted {run.wanted:.1%}"
            print(f"{name:12} epsilon {run.epsilon:g}: {told}")
    print("Settings were chosen on a tenth of the training records; that choice is not in epsilon.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(RUNS), metavar="NAME", help=", ".join(RUNS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--validation", action="store_true", help="leave out the last tenth and report on it")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="other settings, to try them")
    parser.add_argument("--again", action="store_true", help="measure what is there already")
    asked = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in asked.names if asked.set else ():
        RUNS[name] = replace(
            RUNS[name], **{key: json.loads(value) for key, value in (one.split("=") for one in asked.set)}
        )
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    for name in asked.names:
        for seed in range(asked.seeds):
            same = [row for row in rows if (row["name"], row["seed"]) == (name, seed)]
            if same and not asked.again and not asked.validation:
                continue
            row = measured(name, seed, validation=asked.validation, device=device)
            print(json.dumps(row))
            if not asked.validation:
                rows = [other for other in rows if other not in same] + [row]
                machine.keep("accuracy", machine.describe("torch", "tacit"), rows)
    table(rows)


if __name__ == "__main__":
    print(f"tacit {tacit.__version__}, torch {torch.__version__}")
    main()
