"""Which noise and threshold? Searched on votes about public records with public labels, so the choice costs nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from ..core import Adjacency, BadInput, check
from .aggregators import Aggregator, ConfidentGNMax, Counts, GNMax
from .analysis import vote_counts
from .design import Design

ANSWER = (0.04, 0.07, 0.1, 0.13, 0.16, 0.2)
SELECT = (0.2, 0.4, 0.6, 0.8)
THRESHOLD = (0.5, 0.7, 0.8, 0.9, 1.0, 1.2)
"""Shares of the number of teachers that are tried."""
DRAWS = 16
SPARE = 3.0
"""Standard deviations of the number of answers that the cap leaves room for."""


@dataclass(frozen=True)
class Found:
    """A rule with what it is expected to do on such queries: answers, the share of right ones, and epsilon."""

    aggregator: Aggregator
    queries: int
    answers: int
    expected_answers: float
    accuracy: float
    epsilon: float


def search(
    votes: ArrayLike,
    labels: ArrayLike,
    *,
    delta: float,
    epsilon: float,
    queries: int | None = None,
    accuracy: float = 0.0,
    adjacency: Adjacency | str = "add-remove",
    noise_answer: ArrayLike | None = None,
    noise_select: ArrayLike | None = None,
    threshold: ArrayLike | None = None,
) -> list[Found]:
    """Rank aggregation rules that stay within epsilon by how many right answers they are expected to give.

    queries: how many queries will be asked, as hard on average as these votes; None takes as many as there are votes.

    `accuracy` is the least share of right answers. Noise and thresholds are in votes: by default shares of the number
    of teachers. A rule is left out where nothing of it fits.
    Caller ensures: votes and labels are public, such as those of teachers that were trained on public records.
    """
    counts, right = vote_counts(votes), np.asarray(labels)
    if right.shape != (len(counts),):
        raise BadInput("There must be one public label for each row of votes.")
    if right.dtype.kind not in "iufb" or not ((right >= 0) & (right < counts.shape[1])).all():
        raise BadInput(f"labels must be columns of the votes: whole numbers from 0 to {counts.shape[1] - 1}.")
    check.probability("accuracy", accuracy)
    if check.delta(delta) == 0:
        raise BadInput("Gaussian noise needs a delta above 0.")
    if not counts.any():
        raise BadInput("Nobody voted: all votes are 0.")
    teachers, asked = int(counts.sum(axis=1).max()), len(counts) if queries is None else check.whole("queries", queries)
    neighbours, limit = Adjacency.of(adjacency), check.positive("epsilon", epsilon)
    answers = _tried("noise_answer", noise_answer, teachers, ANSWER)
    rules: list[Aggregator] = [GNMax(noise) for noise in answers]
    levels = _tried("threshold", threshold, teachers, THRESHOLD)
    selects = _tried("noise_select", noise_select, teachers, SELECT)
    rules += [ConfidentGNMax(*values) for values in product(levels, selects, answers)]
    shares = {noise: right_shares(counts, right, noise) for noise in answers}
    found = [_judged(rule, counts, shares, asked, delta, neighbours, limit) for rule in rules]
    kept = [item for item in found if item is not None and item.accuracy >= accuracy]
    return sorted(kept, key=lambda item: -item.expected_answers * (2 * item.accuracy - 1))


def _tried(name: str, given: ArrayLike | None, teachers: int, shares: Sequence[float]) -> list[float]:
    """The values that are tried: those given, or shares of the number of teachers."""
    if given is None:
        return [share * teachers for share in shares]
    values = np.asarray(given)
    if values.dtype.kind not in "iuf" or not values.size:
        raise BadInput(f"{name} must be numbers of votes to try.", fix=f"Give {name}=[10.0, 20.0].")
    return [float(value) for value in values.ravel()]


def right_shares(counts: Counts, labels: NDArray[np.int64], noise: float) -> NDArray[np.float64]:
    """How often each query is answered rightly, by simulation from a fixed seed."""
    rng = np.random.default_rng(0)
    hits = np.zeros(len(counts))
    for _ in range(DRAWS):
        hits += (counts + rng.normal(0, noise, counts.shape)).argmax(axis=1) == labels
    return hits / DRAWS


def _judged(
    rule: Aggregator,
    counts: Counts,
    shares: dict[float, NDArray[np.float64]],
    queries: int,
    delta: float,
    adjacency: Adjacency,
    epsilon: float,
) -> Found | None:
    passed = np.ones(len(counts))
    if isinstance(rule, ConfidentGNMax):
        passed = ndtr((counts.max(axis=1) - rule.threshold) / rule.noise_select)
    assert isinstance(rule, GNMax | ConfidentGNMax)
    scale = queries / len(counts)
    expected = float(passed.sum()) * scale
    room = SPARE * math.sqrt(float((passed * (1 - passed)).sum()) * scale)
    cap = max(1, min(queries, math.ceil(expected + room)))
    asked = cap if rule.answers_all else queries
    spent = Design(rule, asked, cap, delta, adjacency).epsilon
    if spent > epsilon and rule.answers_all:
        cap = asked = _fewer(rule, cap, delta, adjacency, epsilon)
        expected, spent = float(cap), Design(rule, max(cap, 1), max(cap, 1), delta, adjacency).epsilon
    if spent > epsilon or cap == 0 or passed.sum() <= 0:
        return None
    accuracy = float((passed * shares[rule.noise_answer]).sum() / passed.sum())
    return Found(rule, asked, cap, expected, accuracy, spent)


def _fewer(rule: Aggregator, most: int, delta: float, adjacency: Adjacency, epsilon: float) -> int:
    """The largest number of answers within epsilon; 0 where not one fits."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if Design(rule, middle, middle, delta, adjacency).epsilon <= epsilon else (low, middle)
        )
    return low
