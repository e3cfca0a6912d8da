"""A zoo of DP-SGD bugs: which of them does a black-box audit refute, and with how many runs?

    python benchmarks/bugs.py [--runs 2000] [--only NAME ...] [--games updates final]

Every variant trains the same small network (64-16-10, tanh, digits, 300 records) by one plan: Poisson rate 0.2, 60
steps, epsilon 4 at delta 1e-5, public initial parameters. The sequential game stops as soon as the claim is refuted at
confidence 1 - 1e-6; the attacker sees predictions of the final model on one canary. Beside it, an observer of all
updates with crafted gradients, a quarter as many runs of each. Results join those that are there; --table prints them
for docs/audits.md. "consistent" is an honest answer: this audit does not see that bug.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from tacit.audits import Played, audit, stated, watch
from tacit.audits.game import balanced, scored
from tacit.core import Evidence, Scores
from tacit.loss import Plan

RECORDS, HIDDEN, CLASSES, CLIP, LEARNING_RATE = 300, 16, 10, 1.0, 1.0
PLAN = Plan(RECORDS, 0.2, 60, 1.0).calibrated(epsilon=4.0, delta=1e-5)
Arrays = list[np.ndarray]


def softmax(logits: np.ndarray) -> np.ndarray:
    grown = np.exp(logits - logits.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Gradients:
    """Per-example gradients of the cross-entropy in factored form: a layer's is the outer product input x error."""

    inputs: Arrays
    errors: Arrays

    @classmethod
    def of(cls, weights: Arrays, x: np.ndarray, y: np.ndarray) -> Gradients:
        w1, b1, w2, b2 = weights
        hidden = np.tanh(x @ w1 + b1)
        error2 = softmax(hidden @ w2 + b2) - np.eye(CLASSES)[y]
        return cls([x, hidden], [error2 @ w2.T * (1 - hidden**2), error2])

    def squares(self) -> Arrays:
        """Squared norms per example of the four parameters (weight, bias, weight, bias)."""
        found = []
        for a, e in zip(self.inputs, self.errors, strict=True):
            bias = (e**2).sum(axis=1)
            found += [bias * (a**2).sum(axis=1), bias]
        return found

    def weighted_sum(self, factors: Arrays) -> Arrays:
        """sum_i f_i g_i for every parameter, each with its own factors."""
        total = []
        for k, (a, e) in enumerate(zip(self.inputs, self.errors, strict=True)):
            total += [a.T @ (factors[2 * k][:, None] * e), (factors[2 * k + 1][:, None] * e).sum(axis=0)]
        return total


def shrink(square: np.ndarray) -> np.ndarray:
    """min(1, C / norm)."""
    return np.minimum(1.0, CLIP / np.sqrt(np.maximum(square, 1e-24)))


@dataclass(frozen=True)
class Canary:
    """A crafted gradient for the observer of all updates: rows of inputs and errors that no record has.

    `present` says whether it is in the data; it is then sampled at the plan's rate like any other record.
    """

    inputs: Arrays
    errors: Arrays
    present: bool

    @classmethod
    def of(cls, kind: str, present: bool) -> Canary:
        """Along the first pixel (always blank) and the last hidden unit; "spread" has equal parts in all tensors."""
        first, second, strength = {
            "first layer": (20.0, 0.0, 1.0),
            "second layer": (0.0, 20.0, 1.0),
            "spread": (1.0, 1.0, 20.0),
            "biases": (0.01, 0.01, 200.0),
        }[kind]
        a1, a2, e1, e2 = np.zeros(64), np.zeros(HIDDEN), np.zeros(HIDDEN), np.zeros(CLASSES)
        a1[0], a2[-1] = first, second
        e1[0], e2[-1] = strength * (first > 0), strength * (second > 0)
        return cls([a1[None], a2[None]], [e1[None], e2[None]], present)

    def joined(self, gradients: Gradients, rng: np.random.Generator) -> Gradients:
        if not self.present or rng.random() >= PLAN.rate:
            return gradients
        pairs = ((gradients.inputs, self.inputs), (gradients.errors, self.errors))
        inputs, errors = ([np.concatenate(part) for part in zip(*pair, strict=True)] for pair in pairs)
        return Gradients(inputs, errors)

    def score(self, step: Arrays) -> float:
        """Inner product of the step with the canary's direction, in units of the clip norm."""
        own = Gradients(self.inputs, self.errors).weighted_sum([np.ones(1)] * 4)
        norm = np.sqrt(sum((g**2).sum() for g in own))
        told = sum(float((s * g).sum()) for s, g in zip(step, own, strict=True)) / norm
        return told * PLAN.expected_batch / LEARNING_RATE


