"""Black-box, white-box outputs and white-box gradients on CIFAR-100, and five snapshots, later and later.

Nasr et al. 2019, as in the lectures: AlexNet, ResNet, DenseNet; attack accuracy on records of which the attacker was
told nothing. All attackers know the same records and are judged on the same others, so that gains are paired. The loss
threshold and the gradient norm stand beside them, and a fourth attacker who takes gradient steps from the model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import machine
import networks
import pictures
from tacit.attacks import known_split, named, with_snapshots
from tacit.attacks.internals import look_inside
from tacit.attacks.steps import with_steps
from tacit.attacks.threshold import best_threshold
from tacit.attacks.white_box import in_stages
from tacit.core import Observations, Scores

LEARNED = ("learned-black-box", "white-box-outputs", "white-box-gradients")
STEPS = "white-box-gradients, with steps"
ATTACKS = ("loss", "gradient-norm", *LEARNED, STEPS)
STAGES = (2, 3, 5, 6)
"""After which stage each of the learned ones has seen what it may see; all learn in one pass."""
SNAPSHOTS = "snapshots"
SHARES = (0.1, 0.2, 0.5, 1.0)
PUBLISHED = {"alexnet": (74.2, 74.6, 75.1), "resnet": (62.2, 62.2, 64.3), "densenet": (67.7, 67.7, 74.3)}
PUBLISHED_SNAPSHOTS = (57.4, 76.5, 79.5, 85.1)


@dataclass(frozen=True)
class Scale:
    """How much is trained: members, as many non-members, epochs, the networks' width, and epochs of the attacker's."""

    records: int
    epochs: int
    width: float
    batch: int
    steps: int


SCALES = {
    "tiny": Scale(200, 5, 0.1, 32, 2),
    "small": Scale(2500, 30, 0.25, 32, 10),
    "large": Scale(25_000, 60, 1.0, 128, 12),
}


def run(size: str, device: str, seed: int, work: Path, part: str = "0/1") -> list[dict[str, Any]]:
    """One row per architecture, and one for AlexNet's snapshots; finished ones lie in `work`, a part does its share.

    Trained networks lie there too.
    """
    scale, (mine, parts) = SCALES[size], (int(number) for number in part.split("/"))
    files = {name: work / f"white-box-{size}-{seed}-{name}.json" for name in (SNAPSHOTS, *networks.ARCHITECTURES)}
    missing = [name for name in list(files)[mine::parts] if not files[name].exists()]
    if missing:
        work.mkdir(parents=True, exist_ok=True)
        x, y = pictures.load("cifar100", 0, 2 * scale.records)
        data = torch.as_tensor(pictures.scaled(x)), torch.as_tensor(y)
    for name in missing:
        clock = _Clock(name)
        weights = files["alexnet" if name == SNAPSHOTS else name].with_suffix(".pt")
        if name == SNAPSHOTS:
            row = _snapshots(_watched(data, scale, device, seed, weights), scale, seed)
        else:
            row = _architecture(name, _trained(name, data, scale, device, seed, weights), data, scale, seed, clock)
        row |= {"trained_on": machine.processor(device), "seconds": clock.done()}
        files[name].write_text(json.dumps(row), encoding="utf-8")
    return [] if parts > 1 else [json.loads(file.read_text(encoding="utf-8")) for file in files.values()]


class _Clock:
    """Prints how long each stage took."""

    def __init__(self, name: str) -> None:
        self.name, self.start = name, time.perf_counter()
        self.last = self.start

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        print(f"{self.name}: {stage} in {now - self.last:.1f} s", flush=True)
        self.last = now

    def done(self) -> float:
        return round(time.perf_counter() - self.start, 1)


def _architecture(name: str, model: nn.Module, data: Any, scale: Scale, seed: int, clock: _Clock) -> dict[str, Any]:
    """Every attack on one trained network."""
    clock("trained")
    seen = _seen(model, data, scale)
    clock("looked inside")
    _, known = known_split(seen, seed)
    seen = with_steps(
        seen, model, data[0].numpy(), np.isin(seen.need("record"), known.need("record")), rng=seed,
        epochs=scale.steps, learning_rate=networks.LEARNING_RATES[name], batch=scale.batch, move=networks.augmented,
    )  # fmt: skip
    clock("took steps")
    judged, known = known_split(seen, seed)
    guesses = {attack: _guesses(attack, judged, known) for attack in ATTACKS[:2]}
    stages = in_stages(judged, known)
    for attack, after in zip(ATTACKS[2:], STAGES, strict=True):
        scores = Scores(
            stages[after - 1, :, 0], judged.need("member")[:, 0].astype(bool), attack=attack, randomised=False
        )
        guesses[attack] = scores, (scores.score >= 0) == scores.member
    clock("attacked")
    right = (seen.need("logits")[:, 0].argmax(1) == seen.need("label")).astype(float)
    row = {
        "architecture": name,
        "train_accuracy": float(right[: scale.records].mean()),
        "test_accuracy": float(right[scale.records :].mean()),
        "attack_accuracy": {attack: _accuracy(scores, guess) for attack, (scores, guess) in guesses.items()},
        "gains": {f"{b} over {a}": _gain(guesses[a], guesses[b]) for a, b in pairwise(ATTACKS[2:])},
        "judged": judged.records,
        "published": PUBLISHED[name],
    }
    numbers = ", ".join(f"{attack} {value['accuracy']:.2%}" for attack, value in row["attack_accuracy"].items())
    print(f"{name}: train {row['train_accuracy']:.1%}, test {row['test_accuracy']:.1%}; {numbers}", flush=True)
    for what, gain in row["gains"].items():
        print(f"  {what}: {gain['gain']:+.2%} in [{gain['lower']:+.2%}, {gain['upper']:+.2%}]", flush=True)
    return row


def _snapshots(kept: dict[int, Observations], scale: Scale, seed: int) -> dict[str, Any]:
    """Five snapshots, evenly spread up to a share of the training; the attacker sees the gradients in all."""
    results = []
    for epochs in _sets(scale):
        *earlier, last = (kept[epoch] for epoch in epochs)
        found = _accuracy(*_guesses(LEARNED[-1], *known_split(with_snapshots(last, earlier), seed)))
        results.append({"epochs": epochs, **found})
        print(f"alexnet snapshots {epochs}: attack accuracy {found['accuracy']:.1%}", flush=True)
    return {"architecture": "alexnet", "snapshots": results, "published": PUBLISHED_SNAPSHOTS}


def _sets(scale: Scale) -> list[list[int]]:
    """Which epochs are seen, for each share of the training."""
    return [sorted({max(1, round(share * scale.epochs * k / 5)) for k in range(1, 6)}) for share in SHARES]


def _trained(
    name: str, data: Any, scale: Scale, device: str, seed: int, weights: Path, after: Any = lambda model, epoch: None
) -> nn.Module:
    """A trained network, from its file where there is one."""
    torch.manual_seed(seed)
    model = networks.ARCHITECTURES[name](100, scale.width).to(device)
    if weights.exists():
        model.load_state_dict(torch.load(weights, map_location=device, weights_only=True))
        return model.eval()
    x, y = (part[: scale.records].to(device) for part in data)
    networks.train(
        model, x, y, epochs=scale.epochs, lr=networks.LEARNING_RATES[name], batch=scale.batch, augment=True,
        generator=torch.Generator().manual_seed(seed), after=lambda epoch: after(model, epoch),
    )  # fmt: skip
    torch.save(model.state_dict(), weights)
    return model


def _watched(data: Any, scale: Scale, device: str, seed: int, weights: Path) -> dict[int, Observations]:
    """What is seen of AlexNet after some epochs of its training."""
    wanted = {epoch for each in _sets(scale) for epoch in each}
    kept: dict[int, Observations] = {}

    def after(model: nn.Module, epoch: int) -> None:
        if epoch in wanted:
            kept[epoch] = _seen(model, data, scale, layers=[], norm=False)

    weights.unlink(missing_ok=True)
    _trained("alexnet", data, scale, device, seed, weights, after)
    return kept


def _seen(model: nn.Module, data: Any, scale: Scale, **more: Any) -> Observations:
    x, y = (part.numpy() for part in data)
    member = np.arange(len(y)) < scale.records
    batch = 500 if next(model.parameters()).is_cuda else 100
    return look_inside(model, x, y, member=member, record=np.arange(len(y)), batch=batch, **more)


def _guesses(name: str, judged: Observations, known: Observations) -> tuple[Scores, NDArray[np.bool_]]:
    """Scores of judged records and whether each is a right guess; the threshold comes from known ones."""
    attack = named(name)
    if attack.references.of_target:
        scores, threshold = attack(judged, known), 0.0  # log-odds
    else:
        scores, told = attack(judged), attack(known)
        threshold = best_threshold(told.members, told.nonmembers)
    return scores, (scores.score >= threshold) == scores.member


def _accuracy(scores: Scores, right: NDArray[np.bool_]) -> dict[str, float]:
    return {"accuracy": float(right.mean()), "auc": float(scores.auc().value or 0.0)}


def _gain(before: tuple[Scores, NDArray[np.bool_]], after: tuple[Scores, NDArray[np.bool_]]) -> dict[str, float]:
    """How much oftener the second is right on the same records, with a normal interval of 95 % confidence."""
    change = after[1].astype(float) - before[1]
    gain, error = float(change.mean()), float(1.96 * change.std() / np.sqrt(change.size))
    return {"gain": gain, "lower": gain - error, "upper": gain + error}


def ordered(rows: Sequence[dict[str, Any]], slack: float = 0.005) -> bool:
    """The published ordering, up to `slack`: gradients at least outputs, snapshots of later epochs at least earlier."""
    fine = True
    for row in rows:
        if "snapshots" in row:
            series = [item["accuracy"] for item in row["snapshots"]]
        else:
            series = [row["attack_accuracy"][name]["accuracy"] for name in ATTACKS[3:]]
        fine &= all(b >= a - slack for a, b in pairwise(series))
    return fine
