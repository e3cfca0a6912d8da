"""Random legal events of the whole registry, at extremes, and calibration over the same ranges.

Every event is answered, or refused as Unsupported by a rule that its error names. Asked of every answer: no other
exception, no infinity unless something in the event tells all, lower at most upper, both ends monotone in delta, and
CPU time (this process, one thread). Writes results/accounting-wild.json.
Run: OMP_NUM_THREADS=1 python benchmarks/accounting_wild.py [--quick] [--share N] [--seed N]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from machine import describe
from tacit.core.adjacency import Adjacency
from tacit.core.errors import BadInput, Unsupported
from tacit.core.event import walk
from tacit.core.events import (
    ZCDP,
    AboveThreshold,
    Allocation,
    ApproximateDP,
    BandedFactorisation,
    BoundedRange,
    Compose,
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
    PartitionSelection,
    Poisson,
    RandomizedResponse,
    Repeat,
    RepeatAndSelect,
    Shuffled,
    TruncatedPoisson,
)
from tacit.loss import calibrate, privacy_loss

OUT = Path(__file__).parent / "results" / "accounting-wild.json"
TELLS_ALL = NonPrivate, ApproximateDP, PartitionSelection
"""Events that may tell all with some probability, so that epsilon may be infinite."""


class Wild:
    """Random events: noise .01 to 1000, rates 1e-6 to 1, steps to 1e7, nested up to three deep."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def log(self, low: float, high: float) -> float:
        return float(np.exp(self.rng.uniform(math.log(low), math.log(high))))

    def whole(self, low: int, high: int) -> int:
        return round(self.log(low, high))

    def noise(self) -> float:
        return self.log(0.01, 1000.0)

    def leaf(self) -> Event:
        makers = [
            lambda: Gaussian(self.noise()),
            lambda: Gaussian(self.noise()),
            lambda: Laplace(self.noise()),
            lambda: RandomizedResponse(self.log(0.01, 20), self.whole(2, 50)),
            lambda: DiscreteGaussian(self.noise(), self.whole(1, 20)),
            lambda: DiscreteLaplace(self.noise(), self.whole(1, 20)),
            lambda: BoundedRange(self.log(0.001, 20)),
            lambda: NoisyMax(self.log(0.001, 20), str(self.rng.choice(["gumbel", "exponential", "laplace"]))),
            lambda: AboveThreshold(self.log(0.001, 20)),
            lambda: ApproximateDP(self.log(0.001, 20), float(self.rng.choice([0.0, self.log(1e-20, 1e-3)]))),
            lambda: PartitionSelection(self.log(0.001, 20), self.log(1e-20, 1e-3)),
            lambda: ZCDP(self.log(1e-6, 100)),
            lambda: NoOp() if self.rng.random() < 0.5 else NonPrivate(),
        ]
        return makers[int(self.rng.integers(len(makers)))]()

    def sampled(self, inner: Event) -> Event:
        size = self.whole(2, 10**6)
        makers = [
            lambda: Poisson(self.log(1e-6, 1.0), inner),
            lambda: Poisson(self.log(1e-6, 1.0), inner),
            lambda: TruncatedPoisson(self.log(1e-4, 1.0), self.whole(1, 1000), inner, size),
            lambda: FixedSize(self.whole(1, size), size, inner),
            lambda: Shuffled(self.whole(1, 1000), inner),
            lambda: self.allocation(inner),
        ]
        return makers[int(self.rng.integers(len(makers)))]()

    def allocation(self, inner: Event) -> Event:
        steps = self.whole(1, 1000)
        return Allocation(self.whole(1, steps), steps, inner)

    def training(self) -> Event:
        rows = int(self.rng.integers(1, 12))
        triangle = tuple(tuple(self.rng.uniform(-1, 2, row).tolist()) for row in range(1, rows + 1))
        bands = self.whole(1, 30)
        smooth, weight = self.log(0.01, 10), float(self.rng.choice([0.0, self.log(1e-4, 1)]))
        makers = [
            lambda: MatrixFactorisation(self.noise(), triangle, self.whole(1, 9), self.whole(1, 9)),
            lambda: BandedFactorisation(
                self.noise(), tuple(self.rng.random(bands).tolist()), self.whole(1, 10**7), self.whole(1, 99), bands
            ),
            lambda: ObjectivePerturbation(self.noise(), smooth, self.log(1e-3, 100)),
            lambda: LastIterate(
                self.noise(), self.whole(1, 10**6), self.rng.uniform(0, 1.9) / (smooth + 2 * weight), self.log(0.1, 9),
                smooth, self.whole(2, 10**6), float(self.rng.choice([1.0, self.log(1e-4, 1)])), weight,
                None if self.rng.random() < 0.5 else self.log(0.01, 100),
            ),
        ]  # fmt: skip
        return makers[int(self.rng.integers(len(makers)))]()

    def event(self, depth: int = 3) -> Event:
        kind = self.rng.random()
        if depth == 0 or kind < 0.25:
            return self.leaf()
        if kind < 0.5:
            return self.sampled(self.event(depth - 2) if self.rng.random() < 0.3 and depth > 1 else self.leaf())
        if kind < 0.75:
            return Repeat(self.event(depth - 1), self.whole(1, 10**7))
        if kind < 0.87:
            return Compose(tuple(self.event(depth - 1) for _ in range(int(self.rng.integers(1, 4)))))
        if kind < 0.92:
            shape = [None, self.rng.uniform(-0.99, 3)][int(self.rng.random() < 0.8)]
            return RepeatAndSelect(self.leaf(), self.log(1.01, 1e6), shape)
        return self.training()

    def question(self) -> tuple[Event, Adjacency, int, float]:
        group = int(self.rng.integers(2, 6)) if self.rng.random() < 0.15 else 1
        adjacency = list(Adjacency)[int(self.rng.integers(3))]
        return self.event(), adjacency, group, self.log(1e-20, 0.5)


