"""The three games that are played on every animal of the zoo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from bugs_zoo import PLAN, RECORDS, Canary, Training
from tacit.audits import Played, audit, stated, watch
from tacit.audits.scoring import balanced, scored
from tacit.core import Evidence, Scores


def records() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_digits(return_X_y=True)
    return x[:RECORDS] / 16.0, y[:RECORDS]


def audited(kind: type[Training], runs: int, confidence: float, seed: int) -> dict[str, Any]:
    """An attacker who sees the final model's predictions on a canary; it ends with the first refutation."""
    return _told(lambda x, y, rng: kind(rng).fit(x, y), "sequential", runs, confidence, seed)


def stepped(kind: type[Training], runs: int, confidence: float, seed: int) -> dict[str, Any]:
    """An attacker who sees predictions on a canary after every step; all runs are played."""
    return _told(lambda x, y, rng: kind(rng).steps(x, y), "updates", runs, confidence, seed)


def _told(fit: Any, game: str, runs: int, confidence: float, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    evidence = audit(fit, records(), claim=PLAN, game=game, runs=runs, confidence=confidence, rng=seed)
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
    x, y = records()
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