@dataclass
class Training:
    """DP-SGD done right; every bug overrides one method."""

    rng: np.random.Generator
    memory: dict[str, Any] = field(default_factory=dict)
    canary: Canary | None = None
    seen: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Where a subclass may spoil the randomness."""

    def batches(self, n: int) -> list[np.ndarray]:
        return [np.flatnonzero(self.rng.random(n) < PLAN.rate) for _ in range(PLAN.steps)]

    def clipped_sum(self, gradients: Gradients) -> Arrays:
        return gradients.weighted_sum([shrink(sum(gradients.squares()))] * 4)

    def noise(self, shapes: list[tuple[int, ...]]) -> Arrays:
        return [self.rng.normal(0.0, PLAN.noise_multiplier * CLIP, shape) for shape in shapes]

    def update(self, total: Arrays, noise: Arrays, batch: int) -> Arrays:
        return [LEARNING_RATE * (t + n) / PLAN.expected_batch for t, n in zip(total, noise, strict=True)]

    def fit(self, x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        start = np.random.default_rng(0)  # initial parameters are public
        shapes = [(x.shape[1], HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
        weights = [start.uniform(-1, 1, shape) / np.sqrt(shape[0]) for shape in shapes]
        for rows in self.batches(len(x)):
            gradients = Gradients.of(weights, x[rows], y[rows])
            if self.canary is not None:
                gradients = self.canary.joined(gradients, self.rng)
            step = self.update(self.clipped_sum(gradients), self.noise(shapes), len(gradients.errors[0]))
            if self.canary is not None:
                self.seen.append(self.canary.score(step))
            weights = [w - s for w, s in zip(weights, step, strict=True)]
        w1, b1, w2, b2 = weights
        return lambda q: softmax(np.tanh(q @ w1 + b1) @ w2 + b2)


class NoNoiseOnOneLayer(Training):
    def noise(self, shapes):
        drawn = super().noise(shapes)
        return [drawn[0], drawn[1], np.zeros(shapes[2]), np.zeros(shapes[3])]


class NoiseDividedTwice(Training):
    def update(self, total, noise, batch):
        return super().update(total, [n / PLAN.expected_batch for n in noise], batch)


class ClipsTheAverage(Training):
    def clipped_sum(self, gradients):
        ones = np.ones(len(gradients.errors[0]))
        mean = [g / max(len(ones), 1) for g in gradients.weighted_sum([ones] * 4)]
        factor = min(1.0, CLIP / max(np.sqrt(sum((g**2).sum() for g in mean)), 1e-12))
        return [len(ones) * factor * g for g in mean]


class ClipsPerLayer(Training):
    """Each of four tensors to the whole norm, accounted as one: sensitivity 2 instead of 1."""

    def clipped_sum(self, gradients):
        return gradients.weighted_sum([shrink(square) for square in gradients.squares()])


class NoiseDrawnOnce(Training):
    def noise(self, shapes):
        if "noise" not in self.memory:
            self.memory["noise"] = super().noise(shapes)
        return self.memory["noise"]


class ShuffledAsPoisson(Training):
    """A fresh shuffle every epoch, cut into batches: five batches per epoch, each record in exactly one."""

    def batches(self, n):
        found: list[np.ndarray] = []
        while len(found) < PLAN.steps:
            found += np.array_split(self.rng.permutation(n), round(1 / PLAN.rate))
        return found[: PLAN.steps]


class NoiseTimesLearningRateTwice(Training):
    """The noise is added to the step after the step was scaled, and scaled again: here by 0.1."""

    def update(self, total, noise, batch):
        return super().update(total, [0.1 * n for n in noise], batch)


class ClipAfterNoise(Training):
    """Sum, add noise, then clip the noisy sum: one record's gradient is never bounded."""

    def clipped_sum(self, gradients):
        return gradients.weighted_sum([np.ones(len(gradients.errors[0]))] * 4)

    def update(self, total, noise, batch):
        noisy = [t + n for t, n in zip(total, noise, strict=True)]
        norm = np.sqrt(sum((v**2).sum() for v in noisy))
        factor = min(1.0, CLIP * PLAN.expected_batch / norm)
        return [LEARNING_RATE * factor * v / PLAN.expected_batch for v in noisy]


