"""The one list of events for laws over the whole registry: an example of each, and how to draw one at random.

The sweep of `benchmarks/accounting_wild.py` draws from it, too. A test compares it with the registry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.core.events import (
    ZCDP,
    AboveThreshold,
    Allocation,
    ApproximateDP,
    BandedFactorisation,
    BoundedRange,
    Compose,
    CyclicPoisson,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    MatrixFactorisation,
    NoisyMax,
    NonPrivate,
    NoOp,
    ObjectivePerturbation,
    OneOf,
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    Shuffled,
    TruncatedPoisson,
)


class Wild:
    """Random numbers at extremes: noise .01 to 1000, rates 1e-6 to 1, steps to 1e7; and events nested three deep."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def log(self, low: float, high: float) -> float:
        return float(np.exp(self.rng.uniform(math.log(low), math.log(high))))

    def whole(self, low: int, high: int) -> int:
        return round(self.log(low, high))

    def noise(self) -> float:
        return self.log(0.01, 1000.0)

    def epsilon(self) -> float:
        return self.log(0.001, 20.0)

    def reals(self, count: int, low: float = 0.0, high: float = 1.0) -> tuple[float, ...]:
        return tuple(self.rng.uniform(low, high, count).tolist())

    def kind(self, role: str) -> Kind:
        kinds = [kind for kind in KINDS.values() for _ in range(kind.weight) if kind.role == role]
        return kinds[int(self.rng.integers(len(kinds)))]

    def leaf(self) -> Event:
        return self.kind("leaf").draw(self, NoOp())

    def event(self, depth: int = 3) -> Event:
        chance = self.rng.random()
        if depth == 0 or chance < 0.25:
            return self.leaf()
        if chance < 0.5:
            nested = self.rng.random() < 0.3 and depth > 1
            return self.kind("sampling").draw(self, self.event(depth - 2) if nested else self.leaf())
        if chance < 0.75:
            return Repeat(self.event(depth - 1), self.whole(1, 10**7))
        if chance < 0.87:
            return Compose(tuple(self.event(depth - 1) for _ in range(int(self.rng.integers(1, 4)))))
        if chance < 0.92:
            return KINDS["RepeatAndSelect"].draw(self, self.leaf())
        return self.kind("training").draw(self, NoOp())


@dataclass(frozen=True)
class Kind:
    """One kind of event: an example, how to draw one (around an inner event), and how often, relative to others."""

    example: Event
    role: str
    draw: Callable[[Wild, Event], Event]
    weight: int = 1


def _allocation(wild: Wild, inner: Event) -> Event:
    steps = wild.whole(1, 1000)
    return Allocation(wild.whole(1, steps), steps, inner)


def _fixed_size(wild: Wild, inner: Event) -> Event:
    size = wild.whole(2, 10**6)
    return FixedSize(wild.whole(1, size), size, inner)


def _banded(wild: Wild, _: Event) -> Event:
    bands = wild.whole(1, 30)
    return BandedFactorisation(wild.noise(), wild.reals(bands), wild.whole(1, 10**7), wild.whole(1, 99), bands)


def _matrix(wild: Wild, _: Event) -> Event:
    triangle = tuple(wild.reals(row, -1, 2) for row in range(1, int(wild.rng.integers(2, 13))))
    return MatrixFactorisation(wild.noise(), triangle, wild.whole(1, 9), wild.whole(1, 9))


def _cyclic(wild: Wild, _: Event) -> Event:
    bands = wild.whole(1, 30)
    return CyclicPoisson(
        wild.noise(), wild.log(1e-6, 1.0), wild.reals(bands), wild.whole(1, 10**7), bands + wild.whole(1, 99) - 1
    )


def _last_iterate(wild: Wild, _: Event) -> Event:
    smooth, weight = wild.log(0.01, 10), float(wild.rng.choice([0.0, wild.log(1e-4, 1)]))
    return LastIterate(
        wild.noise(), wild.whole(1, 10**6), float(wild.rng.uniform(0, 1.9)) / (smooth + 2 * weight), wild.log(0.1, 9),
        smooth, wild.whole(2, 10**6), float(wild.rng.choice([1.0, wild.log(1e-4, 1)])), weight,
        None if wild.rng.random() < 0.5 else wild.log(0.01, 100),
    )  # fmt: skip


def _selection(wild: Wild, inner: Event) -> Event:
    shape = float(wild.rng.uniform(-0.99, 3)) if wild.rng.random() < 0.8 else None
    return RepeatAndSelect(inner, wild.log(1.01, 1e6), shape)


def _leaf(example: Event, draw: Callable[[Wild], Event], weight: int = 1) -> Kind:
    return Kind(example, "leaf", lambda wild, _: draw(wild), weight)


