"""Errors that releases state beforehand hold as often as they say, and half of them does not where they are sharp.

Every count of failures is compared with its binomial law at a chance of 1e-9; seeds are fixed.
"""

import numpy as np
import pytest
from scipy.stats import binom

from tacit import mechanism
from tacit.core import source

RUNS, CONFIDENCE, CHANCE = 400, 0.8, 1e-9
ENTRIES = np.array([1.3, -7.7, 1e5, 0.0])
SCORES = [0] * 50 + [10]
QUERIES = [0.0] * 10 + [5.0] * 5 + [40.0]
BIDS, PRICES = [1, 2, 3, 4, 5, 5, 5, 9], [1.0, 2.0, 5.0, 9.0]
REVENUE = {price: price * sum(bid >= price for bid in BIDS) for price in PRICES}
BREAKS, HEIGHTS = [0.2, 0.5, 0.9], [0.0, 3.0, 8.0, 1.0]


def found_off(answer):
    """How far the first query found is below the threshold 10, or one before it above."""
    first = answer.value[0] if answer.value else len(QUERIES)
    return max([10 - QUERIES[i] for i in answer.value] + [value - 10 for value in QUERIES[:first]])


def peeled_off(answer):
    left, off = list(range(20)), 0
    for i in answer.value:
        off = max(off, max(left) - i)
        left.remove(i)
    return off


SHARP = {
    "laplace": (lambda **k: mechanism.laplace(3.3, sensitivity=1.0, epsilon=0.5, **k), lambda a: abs(a.value - 3.3)),
    "laplace of an array": (
        lambda **k: mechanism.laplace(ENTRIES, sensitivity=1.0, epsilon=0.5, **k),
        lambda a: np.abs(a.value - ENTRIES).max(),
    ),
    "gaussian": (
        lambda **k: mechanism.gaussian(3.3, sensitivity=1.0, epsilon=0.5, delta=1e-5, **k),
        lambda a: abs(a.value - 3.3),
    ),
    "gaussian of an array": (
        lambda **k: mechanism.gaussian(ENTRIES, sensitivity=1.0, epsilon=0.5, delta=1e-5, **k),
        lambda a: np.abs(a.value - ENTRIES).max(),
    ),
    "discrete gaussian": (
        lambda **k: mechanism.gaussian(3, sensitivity=1, epsilon=0.5, delta=1e-5, **k),
        lambda a: abs(a.value - 3),
    ),
    "skellam": (
        lambda **k: mechanism.skellam(3, sensitivity=2, epsilon=1.0, delta=1e-4, **k),
        lambda a: abs(a.value - 3),
    ),
    "subsample and aggregate": (
        lambda **k: mechanism.subsample_and_aggregate([0.5] * 16, np.mean, blocks=4, bounds=(0, 1), epsilon=1.0, **k),
        lambda a: abs(a.value - 0.5),
    ),
}
LOOSE = {
    "noisy max": (
        lambda **k: mechanism.noisy_max(SCORES, sensitivity=1.0, epsilon=1.0, **k),
        lambda a: 10 - SCORES[a.value],
    ),
    "noisy max, laplace": (
        lambda **k: mechanism.noisy_max(SCORES, sensitivity=1.0, epsilon=1.0, noise="laplace", **k),
        lambda a: 10 - SCORES[a.value],
    ),
    "top": (lambda **k: mechanism.top(list(range(20)), 3, sensitivity=1.0, epsilon=3.0, **k), peeled_off),
    "above threshold": (
        lambda **k: mechanism.above_threshold(QUERIES, 10.0, sensitivity=1.0, epsilon=1.0, **k),
        found_off,
    ),
    "exponential over a range": (
        lambda **k: mechanism.exponential_range(HEIGHTS, BREAKS, bounds=(0, 1), sensitivity=1.0, epsilon=2.0, **k),
        lambda a: 8 - HEIGHTS[int(np.searchsorted(BREAKS, a.value))],
    ),
    "auction": (
        lambda **k: mechanism.auction(BIDS, PRICES, epsilon=5.0, **k),
        lambda a: max(REVENUE.values()) - REVENUE[a.value],
    ),
}


@pytest.mark.parametrize("name", [*SHARP, *LOOSE])
def test_stated_errors_hold_as_often_as_they_say(name):
    make, off = (SHARP | LOOSE)[name]
    chance = source(11)
    answers = [make(confidence=CONFIDENCE, rng=chance) for _ in range(RUNS)]
    assert len({answer.error for answer in answers}) == 1  # stated beforehand
    beyond = sum(off(answer) > answer.error * (1 + 1e-9) for answer in answers)
    assert binom.sf(beyond - 1, RUNS, 1 - CONFIDENCE) > CHANCE
    if name in SHARP:  # the mutant: half the error
        assert binom.sf(sum(off(answer) > answer.error / 2 for answer in answers) - 1, RUNS, 1 - CONFIDENCE) < CHANCE
