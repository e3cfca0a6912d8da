"""LiRA on CIFAR-10: a small residual network on random halves of the training set, many times over.

The large recipe has no augmentation, so the network learns its 25,000 pictures by heart in 20 epochs: what it leaks is
of this recipe, and its train and test accuracy stand beside.

Models come in pairs of complementary halves, so every record is in exactly half of them. A target is attacked with
whole pairs other than its own as references. Each finished model is one small file under --work: stop at any time, run
the same command again, and it goes on where it was. Small networks leave a GPU idle: several processes may share the
work, each with its --part, and a last call without one attacks.

    for i in 0 1 2 3; do python benchmarks/membership.py lira ... --part $i/4 & done; wait
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import special

import machine
import networks
import pictures
from tacit import Observations
from tacit.attacks import ATTACKS, joined
from tacit.core import BadInput, Scores

NAMES = ("loss", "calibrated", "rmia", "student", "lira")
FPR = 0.001


@dataclass(frozen=True)
class Recipe:
    """Everything a result depends on; a folder of models holds one recipe."""

    records: int
    test: int
    epochs: int
    width: float
    batch: int
    lr: float
    augment: bool
    seed: int


RECIPES = {
    "tiny": Recipe(200, 50, 1, 0.25, 32, 0.1, augment=True, seed=0),
    "small": Recipe(4000, 1000, 10, 0.5, 128, 0.2, augment=True, seed=0),
    "large": Recipe(50_000, 10_000, 20, 1.0, 512, 0.4, augment=False, seed=0),
}
REFERENCES = {"tiny": (2, 4), "small": (16,), "large": (16, 64)}
TARGETS = {"tiny": 2, "small": 8, "large": 8}


def run(scale: str, device: str, seed: int, work: Path, part: str = "0/1") -> list[dict[str, Any]]:
    """Train what is missing, then attack; another recipe in the folder is refused. A part only trains its share."""
    recipe = Recipe(**{**asdict(RECIPES[scale]), "seed": seed})
    models, targets = max(REFERENCES[scale]) + 2, TARGETS[scale]
    _claim(work, recipe)
    mine, parts = (int(number) for number in part.split("/"))
    _train_missing(recipe, models, device, work, [k for k in range(models) if k % parts == mine])
    if parts > 1:
        return []
    found = [_read(work, k) for k in range(models)]
    return [_attacked(found, recipe, references, targets) for references in REFERENCES[scale]]


def member(recipe: Recipe, models: int) -> NDArray[np.bool_]:
    """Records x models, in pairs of complementary halves; a model's column does not depend on how many there are."""
    columns = []
    for pair in range(models // 2):
        order = np.random.default_rng((recipe.seed, pair)).permutation(recipe.records)
        columns += [order < recipe.records // 2, order >= recipe.records // 2]
    return np.stack(columns, axis=1)


def _claim(work: Path, recipe: Recipe) -> None:
    """The folder's recipe: written the first time, compared ever after."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "recipe.json"
    if not path.exists():  # several parts may start at once
        part = work / f"recipe-{os.getpid()}.part"
        part.write_text(json.dumps(asdict(recipe)), encoding="utf-8")
        part.replace(path)
    if json.loads(path.read_text(encoding="utf-8")) != asdict(recipe):
        raise BadInput(f"The folder {work.name} holds models of another recipe.", fix="Give another --work.")


def _train_missing(recipe: Recipe, models: int, device: str, work: Path, mine: Sequence[int]) -> None:
    missing = [k for k in mine if not (work / f"{k}.npz").exists()]
    if not missing:
        return
    sides = member(recipe, models)
    x, y = _tensors(0, recipe.records, device)
    test = _tensors(1, recipe.test, device)
    for done, k in enumerate(missing, start=1):
        started = time.perf_counter()
        torch.manual_seed(recipe.seed * 100_003 + k)
        model = networks.resnet(10, recipe.width).to(device, memory_format=torch.channels_last)
        rows = torch.as_tensor(np.flatnonzero(sides[:, k]), device=device)
        networks.train(
            model, x[rows], y[rows], epochs=recipe.epochs, lr=recipe.lr, batch=recipe.batch, augment=recipe.augment,
            generator=torch.Generator().manual_seed(recipe.seed * 100_003 + k),
        )  # fmt: skip
        logits = networks.answers(model, x)
        right = (logits.argmax(1) == y).cpu().numpy()
        _write(
            work / f"{k}.npz",
            margin=np.stack([_margin(logits, y), _margin(networks.answers(model, x.flip(3)), y)], axis=1),
            train=right[sides[:, k]].mean(),
            test=(networks.answers(model, test[0]).argmax(1) == test[1]).float().mean().cpu().numpy(),
            machine=machine.processor(device),
        )
        seconds = time.perf_counter() - started
        print(f"model {k} in {seconds:.1f} s, {len(missing) - done} to go", flush=True)


def _tensors(split: int, count: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = pictures.load("cifar10", split, count)
    pixels = torch.as_tensor(pictures.scaled(x)).to(device).contiguous(memory_format=torch.channels_last)
    return pixels, torch.as_tensor(y).to(device)


def _margin(logits: torch.Tensor, y: torch.Tensor) -> NDArray[np.float32]:
    """log p_y - log sum of the others, from logits."""
    own = logits.gather(1, y[:, None])
    others = logits.scatter(1, y[:, None], -torch.inf).logsumexp(1)
    return np.asarray((own[:, 0] - others).float().cpu().numpy())


def _write(path: Path, **arrays: Any) -> None:
    """Whole or not at all."""
    part = path.with_suffix(".part.npz")
    np.savez(part, **arrays)
    os.replace(part, path)  # noqa: PTH105


def _read(work: Path, k: int) -> dict[str, NDArray[Any]]:
    with np.load(work / f"{k}.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def others(target: int, references: int, models: int) -> list[int]:
    """Whole pairs after the target's own, going round."""
    pairs = models // 2
    chosen = [(target // 2 + 1 + step) % pairs for step in range(references // 2)]
    return [2 * pair + side for pair in chosen for side in (0, 1)]


def observed(found: list[dict[str, NDArray[Any]]], sides: NDArray[np.bool_], *, mirrored: bool) -> Observations:
    """Signals from each record's margin: of the picture, or the mean of it and its mirror image if that was learned."""
    queries = slice(None) if mirrored else slice(1)
    margin = np.stack([item["margin"][:, queries].astype(np.float64).mean(1) for item in found], axis=1)
    return Observations(
        member=sides,
        margin=margin,
        loss=np.logaddexp(0.0, -margin),
        probability=special.expit(margin),
        record=np.arange(len(margin)),
    )


def _attacked(found: list[dict[str, NDArray[Any]]], recipe: Recipe, references: int, targets: int) -> dict[str, Any]:
    """Mean over the targets of the true-positive rate at 0.1 %, by attack."""
    seen = observed(found, member(recipe, len(found)), mirrored=recipe.augment)
    row: dict[str, Any] = {
        **asdict(recipe),
        "references": references,
        "targets": targets,
        "trained_on": sorted({str(item["machine"]) for item in found}),
        "train_accuracy": float(np.mean([item["train"] for item in found[:targets]])),
        "test_accuracy": float(np.mean([item["test"] for item in found[:targets]])),
        "attacks": {},
    }
    print(f"{references} references: train {row['train_accuracy']:.1%}, test {row['test_accuracy']:.1%}", flush=True)
    for name in NAMES:
        scores = list(_each(name, seen, references, targets))
        rates = [rate_at(item, FPR) for item in scores]
        area = joined(scores).auc()
        row["attacks"][name] = {"tpr": float(np.mean(rates)), "each": rates, "auc": area.value}
        print(f"  {name:>10}: TPR at {FPR:.1%} FPR {np.mean(rates):.2%}, area {area.value:.3f}", flush=True)
    return row


def _each(name: str, seen: Observations, references: int, targets: int) -> Iterator[Scores]:
    for k in range(targets):
        chosen = others(k, references, seen.models)
        yield ATTACKS[name](seen.select(models=[k]), seen.select(models=chosen))


def rate_at(scores: Scores, fpr: float) -> float:
    """The largest true-positive rate whose false-positive rate is at most `fpr`."""
    roc = scores.roc()
    return float(roc.tpr[roc.fpr <= fpr].max())
