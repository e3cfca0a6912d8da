"""The zoo itself: one small DP-SGD in numpy, done right, and one bug per subclass.

Every variant trains the same network (64-16-10, tanh) by one plan: Poisson rate 0.2, 60 steps, epsilon 4 at delta 1e-5,
public initial parameters. Gradients are kept in factored form, so that a run takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tacit.loss import Plan

RECORDS, HIDDEN, CLASSES, CLIP, LEARNING_RATE = 300, 16, 10, 1.0, 1.0
PLAN = Plan(RECORDS, 0.2, 60, 1.0).calibrated(epsilon=4.0, delta=1e-5)
Arrays = list[np.ndarray]
Predict = Callable[[np.ndarray], np.ndarray]


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


def start(features: int) -> Arrays:
    """The initial parameters, which are public."""
    rng = np.random.default_rng(0)
    shapes = [(features, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    return [rng.uniform(-1, 1, shape) / np.sqrt(shape[0]) for shape in shapes]


def predicted(weights: Arrays, x: np.ndarray) -> np.ndarray:
    """The network's probabilities."""
    w1, b1, w2, b2 = weights
    return softmax(np.tanh(x @ w1 + b1) @ w2 + b2)


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

    def advanced(self, weights: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
        """One step on a batch."""
        gradients = Gradients.of(weights, x, y)
        if self.canary is not None:
            gradients = self.canary.joined(gradients, self.rng)
        shapes = [w.shape for w in weights]
        step = self.update(self.clipped_sum(gradients), self.noise(shapes), len(gradients.errors[0]))
        if self.canary is not None:
            self.seen.append(self.canary.score(step))
        return [w - s for w, s in zip(weights, step, strict=True)]

    def iterates(self, x: np.ndarray, y: np.ndarray) -> Iterator[Arrays]:
        """The parameters after every step."""
        weights = start(x.shape[1])
        for rows in self.batches(len(x)):
            weights = self.advanced(weights, x[rows], y[rows])
            yield weights

    def fit(self, x: np.ndarray, y: np.ndarray) -> Predict:
        *_, last = self.iterates(x, y)
        return partial(predicted, last)

    def steps(self, x: np.ndarray, y: np.ndarray) -> Generator[Predict, tuple[np.ndarray, np.ndarray], None]:
        """For `audit(game="updates")`: the model so far, and each step on the data that it is handed."""
        weights = start(x.shape[1])
        for rows in self.batches(RECORDS + 1):  # a place for one more record, where there is one
            x, y = yield partial(predicted, weights)
            rows = rows[rows < len(x)]
            weights = self.advanced(weights, x[rows], y[rows])
        yield partial(predicted, weights)


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
    """Holds the last fifth of the records out and releases the iterate that is best on them: a choice nobody counts."""

    def fit(self, x, y):
        cut = RECORDS * 4 // 5
        found = [partial(predicted, weights) for weights in self.iterates(x[:cut], y[:cut])]
        right = [(predict(x[cut:]).argmax(axis=1) == y[cut:]).mean() for predict in found]
        return found[int(np.argmax(right))]


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
    "early stopping on validation data": EarlyStopping,
}