class VarianceForDeviation(Training):
    """N(0, z C) where N(0, (z C)^2) was meant."""

    def noise(self, shapes):
        factor = (PLAN.noise_multiplier * CLIP) ** -0.5
        return [factor * n for n in super().noise(shapes)]


class PrivateBatchSize(Training):
    """Divides by the number of records drawn, which is private, instead of its public expectation."""

    def update(self, total, noise, batch):
        return [LEARNING_RATE * (t + n) / max(batch, 1) for t, n in zip(total, noise, strict=True)]


class BiasesNotClipped(Training):
    def clipped_sum(self, gradients):
        squares = gradients.squares()
        clip, free = shrink(squares[0] + squares[2]), np.ones(len(squares[0]))
        return gradients.weighted_sum([clip, free, clip, free])


class SeedReused(Training):
    """Every run draws the same noise and the same samples."""

    def __post_init__(self):
        self.rng = np.random.default_rng(1234)


class EarlyStopping(Training):
    """Keeps the iterate with the best accuracy on the training data."""

    def fit(self, x, y):
        best, best_score = None, -1.0
        batches = self.batches(len(x))
        for steps in (20, 40, 60):
            self.batches = lambda n, cut=steps: batches[:cut]
            predict = super().fit(x, y)
            score = float((predict(x).argmax(axis=1) == y).mean())
            if score > best_score:
                best, best_score = predict, score
        return best


ZOO: dict[str, type[Training]] = {
    "right": Training,
    "no noise on one layer": NoNoiseOnOneLayer,
    "noise divided by the batch size twice": NoiseDividedTwice,
    "clips the averaged gradient": ClipsTheAverage,
    "clips per layer, accounted flat": ClipsPerLayer,
    "noise drawn once and reused": NoiseDrawnOnce,
    "shuffled batches accounted as Poisson": ShuffledAsPoisson,
    "noise scaled by the learning rate again": NoiseTimesLearningRateTwice,
    "clip after noise": ClipAfterNoise,
    "variance taken for deviation": VarianceForDeviation,
    "divides by the private batch size": PrivateBatchSize,
    "biases not clipped": BiasesNotClipped,
    "seed reused across runs": SeedReused,
    "early stopping on the training data": EarlyStopping,
}


def audited(kind: type[Training], runs: int, confidence: float, seed: int) -> dict[str, Any]:
    x, y = load_digits(return_X_y=True)
    x, y = x[:RECORDS] / 16.0, y[:RECORDS]
    began = time.perf_counter()
    evidence = audit(
        lambda x, y, rng: kind(rng).fit(x, y),
        (x, y),
        claim=PLAN,
        game="sequential",
        canary="auto",
        runs=runs,
        confidence=confidence,
        rng=seed,
    )
    shown = evidence.demonstrations[-1]
    return {
        "verdict": evidence.verdict.value,
        "runs": evidence.provenance["runs_done"],
        "epsilon_at_least": round(shown.bound.epsilon, 3),
        "canary": shown.canary,
        "controls": all(control.passed for control in evidence.controls),
        "seconds": round(time.perf_counter() - began, 1),
    }


CRAFTED = ("spread", "first layer", "second layer", "biases")
STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "sum": lambda steps: float(np.sum(steps)),
    "deviation": lambda steps: float(np.std(steps)),
}
"""Of a run's steps: their sum sees too little noise, their deviation sees noise that comes back."""


