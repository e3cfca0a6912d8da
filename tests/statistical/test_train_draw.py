"""Every sampling draws what its event says. Fixed seeds; each test errs with probability below 1e-6."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.core import BadInput
from tacit.loss import Plan
from tacit.train.noise.keys import Keystream
from tacit.train.sample.draw import Sampler, allocated, shuffled, without_replacement

ERROR = 1e-7
RUNS = 3000


def stream(seed: int = 0) -> Keystream:
    return Keystream(seed.to_bytes(32, "little"))


def fair(taken: np.ndarray, runs: int, rate: float) -> bool:
    level = ERROR / taken.size
    low, high = stats.binom.ppf(level, runs, rate), stats.binom.isf(level, runs, rate)
    return bool(((taken >= low) & (taken <= high)).all())


@pytest.mark.parametrize(("count", "batch"), [(20, 3), (20, 17), (7, 7), (9, 1), (50, 25)])
def test_a_fixed_size_is_exact_and_every_pair_of_units_is_equally_likely(count: int, batch: int) -> None:
    source, together = stream(), np.zeros((count, count), dtype=np.int64)
    for _ in range(RUNS):
        index = without_replacement(count, batch, source)
        assert len(index) == batch
        assert (np.diff(index) > 0).all()
        together[np.ix_(index, index)] += 1
    assert fair(np.diag(together), RUNS, batch / count)
    pairs = together[~np.eye(count, dtype=bool)]
    assert fair(pairs, RUNS, batch * (batch - 1) / (count * (count - 1)))


def test_sampling_with_replacement_would_be_caught() -> None:
    """The mutant: `batch` independent draws, repeats dropped."""
    source = stream()
    taken = np.zeros(20, dtype=np.int64)
    for _ in range(RUNS):
        taken[np.unique(source.integers(20, 10))] += 1
    assert not fair(taken, RUNS, 0.5)


def test_a_shuffled_pass_takes_everybody_once_in_a_uniform_place() -> None:
    source, where = stream(), np.zeros((23, 4), dtype=np.int64)
    for _ in range(RUNS):
        parts = shuffled(23, 4, source)
        assert sorted(np.concatenate(parts)) == list(range(23))
        assert [len(part) for part in parts] == [6, 6, 6, 5]
        for step, part in enumerate(parts):
            where[part, step] += 1
    assert fair(where[:, :3], RUNS, 6 / 23)


def test_units_are_allocated_independently() -> None:
    """Sizes are binomial, unlike those of a shuffle; two units meet as often as chance has it."""
    source, where, sizes, meet = stream(), np.zeros((30, 5), dtype=np.int64), [], 0
    for _ in range(RUNS):
        parts = allocated(30, 5, source)
        assert sorted(np.concatenate(parts)) == list(range(30))
        sizes.append(len(parts[0]))
        for step, part in enumerate(parts):
            where[part, step] += 1
            meet += int({0, 1} <= set(part))
    assert fair(where, RUNS, 0.2)
    assert fair(np.array([meet]), RUNS, 0.2)
    spread = np.square(np.array(sizes) - 6).sum() / (30 * 0.2 * 0.8)
    wide = stats.norm.isf(ERROR) * math.sqrt(2.2 * RUNS)
    assert abs(spread - RUNS) < wide
    mutant = sum((len(shuffled(30, 5, source)[0]) - 6) ** 2 for _ in range(RUNS)) / (30 * 0.2 * 0.8)
    assert abs(mutant - RUNS) > wide


def test_a_pass_keeps_its_order_and_the_next_has_another() -> None:
    for sampling, adjacency in (("shuffled", "replace"), ("allocation", "add-remove")):
        sampler = Sampler(Plan(40, 0.25, 8, 1.0, adjacency=adjacency, sampling=sampling), 40)
        first = [sampler(order, bytes(32)) for order in range(4)]
        again = Sampler(sampler.plan, 40)
        assert np.array_equal(again(2, bytes(32)), first[2])
        second = [sampler(order, bytes(31) + b"1") for order in range(4, 8)]
        assert sorted(np.concatenate(second)) == list(range(40))
        assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_fixed_size_is_a_share_of_the_public_number_exactly() -> None:
    plan = Plan(100, 0.25, 4, 1.0, adjacency="replace", sampling="fixed-size")
    with pytest.raises(BadInput, match="exactly public_size = 100 records"):
        Sampler(plan, 99)
