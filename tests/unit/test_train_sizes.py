"""Sizes of the parts of a sample: public, few, and with little padding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.train.sample.examples import Batch, Examples
from tacit.train.sample.sizes import LADDER_FROM, PADDING, part_sizes, parts_at_most, size_for

CASES = [(32, 48), (32, 1024), (64, 256), (100, 1024), (256, 32), (256, 1024), (512, 640), (4096, 512), (60_000, 1024)]


def padding(expected: float, sizes: tuple[int, ...]) -> float:
    """The share of empty slots over drawn samples."""
    drawn = np.random.default_rng(0).poisson(expected, 20_000)
    slots = sum(n // sizes[-1] * sizes[-1] + (size_for(n % sizes[-1], sizes) if n % sizes[-1] else 0) for n in drawn)
    return 1 - drawn.sum() / slots


@pytest.mark.parametrize(("expected", "most"), CASES)
def test_long_runs_leave_about_a_tenth_empty_at_most(expected: int, most: int) -> None:
    sizes = part_sizes(expected, math.sqrt(expected), most, LADDER_FROM)
    assert sizes == tuple(sorted(set(sizes)))
    assert sizes[0] >= 1
    assert sizes[-1] <= most
    assert len(sizes) <= 3
    assert padding(expected, sizes) <= PADDING + 0.01


@pytest.mark.parametrize(("expected", "most"), CASES)
def test_a_short_run_has_one_size(expected: int, most: int) -> None:
    """With a quarter empty at most, where a third was; from some hundred records on a tenth or less."""
    (size,) = part_sizes(expected, math.sqrt(expected), most, LADDER_FROM - 1)
    assert padding(expected, (size,)) <= (0.11 if expected >= 512 or most < expected else 0.27)


def test_a_sample_of_a_known_size_leaves_next_to_nothing_empty() -> None:
    assert part_sizes(100, 0.0, 64) == (56,)
    assert part_sizes(4096, 0.0, 1024) == (1024,)
    assert part_sizes(7, 0.0, 1024) == (7,)


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 16, 21])
@pytest.mark.parametrize("sizes", [(8,), (2, 8), (3, 5, 8)])
def test_parts_hold_every_unit_once_and_have_one_of_the_sizes(count: int, sizes: tuple[int, ...]) -> None:
    *smaller, physical = sizes
    index = np.arange(count) * 2
    batch = Batch(Examples.of((np.arange(99), np.arange(99))), index, 0, physical, True, None, tuple(smaller))
    found = list(batch.parts())
    assert np.concatenate([rows[0][mask].numpy() for rows, mask in found]).tolist() == index.tolist()
    assert [len(mask) for _, mask in found] == [size for _, _, size in batch.cuts()]
    assert {len(mask) for _, mask in found} <= set(sizes)
    assert all(len(mask) == physical for _, mask in found[:-1])


def test_hardly_a_sample_has_more_parts_than_there_is_room_for() -> None:
    for expected in (1, 12, 300, 5000):
        room = 64 * parts_at_most(expected, math.sqrt(expected), 64)
        assert (np.random.default_rng(1).poisson(expected, 100_000) > room).mean() < 1e-4