def asked(event: Event, adjacency: Adjacency, group: int, delta: float) -> dict[str, Any]:
    """One answer, or why there is none, with its time."""
    start = time.process_time()
    try:
        found = privacy_loss(event, adjacency, group=group).epsilon(delta)
        answer: dict[str, Any] = {"lower": found.lower, "upper": found.upper}
    except Unsupported as error:
        answer = {"unsupported": error.fix or "no theorem"}
    except Exception as error:  # the sweep is to find them all
        answer = {"raised": f"{type(error).__name__}: {error}"[:200]}
    answer["ms"] = 1e3 * (time.process_time() - start)
    told = any(isinstance(part, TELLS_ALL) for part in walk(event))
    if answer.get("upper") == math.inf and not told:
        answer["infinite"] = True
    kinds = {type(part) for part in walk(event)}
    answer["kind"] = "allocation" if Allocation in kinds else "group" if group > 1 and Poisson in kinds else "other"
    return answer


def monotone(event: Event, adjacency: Adjacency, group: int, delta: float, first: dict[str, Any]) -> bool:
    """Whether a smaller delta costs no less, as far as both ends tell."""
    if "upper" not in first or delta < 1e-15:
        return True
    other = asked(event, adjacency, group, delta / 50)
    return bool(other["upper"] >= first["lower"] and other["upper"] >= first["upper"] * (1 - 2e-2) - 1e-6)


def settings(wild: Wild, count: int) -> dict[str, Any]:
    """Calibration of noise over the ranges of the sweep; a target that no noise misses or meets is an answer, too."""
    spent, refused, raised = [], Counter[str](), []
    for _ in range(count):
        given = {
            "epsilon": wild.log(0.01, 50), "delta": wild.log(1e-20, 0.1), "rate": wild.log(1e-6, 1.0),
            "steps": wild.whole(1, 10**7), "adjacency": list(Adjacency)[int(wild.rng.integers(3))],
        }  # fmt: skip
        start = time.process_time()
        try:
            found = calibrate(**given)
            if not found.epsilon.upper <= given["epsilon"]:
                raised.append({"given": str(given), "error": "above its target"})
        except BadInput as error:
            refused[error.message] += 1
        except Exception as error:
            raised.append({"given": str(given), "error": f"{type(error).__name__}: {error}"[:200]})
        spent.append(1e3 * (time.process_time() - start))
    return {"count": count, "ms": quantiles(spent), "no such setting": dict(refused), "raised": raised}


def training_sweep(wild: Wild, count: int) -> dict[str, Any]:
    """Poisson-sampled Gaussian training over a wide box."""
    spent, gaps, raised = [], [], []
    for _ in range(count):
        event = Repeat(Poisson(wild.log(1e-4, 1.0), Gaussian(wild.log(0.4, 20))), wild.whole(1, 10**6))
        delta = wild.log(1e-20, 1e-3)
        start = time.process_time()
        try:
            gaps.append(privacy_loss(event, "add-remove").epsilon(delta).gap)
        except Exception as error:
            raised.append(f"{event} {delta}: {error}"[:200])
        spent.append(1e3 * (time.process_time() - start))
    return {"count": count, "ms": quantiles(spent), "gap": quantiles(gaps), "raised": raised}


def quantiles(values: list[float]) -> dict[str, float]:
    ranked = sorted(values) or [0.0]
    at = lambda share: round(ranked[min(int(share * len(ranked)), len(ranked) - 1)], 6)  # noqa: E731
    return {"median": round(statistics.median(ranked), 6), "99 %": at(0.99), "largest": round(ranked[-1], 6)}


def events(wild: Wild, count: int) -> dict[str, Any]:
    answers, bad = [], []
    for _ in range(count):
        question = wild.question()
        answer = asked(*question)
        answers.append(answer)
        if "raised" in answer or "infinite" in answer:
            bad.append({"event": str(question), **answer})
        elif answer["ms"] < 200 and not monotone(*question, answer):
            bad.append({"event": str(question), **answer, "monotone": False})
    by_kind = {
        kind: [item["ms"] for item in answers if item["kind"] == kind] for kind in ("other", "group", "allocation")
    }
    slow = sorted(answers, key=lambda item: -item["ms"])[:3]
    return {
        "count": count,
        "answered": sum("upper" in item for item in answers),
        "both ends": sum(item.get("lower", 0.0) > 0 for item in answers),
        "unsupported": dict(Counter(item["unsupported"] for item in answers if "unsupported" in item)),
        "ms": {kind: quantiles(spent) for kind, spent in by_kind.items()},
        "slowest": slow,
        "bad": bad,
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--share", type=int, default=1, help="run one in so many cases of the whole campaign")
    options.add_argument("--seed", type=int, default=16)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    share = 20 if given.quick else given.share
    wild = Wild(given.seed)
    found = {
        "machine": describe("numpy", "scipy"),
        "events": events(wild, 5000 // share),
        "calibrate": settings(wild, 1000 // share),
        "training": training_sweep(wild, 1000 // share),
    }
    text = json.dumps(found, indent=1)
    if not given.quick:
        OUT.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
