"""Sixteen faults in trainings that are not ours, and their correct twins: one small DP-SGD in numpy, many pipelines.

Every training offers `many`, which makes many runs at once: the same steps, so that a campaign is affordable.
The table has numbers with public ranges, two categories with public lists and some missing values; labels are three
classes. Training is noisy gradient descent on a softmax (Poisson rate 0.5, 20 steps, noise 3, clip 1), whose plan is
the claim. A fault changes the preprocessing (six of them) or the training (ten).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit.loss import Plan

RECORDS, CLASSES, RATE, STEPS, NOISE, LEARNING_RATE = 300, 3, 0.5, 20, 3.0, 4.0
PLAN = Plan(RECORDS, RATE, STEPS, NOISE)
Array = np.ndarray
Prepare = Callable[[Array, Array], Callable[[Array], Array]]
BATCH = RECORDS * RATE


def people(seed: int = 0) -> tuple[Array, Array]:
    """Six numbers between -4 and 4 (the third sometimes missing), two categories, three classes."""
    rng = np.random.default_rng(seed)
    numbers = np.clip(rng.normal(size=(RECORDS, 6)) * [1.0, 1.0, 1.0, 0.7, 0.5, 0.3], -4, 4)
    groups = np.column_stack([rng.integers(0, 4, RECORDS), rng.integers(0, 6, RECORDS)])
    score = numbers[:, 0] + 0.7 * (groups[:, 0] == 1) - 0.7 * (groups[:, 1] == 2) + 0.5 * numbers[:, 3]
    y = np.digitize(score + 0.3 * rng.normal(size=RECORDS), [-0.5, 0.6])
    numbers[rng.random(RECORDS) < 0.1, 2] = np.nan
    return np.hstack([numbers, groups]), y


def encoded(numbers: Array, groups: Array, known: tuple[Array, Array] = (np.arange(4), np.arange(6))) -> Array:
    """Bounded numbers and one column for every known category."""
    return np.hstack([numbers, groups[:, :1] == known[0], groups[:, 1:] == known[1]]) / np.sqrt(3)


def filled(x: Array, value: float | Array = 0.0) -> Array:
    return np.where(np.isnan(x), value, x)


def public(x: Array, y: Array) -> Callable[[Array], Array]:
    """Ranges, lists and fill-in values that were known before."""
    return lambda q: encoded(np.clip(filled(q[:, :6]), -4, 4) / 4, q[:, 6:])


def largest(x: Array, y: Array) -> Callable[[Array], Array]:
    scale = np.nanmax(np.abs(x[:, :6]), axis=0)
    return lambda q: encoded(filled(q[:, :6]) / scale, q[:, 6:])


def standardised(x: Array, y: Array) -> Callable[[Array], Array]:
    mean, spread = np.nanmean(x[:, :6], axis=0), np.nanstd(x[:, :6], axis=0) + 1e-9
    return lambda q: encoded(np.clip((filled(q[:, :6], mean) - mean) / spread, -3, 3) / 3, q[:, 6:])


def vocabulary(x: Array, y: Array) -> Callable[[Array], Array]:
    known = np.unique(x[:, 6]), np.unique(x[:, 7])
    return lambda q: encoded(np.clip(filled(q[:, :6]), -4, 4) / 4, q[:, 6:], known)


def selected(x: Array, y: Array) -> Callable[[Array], Array]:
    """The three numbers that go with the label best, by correlation."""
    told = np.nan_to_num(filled(x[:, :6]) - filled(x[:, :6]).mean(axis=0))
    best = np.argsort(-np.abs(told.T @ (y - y.mean())) / (np.linalg.norm(told, axis=0) + 1e-9))[:3]
    return lambda q: encoded(np.clip(filled(q[:, :6]), -4, 4)[:, best] / 4, q[:, 6:])


def imputed(x: Array, y: Array) -> Callable[[Array], Array]:
    mean = np.nanmean(x[:, :6], axis=0)
    return lambda q: encoded(np.clip(filled(q[:, :6], mean), -1e6, 1e6) / 4, q[:, 6:])


def without_outliers(x: Array, y: Array) -> Array:
    """Rows whose numbers all lie within 2.5 deviations of the mean, both read off the data."""
    numbers = filled(x[:, :6])
    return (np.abs(numbers - numbers.mean(axis=0)) <= 2.5 * numbers.std(axis=0)).all(axis=1)


@dataclass(frozen=True)
class Training:
    """DP-SGD done right; a fault is another value of one field."""

    prepare: Prepare = public
    kept: Callable[[Array, Array], Array] | None = None
    noise: float = NOISE
    clip: float = 1.0
    clip_average: bool = False
    per_class: bool = False
    sampled: bool = True
    seed: int | None = None
    at_once: ClassVar[int] = 300
    isolation: ClassVar[str] = "none"

    def __call__(self, x: Array, y: Array, rng: np.random.Generator) -> Callable[[Array], Array]:
        rng = rng if self.seed is None else np.random.default_rng(self.seed)
        rows = np.ones(len(x), dtype=bool) if self.kept is None else self.kept(x, y)
        how = self.prepare(x[rows], y[rows])
        a = with_one(how(x[rows]))
        weights = self._descended(a, y[rows], rng)
        return lambda q: softmax(with_one(how(q)) @ weights)

    def _descended(self, a: Array, y: Array, rng: np.random.Generator) -> Array:
        weights = np.zeros((a.shape[1], CLASSES))
        for _ in range(STEPS):
            batch = rng.random(len(a)) < RATE if self.sampled else np.ones(len(a), dtype=bool)
            noise = self.noise * rng.normal(size=weights.shape)
            weights = weights - LEARNING_RATE * (self._sum(weights, a[batch], y[batch]) + noise) / BATCH
        return weights

    def many(self, x: Array, y: Array, member: Array, rngs: list[np.random.Generator]) -> Callable[[Array], Array]:
        """What `__call__` does for many runs, those on one data set side by side."""
        alike: dict[bytes, list[int]] = {}
        for run, column in enumerate(member.T):
            alike.setdefault(column.tobytes(), []).append(run)
        parts = [
            (runs, *self._side_by_side(x, y, member[:, runs[0]], [rngs[k] for k in runs])) for runs in alike.values()
        ]

        def predict(q: Array) -> Array:
            told = np.empty((len(rngs), len(q), CLASSES))
            for runs, how, weights in parts:
                told[runs] = softmax(with_one(how(q)) @ weights)
            return told

        return predict

    def _side_by_side(
        self, x: Array, y: Array, mine: Array, rngs: list[np.random.Generator]
    ) -> tuple[Callable[[Array], Array], Array]:
        """How records are prepared, and the weights of all runs on one data set."""
        x, y = x[mine], y[mine]
        rngs = rngs if self.seed is None else [np.random.default_rng(self.seed) for _ in rngs]
        rows = np.ones(len(x), dtype=bool) if self.kept is None else self.kept(x, y)
        how = self.prepare(x[rows], y[rows])
        a, y = with_one(how(x[rows])), y[rows]
        weights = np.zeros((len(rngs), a.shape[1], CLASSES))
        for _ in range(STEPS):
            batch = [rng.random(len(a)) < RATE if self.sampled else np.ones(len(a), dtype=bool) for rng in rngs]
            noise = self.noise * np.stack([rng.normal(size=weights.shape[1:]) for rng in rngs])
            weights = weights - LEARNING_RATE * (self._sums(weights, a, y, np.stack(batch)) + noise) / BATCH
        return how, weights

    def _sums(self, weights: Array, a: Array, y: Array, batch: Array) -> Array:
        error = softmax(a @ weights)
        error[:, np.arange(len(y)), y] -= 1
        error *= batch[:, :, None]
        if self.clip_average:
            mean = a.T @ error / np.maximum(batch.sum(axis=1), 1)[:, None, None]
            size = np.linalg.norm(mean, axis=(1, 2), keepdims=True)
            return batch.sum(axis=1)[:, None, None] * mean * np.minimum(1.0, self.clip / np.maximum(size, 1e-12))
        far = np.abs(error) if self.per_class else np.linalg.norm(error, axis=2, keepdims=True)
        size = np.linalg.norm(a, axis=1)[:, None] * far
        return a.T @ (error * np.minimum(1.0, self.clip / np.maximum(size, 1e-12)))

    def _sum(self, weights: Array, a: Array, y: Array) -> Array:
        error = softmax(a @ weights)
        error[np.arange(len(y)), y] -= 1
        if self.clip_average:
            mean = a.T @ error / max(len(y), 1)
            return len(y) * mean * min(1.0, self.clip / max(np.linalg.norm(mean), 1e-12))
        far = np.abs(error) if self.per_class else np.linalg.norm(error, axis=1)[:, None]
        size = np.linalg.norm(a, axis=1)[:, None] * far
        return a.T @ (error * np.minimum(1.0, self.clip / np.maximum(size, 1e-12)))


def with_one(a: Array) -> Array:
    return np.hstack([a, np.ones((len(a), 1))])


def softmax(logits: Array) -> Array:
    grown = np.exp(np.clip(logits - logits.max(axis=-1, keepdims=True), -700, 0))
    return grown / grown.sum(axis=-1, keepdims=True)


def raw(x: Array, y: Array) -> Callable[[Array], Array]:
    """Numbers as they are, which is right where every gradient is clipped."""
    return lambda q: encoded(filled(q[:, :6]), q[:, 6:])


RIGHT = {"right, public ranges": Training(), "right, raw numbers": Training(raw)}
FAULTS: dict[str, Training] = {
    "scales by the largest value": Training(largest),
    "standardises by the data": Training(standardised),
    "reads its vocabulary off the data": Training(vocabulary),
    "selects features on the data": Training(selected),
    "fills in the data's means": Training(imputed),
    "removes outliers by the data's deviations": Training(kept=without_outliers),
    "no noise": Training(noise=0.0),
    "noise 2 times too small": Training(noise=NOISE / 2),
    "noise 3 times too small": Training(noise=NOISE / 3),
    "noise divided by the batch size again": Training(noise=NOISE / BATCH),
    "no clipping": Training(raw, clip=1e9),
    "clips the average": Training(raw, clip_average=True),
    "clips to ten times the norm": Training(raw, clip=10.0),
    "clips every class by itself": Training(raw, per_class=True),
    "every record in every step": Training(sampled=False),
    "one seed for all runs": Training(seed=7),
}
PREPROCESSING = tuple(FAULTS)[:6]
