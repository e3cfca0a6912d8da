"""Defences beside DP-SGD: train, test and attack accuracy with and without each, on Location-30 and shopping baskets.

Every defence trains the same number of models on random halves of a pool. Some are targets, attacked in turn with all
others as references; attack and threshold are chosen on half of the targets and judged on the rest. The most vulnerable
records are those that an undefended fleet memorises most (Feldman 2020): what an average hides shows on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tacit import Plan, Scores, plan
from tacit.attacks import ATTACKS, exposed, leave_one_out, memorisation
from tacit.attacks.threshold import best_threshold
from tacit.core import Observations, source
from tacit.data.loaders import folder
from tacit.fleet import Epochs, Fleet
from tacit.study.subsets import halves
from tacit.train.recipe.defence import (
    AdversarialRegularisation,
    Defence,
    EarlyStopping,
    LabelSmoothing,
    Mixup,
    Plain,
    defend,
)

NAMES = ("loss", "modified-entropy-per-class", "shadow", "calibrated", "rmia", "lira", "student")
PUBLISHED = "Purchase100, train / test / attack: 100 / 80.1 / 67.6 without, 92.2 / 76.5 / 51.6 with"
DELTA = 1e-4


@dataclass(frozen=True)
class Task:
    """A data set, the network for it, and how much is trained."""

    file: str
    label: str
    pool: int
    reference: int
    hidden: int
    epochs: int
    models: int
    targets: int = 8
    fleet: int = 32
    vulnerable: int = 100


TASKS = {
    "tiny": {"location30": Task("location30", "y", 300, 100, 16, 2, 4, 2, 32, 10)},
    "small": {
        "location30": Task("location30", "y", 3000, 1000, 128, 40, 16),
        "baskets600": Task("online_retail_baskets600", "y100", 3000, 1000, 128, 40, 12),
    },
}
TASKS["large"] = TASKS["small"]
DEFENCES: dict[str, Defence | float] = {
    "none": Plain(),
    "early stopping": EarlyStopping(),
    "label smoothing": LabelSmoothing(0.2),
    "mixup": Mixup(1.0),
    "adversarial regularisation": AdversarialRegularisation(1.0),
    "DP-SGD, epsilon 8": 8.0,
    "DP-SGD, epsilon 2": 2.0,
}


@dataclass(frozen=True)
class Data:
    """A pool that members are drawn from, records for the defender, and records for nobody but the test."""

    pool: tuple[NDArray[np.float32], NDArray[np.int64]]
    reference: tuple[NDArray[np.float32], NDArray[np.int64]]
    test: tuple[NDArray[np.float32], NDArray[np.int64]]

    @classmethod
    def load(cls, task: Task, seed: int) -> Data:
        with np.load(folder() / f"{task.file}.npz") as arrays:
            x, y = arrays["x"].astype(np.float32), arrays[task.label].astype(np.int64)
        order = np.random.default_rng(seed).permutation(len(y))
        cuts = np.split(order, [task.pool, task.pool + task.reference, task.pool + task.reference + 3000])[:3]
        return cls(*((x[rows], y[rows]) for rows in cuts))


def run(scale: str, name: str, seed: int) -> list[dict[str, Any]]:
    """One table for a data set, with its most memorised records."""
    task = TASKS[scale][name]
    data = Data.load(task, seed)
    chosen, worst = _vulnerable(task, data, seed)
    print(f"{name}: most memorised records {[item['record'] for item in worst]}", flush=True)
    table = [_row(defence, kind, task, data, chosen, seed) for defence, kind in DEFENCES.items()]
    return [{"data": name, "defences": table, "most_memorised": worst, "published": PUBLISHED}]


def _network(task: Task, data: Data) -> Callable[[], nn.Module]:
    features, classes = data.pool[0].shape[1], int(data.pool[1].max()) + 1
    return lambda: nn.Sequential(nn.Linear(features, task.hidden), nn.Tanh(), nn.Linear(task.hidden, classes))


def _adam(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3)


def _vulnerable(task: Task, data: Data, seed: int) -> tuple[NDArray[np.intp], list[dict[str, float]]]:
    """Rows that an undefended fleet memorises most, and ten with estimates from models that did not select them."""
    chance = source(seed)
    member = halves(task.pool, task.fleet, chance)
    models = Fleet(_network(task, data), _adam).train(*data.pool, member, Epochs(task.epochs, 128), rng=chance)
    seen = models.observations(*data.pool, member=member)
    order = np.argsort(-np.nan_to_num(memorisation(seen), nan=-1.0), kind="stable")
    worst = [
        {"record": item.record, "memorisation": item.memorisation.value, "lower": item.memorisation.lower}
        for item in exposed(seen, 10, chance)
    ]
    return order[: task.vulnerable], worst


def _row(
    name: str, kind: Defence | float, task: Task, data: Data, vulnerable: NDArray[np.intp], seed: int
) -> dict[str, Any]:
    chance = source(seed + 1)
    member = halves(task.pool, task.models, chance)
    logits, test = _trained(kind, task, data, member, chance)
    right = logits.argmax(2) == data.pool[1][:, None]
    seen = Observations.from_logits(logits, data.pool[1], member=member)
    scores = {each: leave_one_out(ATTACKS[each], seen, range(task.targets)) for each in NAMES}
    everyone, attack = _accuracy(scores, task.targets)
    rows = np.isin(scores[attack].record, vulnerable)
    some, _ = _accuracy({each: item.take(np.flatnonzero(rows)) for each, item in scores.items()}, task.targets)
    found = {
        "defence": name,
        "train_accuracy": float(right[member].mean()),
        "test_accuracy": test,
        "attack_accuracy": everyone,
        "attack": attack,
        "tpr_at_1_percent": scores["lira"].tpr(0.01).value,
        "attack_accuracy_vulnerable": some,
    }
    print(
        f"  {name:>27}: train {found['train_accuracy']:.1%}, test {test:.1%}, attack {everyone:.1%} ({attack}); "
        f"LiRA TPR at 1 % {found['tpr_at_1_percent'] or 0:.1%}; most vulnerable records: attack {some:.1%}",
        flush=True,
    )
    return found


def _trained(
    kind: Defence | float, task: Task, data: Data, member: NDArray[np.bool_], chance: Any
) -> tuple[NDArray[np.float64], float]:
    """Logits of all models on the pool, and their mean test accuracy."""
    make, (x, y) = _network(task, data), data.pool
    if isinstance(kind, float):
        design: Plan = plan(task.pool // 2, epsilon=kind, delta=DELTA, epochs=30, batch_size=min(256, task.pool // 4))
        fleet = Fleet(make, lambda parameters: torch.optim.SGD(parameters, lr=2.0))
        models = fleet.train(x, y, member, design, rng=chance)
        return models.logits(x), float(models.accuracy(*data.test).mean())
    logits, accuracy = [], []
    for rows in member.T:
        torch.manual_seed(int(chance.integers(2**31)))
        model = defend(
            make(), (x[rows], y[rows]), kind, epochs=task.epochs, batch_size=128, reference=data.reference, rng=chance
        )
        with torch.no_grad():
            logits.append(model(torch.as_tensor(x)).double().numpy())
            accuracy.append(float((model(torch.as_tensor(data.test[0])).argmax(1).numpy() == data.test[1]).mean()))
    return np.stack(logits, axis=1), float(np.mean(accuracy))


def _accuracy(scores: dict[str, Scores], targets: int) -> tuple[float, str]:
    """Balanced accuracy of the attack, and at the threshold, that does best on the first half of the targets."""
    found = {}
    for name, item in scores.items():
        first = item.target < targets // 2
        told, judged = item.take(np.flatnonzero(first)), item.take(np.flatnonzero(~first))
        threshold = best_threshold(told.members, told.nonmembers)
        found[name] = tuple(
            ((part.members >= threshold).mean() + (part.nonmembers < threshold).mean()) / 2 for part in (told, judged)
        )
    best = max(found, key=lambda name: found[name][0])
    return float(found[best][1]), best