def watched(kind: type[Training], runs: int, confidence: float, seed: int) -> dict[str, Any]:
    """An observer of all updates: four crafted gradients in turn, `runs` runs each at most, two statistics of a run.

    Each of the eight tests has an eighth of the error; it ends with the first refutation.
    """
    x, y = load_digits(return_X_y=True)
    x, y = x[:RECORDS] / 16.0, y[:RECORDS]
    claim, best, total = stated(PLAN, delta=1e-5), None, 0
    tests = [(canary, name) for canary in CRAFTED for name in STATISTICS]
    each = 1 - (1 - confidence) / len(tests)
    runs_of = {canary: _Runs(kind, canary, x, y, [seed, place]) for place, canary in enumerate(CRAFTED)}
    for canary, name in tests:
        shown = watch(
            runs_of[canary].batches(STATISTICS[name], runs),
            claim=claim, confidence=each, played=Played("updates", f"{canary}, {name}", runs),
        )  # fmt: skip
        evidence = Evidence(shown[-1].canary, claim, shown)
        if best is None or evidence.lower.bound.epsilon > best.lower.bound.epsilon:
            best = evidence
        if evidence.verdict.value == "refuted":
            break
    total = sum(len(item.played) for item in runs_of.values())
    return {
        "verdict": best.verdict.value,
        "runs": total,
        "epsilon_at_least": round(best.lower.bound.epsilon, 3),
        "canary": best.subject,
    }


class _Runs:
    """Runs with one crafted gradient, played when asked for and kept, so that both statistics read the same ones."""

    def __init__(self, kind: type[Training], canary: str, x: np.ndarray, y: np.ndarray, seed: list[int]) -> None:
        self.kind, self.canary, self.x, self.y = kind, canary, x, y
        self.rng = np.random.default_rng(seed)
        self.coins: list[bool] = []
        self.played: list[list[float]] = []

    def batches(self, statistic: Callable[[list[float]], float], most: int) -> Iterator[Scores]:
        first = 0
        while first < most:
            last = first + (100 if first == 0 else 32)
            self._play(last)
            found, coins = (np.array(part[first:last]) for part in (list(map(statistic, self.played)), self.coins))
            yield scored(found, coins, first=first)
            first = last

    def _play(self, count: int) -> None:
        if count <= len(self.played):
            return
        for coin in balanced(count - len(self.played), self.rng):
            training = self.kind(self.rng, canary=Canary.of(self.canary, bool(coin)))
            training.fit(self.x, self.y)
            self.coins.append(bool(coin))
            self.played.append(training.seen)


def table(result: dict[str, Any]) -> str:
    """The results as a table in Markdown: a row per bug, a column per audit."""
    games = ("final model", "all updates seen")
    rows = ["| training | final model, black box | all updates, crafted gradients |", "|---|---|---|"]
    for name, found in result["bugs"].items():
        cells = [_cell(found[game]) if game in found else "not played" for game in games]
        rows.append(f"| {'**' + name + '**' if name == 'right' else name} | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def _cell(row: dict[str, Any]) -> str:
    if row["verdict"] == "refuted":
        return f"refuted with {row['runs']} runs ({row['canary']})"
    return f"not seen in {row['runs']:,} runs (at least {row['epsilon_at_least']:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--confidence", type=float, default=1 - 1e-6)
    parser.add_argument("--only", nargs="*", choices=list(ZOO), default=list(ZOO))
    parser.add_argument("--games", nargs="*", choices=("updates", "final"), default=["updates", "final"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/bugs.json"))
    parser.add_argument("--table", action="store_true", help="print what is kept, and play nothing")
    given = parser.parse_args()
    if given.table:
        print(table(json.loads(given.out.read_text(encoding="utf-8"))))
        return
    bound = PLAN.bound(1e-5)
    result: dict[str, Any] = {
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "claim": {"epsilon": round(bound.epsilon, 4), "delta": bound.delta, "event": PLAN.event.to_json()},
        "confidence": given.confidence,
        "bugs": {},
    }
    if given.out.is_file():
        result["bugs"] = json.loads(given.out.read_text(encoding="utf-8"))["bugs"]
    for name in given.only:
        found = result["bugs"].setdefault(name, {})
        if "updates" in given.games:
            found["all updates seen"] = watched(ZOO[name], given.runs // 4, given.confidence, seed=1)
        if "final" in given.games:
            found["final model"] = audited(ZOO[name], given.runs, given.confidence, seed=1)
        for game, row in found.items():
            print(f"{name:40s} {game:17s} {row}", flush=True)
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
