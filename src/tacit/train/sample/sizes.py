"""Choose the fixed sizes of the parts that a sample is cut into, such that little padding is computed.

A compiled step is made for parts of a fixed size, and computing the padding is wasted. Sizes are chosen before the
first step from public numbers alone: the expected size of a sample and its standard deviation. All parts of a sample
have the largest size except the last, which has the smallest size that holds it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

PADDING = 0.1
"""The share of padding above which a second size is worth its compilation."""
LADDER_FROM = 20_000
"""The number of steps from which several sizes pay: compiling one takes as long as some thousand steps."""
PART = 1 / 8
"""The extra cost of one more part, as a share of the largest size: it has sums of its own, for example."""
MOST_SIZES, FAR, LIKELY = 3, 6, 2


def part_sizes(expected: float, deviation: float, most: int, steps: int = 0) -> tuple[int, ...]:
    """Sizes in ascending order, at most `most`; more than one only for at least LADDER_FROM `steps`."""
    return _sizes(float(expected), float(deviation), int(most), steps >= LADDER_FROM)


def parts_at_most(expected: float, deviation: float, largest: int) -> int:
    """An upper bound on the number of parts of a sample, exceeded almost never."""
    return max(1, math.ceil((expected + FAR * deviation) / largest))


def size_for(count: int, sizes: tuple[int, ...]) -> int:
    """The smallest of the ascending `sizes` that is at least `count`."""
    return next(size for size in sizes if size >= count)


@lru_cache
def _sizes(expected: float, deviation: float, most: int, long: bool) -> tuple[int, ...]:
    counts, chance = _samples(expected, deviation)
    step = 8 if most >= 64 and expected >= 64 else 2 if expected >= 16 else 1
    highest = min(most, max(1, math.ceil((expected + LIKELY * deviation) / step) * step))
    candidates = sorted({highest, *range(highest - highest % step, highest // 2, -step)} - {0})
    costs = {size: _slots(counts, (size,)) + PART * highest * np.ceil(counts / size) for size in candidates}
    one = (min(candidates, key=lambda size: float(costs[size] @ chance)),)
    if not long or _padding(counts, chance, one) <= PADDING:
        return one
    ladders = [one]
    for top in {candidates[-1], *one}:
        inner = [size for size in candidates if size < top][-24:]
        ladders += [(*some, top) for more in range(1, MOST_SIZES) for some in combinations(inner, more)]
    return min(ladders, key=lambda sizes: (round(_padding(counts, chance, sizes), 3), len(sizes), sizes))


def _samples(expected: float, deviation: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sample sizes and their approximate probabilities."""
    if deviation == 0:
        return np.array([max(1, math.ceil(expected))]), np.ones(1)
    first = max(1, math.floor(expected - FAR * deviation))
    counts = np.arange(first, math.ceil(expected + FAR * deviation) + 1)
    if len(counts) > 2048:
        counts = counts[:: len(counts) // 1024]
    chance = np.exp(-(((counts - expected) / deviation) ** 2) / 2)
    return counts, chance / chance.sum()


def _slots(counts: NDArray[np.int64], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """How many slots, padding included, samples of these sizes occupy."""
    whole, rest = np.divmod(counts, sizes[-1])
    ladder = np.array((0, *sizes))
    return whole * sizes[-1] + ladder[np.searchsorted(ladder, rest)]


def _padding(counts: NDArray[np.int64], chance: NDArray[np.float64], sizes: tuple[int, ...]) -> float:
    """The expected share of padding."""
    return float(1 - counts @ chance / (_slots(counts, sizes) @ chance))