NOISES = "gumbel", "exponential", "laplace"
KINDS: dict[str, Kind] = {
    "AboveThreshold": _leaf(AboveThreshold(0.3), lambda w: AboveThreshold(w.epsilon())),
    "Allocation": Kind(Allocation(1, 8, Gaussian(2.0)), "sampling", _allocation),
    "ApproximateDP": _leaf(
        ApproximateDP(0.2, 1e-8), lambda w: ApproximateDP(w.epsilon(), float(w.rng.choice([0.0, w.log(1e-20, 1e-3)])))
    ),
    "BandedFactorisation": Kind(BandedFactorisation(3.0, (1.0, 0.5), 7, 3, 2), "training", _banded),
    "BoundedRange": _leaf(BoundedRange(0.4), lambda w: BoundedRange(w.epsilon())),
    "Compose": Kind(Compose((Gaussian(3.0), Laplace(5.0))), "combination", lambda w, e: Compose((e, w.leaf()))),
    "CyclicPoisson": Kind(CyclicPoisson(2.0, 0.2, (1.0, 0.5), 9, 4), "training", _cyclic),
    "DiscreteGaussian": _leaf(DiscreteGaussian(3.0), lambda w: DiscreteGaussian(w.noise(), w.whole(1, 20))),
    "DiscreteLaplace": _leaf(DiscreteLaplace(4.0), lambda w: DiscreteLaplace(w.noise(), w.whole(1, 20))),
    "FixedSize": Kind(FixedSize(10, 1000, Gaussian(2.0)), "sampling", _fixed_size),
    "Gaussian": _leaf(Gaussian(2.0), lambda w: Gaussian(w.noise()), 2),
    "Laplace": _leaf(Laplace(4.0), lambda w: Laplace(w.noise())),
    "LastIterate": Kind(LastIterate(4.0, 500, 0.5, 1.0, 0.25, 100, rate=0.2, diameter=0.5), "training", _last_iterate),
    "MatrixFactorisation": Kind(
        MatrixFactorisation(3.0, ((1.0,), (0.5, 1.0), (0.375, 0.5, 1.0)), 2, 2), "training", _matrix
    ),
    "NoOp": _leaf(NoOp(), lambda w: NoOp()),
    "NoisyMax": _leaf(NoisyMax(0.3, "laplace"), lambda w: NoisyMax(w.epsilon(), str(w.rng.choice(NOISES)))),
    "NonPrivate": _leaf(NonPrivate(), lambda w: NonPrivate()),
    "ObjectivePerturbation": Kind(
        ObjectivePerturbation(3.0, 0.25, 1.0),
        "training",
        lambda w, _: ObjectivePerturbation(w.noise(), w.log(0.01, 10), w.log(1e-3, 100)),
    ),
    "PartitionSelection": _leaf(
        PartitionSelection(0.3, 1e-8), lambda w: PartitionSelection(w.epsilon(), w.log(1e-20, 1e-3))
    ),
    "Poisson": Kind(Poisson(0.1, Gaussian(1.0)), "sampling", lambda w, e: Poisson(w.log(1e-6, 1.0), e), 2),
    "RandomizedResponse": _leaf(
        RandomizedResponse(0.5, 3), lambda w: RandomizedResponse(w.log(0.01, 20), w.whole(2, 50))
    ),
    "Repeat": Kind(Repeat(Poisson(0.05, Gaussian(1.5)), 20), "combination", lambda w, e: Repeat(e, w.whole(1, 10**7))),
    "OneOf": Kind(
        OneOf((Gaussian(2.0), Repeat(Gaussian(5.0), 3))),
        "combination",
        lambda w, e: OneOf((e, *(w.leaf() for _ in range(int(w.rng.integers(0, 3)))))),
    ),
    "RepeatAndSelect": Kind(RepeatAndSelect(Gaussian(5.0), 5.0), "combination", _selection),
    "Shuffled": Kind(Shuffled(10, Gaussian(2.0)), "sampling", lambda w, e: Shuffled(w.whole(1, 1000), e)),
    "TruncatedPoisson": Kind(
        TruncatedPoisson(0.1, 50, Gaussian(1.0), 300),
        "sampling",
        lambda w, e: TruncatedPoisson(w.log(1e-4, 1.0), w.whole(1, 1000), e, w.whole(2, 10**6)),
    ),
    "ZCDP": _leaf(ZCDP(0.05), lambda w: ZCDP(w.log(1e-6, 100))),
}
EXAMPLES: dict[str, Event] = {name: kind.example for name, kind in KINDS.items()}
UNSUPPORTED = {
    ("FixedSize", "add-remove"),
    ("FixedSize", "zero-out"),
    ("Shuffled", "add-remove"),
    ("Allocation", "replace"),
}
ADJACENCY = {"FixedSize": "replace", "Shuffled": "replace"}
