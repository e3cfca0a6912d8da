"""Black-box, white-box outputs and white-box gradients on CIFAR-100, and five snapshots, later and later.

Nasr et al. 2019, as in the lectures: AlexNet, ResNet, DenseNet; attack accuracy on records that neither the target nor
the attack network's training saw as such. All three attackers use one network, the same known records, the same judged
ones; the loss threshold and the gradient norm stand beside them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import machine
import networks
import pictures
from tacit.attacks import known_split, named, with_snapshots
from tacit.attacks.internals import look_inside
from tacit.attacks.threshold import best_threshold
from tacit.core import Observations, Scores

ATTACKS = ("loss", "gradient-norm", "learned-black-box", "white-box-outputs", "white-box-gradients")
SNAPSHOTS = "snapshots"
SHARES = (0.1, 0.2, 0.5, 1.0)
PUBLISHED = {"alexnet": (74.2, 74.6, 75.1), "resnet": (62.2, 62.2, 64.3), "densenet": (67.7, 67.7, 74.3)}
PUBLISHED_SNAPSHOTS = (57.4, 76.5, 79.5, 85.1)


@dataclass(frozen=True)
class Scale:
    """How much is trained: members, as many non-members, epochs, and the networks' width."""

    records: int
    epochs: int
    width: float
    batch: int


SCALES = {"tiny": Scale(200, 5, 0.1, 32), "small": Scale(2500, 30, 0.25, 32), "large": Scale(25_000, 60, 1.0, 128)}


def run(size: str, device: str, seed: int, work: Path, part: str = "0/1") -> list[dict[str, Any]]:
    """One row per architecture, and one for AlexNet's snapshots; finished ones lie in `work`, a part does its share."""
    scale, (mine, parts) = SCALES[size], (int(number) for number in part.split("/"))
    files = {name: work / f"white-box-{size}-{seed}-{name}.json" for name in (SNAPSHOTS, *networks.ARCHITECTURES)}
    missing = [name for name in list(files)[mine::parts] if not files[name].exists()]
    if missing:
        work.mkdir(parents=True, exist_ok=True)
        x, y = pictures.load("cifar100", 0, 2 * scale.records)
        data = torch.as_tensor(pictures.scaled(x)), torch.as_tensor(y)
    for name in missing:
        model, kept = _trained(name, data, scale, device, seed)
        row = _snapshots(kept, scale, seed) if kept else _architecture(name, _seen(model, data, scale), scale, seed)
        files[name].write_text(json.dumps({**row, "trained_on": machine.processor(device)}), encoding="utf-8")
    return [] if parts > 1 else [json.loads(file.read_text(encoding="utf-8")) for file in files.values()]


def _architecture(name: str, seen: Observations, scale: Scale, seed: int) -> dict[str, Any]:
    """Every attack on one trained network."""
    judged, known = known_split(seen, seed)
    found = {attack: _accuracy(attack, judged, known) for attack in ATTACKS}
    right = (seen.need("logits")[:, 0].argmax(1) == seen.need("label")).astype(float)
    row = {
        "architecture": name,
        "train_accuracy": float(right[: scale.records].mean()),
        "test_accuracy": float(right[scale.records :].mean()),
        "attack_accuracy": found,
        "judged": judged.records,
        "published": PUBLISHED[name],
    }
    numbers = ", ".join(f"{attack} {value['accuracy']:.1%}" for attack, value in found.items())
    print(f"{name}: train {row['train_accuracy']:.1%}, test {row['test_accuracy']:.1%}; {numbers}", flush=True)
    return row


def _snapshots(kept: dict[int, Observations], scale: Scale, seed: int) -> dict[str, Any]:
    """Five snapshots, evenly spread up to a share of the training; the attacker sees the gradients in all."""
    results = []
    for epochs in _sets(scale):
        *earlier, last = (kept[epoch] for epoch in epochs)
        judged, known = known_split(with_snapshots(last, earlier), seed)
        found = _accuracy("white-box-gradients", judged, known)
        results.append({"epochs": epochs, **found})
        print(f"alexnet snapshots {epochs}: attack accuracy {found['accuracy']:.1%}", flush=True)
    return {"architecture": "alexnet", "snapshots": results, "published": PUBLISHED_SNAPSHOTS}


def _sets(scale: Scale) -> list[list[int]]:
    """Which epochs are seen, for each share of the training."""
    return [sorted({max(1, round(share * scale.epochs * k / 5)) for k in range(1, 6)}) for share in SHARES]


def _trained(name: str, data: Any, scale: Scale, device: str, seed: int) -> tuple[nn.Module, dict[int, Observations]]:
    """A trained network, or what was seen of AlexNet's snapshots."""
    wanted = {epoch for each in _sets(scale) for epoch in each} if name == SNAPSHOTS else set()
    name = "alexnet" if name == SNAPSHOTS else name
    torch.manual_seed(seed)
    model = networks.ARCHITECTURES[name](100, scale.width).to(device)
    kept: dict[int, Observations] = {}

    def after(epoch: int) -> None:
        if epoch in wanted:
            kept[epoch] = _seen(model, data, scale, layers=[], norm=False)

    x, y = (part[: scale.records].to(device) for part in data)
    networks.train(
        model, x, y, epochs=scale.epochs, lr=networks.LEARNING_RATES[name], batch=scale.batch, augment=True,
        generator=torch.Generator().manual_seed(seed), after=after,
    )  # fmt: skip
    return model, kept


def _seen(model: nn.Module, data: Any, scale: Scale, **more: Any) -> Observations:
    x, y = (part.numpy() for part in data)
    member = np.arange(len(y)) < scale.records
    batch = 500 if next(model.parameters()).is_cuda else 100
    return look_inside(model, x, y, member=member, record=np.arange(len(y)), batch=batch, **more)


def _accuracy(name: str, judged: Observations, known: Observations) -> dict[str, float]:
    """Share of right guesses among judged records, half of them members; the threshold comes from known ones."""
    attack = named(name)
    if attack.references.of_target:
        scores, threshold = attack(judged, known), 0.0  # log-odds
    else:
        scores, told = attack(judged), attack(known)
        threshold = best_threshold(told.members, told.nonmembers)
    right = ((scores.score >= threshold) == scores.member).mean()
    return {"accuracy": float(right), "auc": float(_area(scores))}


def _area(scores: Scores) -> float:
    return scores.auc().value or 0.0


def ordered(rows: Sequence[dict[str, Any]], slack: float = 0.01) -> bool:
    """The published ordering, up to `slack`: gradients at least outputs, snapshots of later epochs at least earlier."""
    fine = True
    for row in rows:
        if "snapshots" in row:
            series = [item["accuracy"] for item in row["snapshots"]]
        else:
            series = [row["attack_accuracy"][name]["accuracy"] for name in ATTACKS[3:]]
        fine &= all(b >= a - slack for a, b in pairwise(series))
    return fine
