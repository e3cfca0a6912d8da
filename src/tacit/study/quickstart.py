"""The whole flow on data that comes with scikit-learn: a plain and a private model, attacked, audited, reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from ..core import Evidence, Source, source
from ..data import load
from ..fleet import Epochs
from ..loss import Plan
from ..reports import report
from .experiment import Experiment
from .recipe import Effort, Recipe
from .sealing import KEY_FILE, sealed


@dataclass(frozen=True)
class Settings:
    """Public choices of the quickstart; small enough for a laptop, large enough to say something."""

    records: int = 1500
    epsilon: float = 4.0
    delta: float = 1e-5
    rate: float = 0.2
    steps: int = 100
    epochs: int = 40
    effort: Effort = field(default_factory=lambda: Effort(runs=1200, audit_confidence=0.995))
    plain_runs: int = 240


@dataclass(frozen=True)
class Outcome:
    """The evidence for both models and the page that shows it."""

    plain: Evidence
    private: Evidence
    page: Path
    sentence: str


def quickstart(
    folder: str | Path = "tacit-quickstart",
    *,
    rng: Source | int | np.random.Generator | None = None,
    settings: Settings | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Train, attack, audit and report; writes report.html, plain.json, private.json, the private model's weights, and
    the key of the data's hash."""
    folder, s, chance = Path(folder), settings or Settings(), source(rng)
    folder.mkdir(parents=True, exist_ok=True)
    data = load("digits")
    pool, rest = np.split(chance.permutation(len(data.x)), [s.records])
    test = (data.x[rest], data.y[rest])
    groups = np.array([f"digit {label}" for label in data.y[pool]])
    private_side = Experiment(data.x[pool], data.y[pool], test, chance, s.delta, s.effort, note, groups, pool)
    plain_side = replace(private_side, effort=replace(s.effort, runs=s.plain_runs))
    plan = Plan(s.records // 2, s.rate, s.steps, 1.0).calibrated(epsilon=s.epsilon, delta=s.delta)
    with one_thread():
        plain, _ = plain_side.bracket(Recipe("digits, plain", network, small_steps, Epochs(s.epochs, 32)))
        private, released = private_side.bracket(Recipe("digits, private", network, large_steps, plan))
    plain, private = (sealed(item, data.x, data.y, folder / KEY_FILE) for item in (plain, private))
    plain.save(folder / "plain.json")
    private.save(folder / "private.json")
    if released is not None:
        save_file(released.model.state_dict(), folder / "private-model.safetensors")
    page = report([plain, private], folder / "report.html")
    return Outcome(plain, private, Path(page.path), page.sentence)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from threads, and threads that wait for each other take minutes when others work
    on the machine too (415 s instead of 51 s on two busy cores)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def network() -> nn.Module:
    """64 pixels, 32 hidden units, 10 digits."""
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def small_steps(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """What one would use without privacy."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def large_steps(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """Clipped gradients are short and noise averages out: a large learning rate without momentum."""
    return torch.optim.SGD(parameters, lr=2.0)
