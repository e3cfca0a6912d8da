"""Is the noise the noise? Every test has a fixed seed; the mutants (scale 0.9 and 1.1, a coin of 0.52) must fail it.

Each check rejects a right sampler with probability at most 1e-8 (five standard errors and more), and the seeds are
fixed, so none can flake; those of the system's source flake as seldom.
"""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.core import BadInput, source
from tacit.core.randomness import Cryptographic, Seeded

pytestmark = pytest.mark.entropy
N = 200_000
LEVEL = 1e-8


def is_normal(values):
    return stats.kstest(values, "norm").pvalue > LEVEL


def is_uniform(values):
    return stats.kstest(values, "uniform").pvalue > LEVEL


def is_fair(coins, rate=0.5):
    return abs(coins.mean() - rate) < 6 * math.sqrt(rate * (1 - rate) / coins.size)


@pytest.mark.parametrize("made", [Seeded(1), Cryptographic()])
def test_normal(made):
    assert is_normal(made.normal(N))


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_the_normal_test_catches_a_wrong_scale(scale):
    assert not is_normal(scale * Seeded(1).normal(N))


def test_normal_pairs_are_independent():
    values = Seeded(2).normal((2, N // 2))
    assert abs(np.corrcoef(values)[0, 1]) < 6 / math.sqrt(N / 2)
    assert abs(np.corrcoef(values**2)[0, 1]) < 6 / math.sqrt(N / 2)


def test_the_radius_reaches_beyond_what_32_bits_can():
    """Rule 11: a uniform of 32 bits cannot exceed 6.66 standard deviations; the smallest uniform here gives 8.6."""
    assert math.sqrt(-2 * math.log(0.5 * 2.0**-53)) > 8.6


def test_uniform_never_touches_the_ends():
    values = Seeded(3).uniform(N)
    assert is_uniform(values)
    assert values.min() > 0
    assert values.max() < 1


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_uniform_stays_inside_for_the_extreme_words(monkeypatch, word):
    """In float64 the last midpoint rounds to 1, and a certain event would fail."""
    monkeypatch.setattr(Seeded, "words", lambda self, count: np.full(count, word, dtype=np.uint64))
    assert 0.0 < float(source(1).uniform()) < 1.0
    assert bool(source(1).bernoulli(1.0))
    assert np.isfinite(source(1).normal(2)).all()


def test_coins_and_bernoulli():
    assert is_fair(Seeded(4).coins(N))
    assert is_fair(Seeded(5).bernoulli(0.03, N), 0.03)
    assert not is_fair(Seeded(5).bernoulli(0.52, N))


def test_permutations_are_uniform():
    chance = Seeded(6)
    codes = [int("".join(map(str, chance.permutation(3)))) for _ in range(6000)]
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > LEVEL


def test_integers_stay_inside():
    values = Seeded(7).integers(7, 70_000)
    assert stats.chisquare(np.bincount(values, minlength=7)).pvalue > LEVEL


def test_seeds_repeat_and_differ():
    assert np.array_equal(Seeded(1).normal(5), Seeded(1).normal(5))
    assert not np.array_equal(Seeded(1).normal(5), Seeded(2).normal(5))
    first, second = Seeded(1).spawn(2)
    assert not np.array_equal(first.words(4), second.words(4))


def test_the_default_is_cryptographic():
    assert source(None).cryptographic
    assert not source(3).cryptographic
    assert not source(np.random.default_rng(0)).cryptographic


@pytest.mark.parametrize("rng", [-1, 1.5, "seed", True])
def test_other_seeds_are_refused(rng):
    with pytest.raises(BadInput):
        source(rng)
